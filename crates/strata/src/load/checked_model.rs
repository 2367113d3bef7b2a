//! A model: its file checked, then loaded into memory, ready to run.

use super::machine::Machine;
use super::memory_plan::{Limit, MemoryPlan};
use super::model_file::{ModelFile, bad_model};
use super::needs::Needs;
use super::parsed_model::{ContextChoice, ParseError, ParsedModel, Platform, TokenizerUse};
use super::preset::Preset;
use super::template_text::TemplateText;
use crate::error::{Error, ErrorKind};
use crate::options::Stream;
use crate::size::Size;
use std::ops::{ControlFlow, Deref};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strata_chat::ModelProfile;
use strata_host::{HugePages, PageReport};
use strata_model::spec::Role;
use strata_model::{KvType, LoadError, Model, NextnUse, PageStorage, Placement, Stretch};
use strata_platform::Pool;
use strata_tokenizer::Tokenizer;

/// Where weights may be, and how much memory there is.
#[derive(Copy, Clone, Debug, Default)]
pub struct WeightChoice {
    /// Whether weights may stay in the file.
    pub stream: Stream,
    /// The most memory that may be used in all; what the machine has left if not given.
    pub memory: Option<u64>,
}

impl WeightChoice {
    /// The memory that may be used in all.
    pub fn limit(&self) -> Limit {
        let now = Limit::now();
        match self.memory {
            Some(bytes) if bytes < now.bytes => Limit::of(bytes),
            _ => now,
        }
    }
}

/// A model whose file is in order, before anything large is done about it.
pub struct CheckedModel<'f> {
    start: Instant,
    file: &'f ModelFile,
    parsed: ParsedModel<'f>,
    template: Option<TemplateText>,
}

/// A model in memory, its tokenizer, and how long its sequences may get.
pub struct LoadedModel {
    /// The weights.
    pub model: Arc<Model>,
    tokenizer: Result<Arc<Tokenizer>, Error>,
    /// Its chat template.
    pub template: Option<TemplateText>,
    /// Positions that a sequence has at most.
    pub context: usize,
    /// How long it took.
    pub load_time: Duration,
}

impl<'f> CheckedModel<'f> {
    /// Checks a file, for sequences of `context` positions, of as many as its Modelfile says, or of as many as the model
    /// has, up to 4096.
    pub fn new(
        file: &'f ModelFile,
        context: Option<usize>,
        tokenizer_use: TokenizerUse,
    ) -> Result<Self, Error> {
        Self::of_part(file, context, tokenizer_use, (None, NextnUse::Omit))
    }

    /// The same, where this machine has only a part of the model's layers, or has the one that predicts the token after the next
    /// too.
    pub fn of_part(
        file: &'f ModelFile,
        context: Option<usize>,
        tokenizer_use: TokenizerUse,
        (part, nextn): (Option<Stretch>, NextnUse),
    ) -> Result<Self, Error> {
        let start = Instant::now();
        let preset = file.preset();
        let context = ContextChoice {
            asked: context,
            preset: preset.and_then(|preset| preset.parameters.context),
        };
        let choices = (file.untested(), part, nextn);
        let parsed = ParsedModel::with_choices(&file.parse()?, context, tokenizer_use, choices)
            .map_err(|error| parse_failure(file.path(), error))?;
        let in_file = parsed.template.clone().map(TemplateText::Jinja);
        let template = match preset {
            Some(preset) => preset.choose(in_file),
            None => in_file,
        };
        Ok(Self {
            start,
            file,
            parsed,
            template,
        })
    }

    /// The tokenizer, or why there is none.
    pub fn tokenizer(&self) -> Result<&Tokenizer, Error> {
        let tokenizer = self.parsed.tokenizer.as_deref();
        tokenizer.map_err(|error| bad_model(self.file.path(), error))
    }

    /// The tokenizer, for those who outlive the model.
    pub fn shared_tokenizer(&self) -> Result<Arc<Tokenizer>, Error> {
        let tokenizer = self.parsed.tokenizer.clone();
        tokenizer.map_err(|error| bad_model(self.file.path(), error))
    }

    /// What requests see of the model.
    pub fn profile(&self) -> Result<ModelProfile, Error> {
        let (jinja, go) = match &self.template {
            Some(TemplateText::Jinja(source)) => (Some(source.as_str()), None),
            Some(TemplateText::Go(source)) => (None, Some(source.as_str())),
            None => (None, None),
        };
        let profile = self.parsed.profile(jinja);
        let mut profile = profile.map_err(|error| bad_model(self.file.path(), error))?;
        if let Some(source) = go {
            profile = profile.with_go_template(source);
        }
        if let Some(preset) = self.preset() {
            let parameters = preset.parameters.clone();
            profile.sampling = parameters.sampling.or(&profile.sampling);
            profile.stop = parameters.stop;
            profile.max_tokens = parameters.max_tokens;
            profile.system = preset.system.clone().filter(|text| !text.is_empty());
            profile.messages = preset.messages.clone();
        }
        Ok(profile)
    }

    /// The chat template.
    pub fn template(&self) -> Option<&TemplateText> {
        self.template.as_ref()
    }

    /// What its Modelfile says, if it is a model of the store.
    pub fn preset(&self) -> Option<&'f Preset> {
        self.file.preset()
    }

    /// Fails if keys and values cannot be stored so.
    pub fn check_kv(&self, kind: KvType) -> Result<(), Error> {
        let config = self.blueprint.config();
        if config.stores_kv(kind) {
            return Ok(());
        }
        let mut sizes = config.attention().map(|attention| attention.head_size);
        let head = sizes.find(|size| !size.is_multiple_of(32)).unwrap_or(0);
        Err(Error::new(
            ErrorKind::InvalidArgument,
            format_args!(
                "{}: heads of {head} values cannot be stored in blocks of 32",
                self.file.path().display(),
            ),
        )
        .with_hint("omit --kv q8_0"))
    }

    /// Loads a model that predicts tokens, as [`load_any`](Self::load_any) does.
    pub fn load(
        self,
        needs: Needs,
        choice: WeightChoice,
        machine: &Machine,
        progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<(LoadedModel, PageStorage), Error> {
        if self.role() == Role::Encoder {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format_args!(
                    "{} is an encoder, which cannot generate text",
                    self.file.path().display()
                ),
            )
            .with_hint("use `strata embed` or `strata rerank`"));
        }
        self.load_any(needs, choice, machine, progress)
    }

    /// Takes the memory for keys and values, and brings the weights into memory, as far as `choice` lets it. `progress`
    /// hears of bytes packed and bytes in all, and cancels with [`ControlFlow::Break`].
    pub fn load_any(
        self,
        needs: Needs,
        choice: WeightChoice,
        machine: &Machine,
        progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<(LoadedModel, PageStorage), Error> {
        let path = self.file.path();
        self.check_kv(needs.kv)?;
        let plan = MemoryPlan::new(&self.blueprint, needs, choice.limit());
        let plan = plan.for_context(self.context);
        let placement = plan.place(path, choice)?;
        let tokenizer = self.shared_tokenizer();
        let (template, context) = (self.template.clone(), self.context);
        let platform = Platform {
            // Other models compute meanwhile, with the same workers.
            pool: machine.pool_in_turns(),
            memory: &HugePages::default(),
            progress,
        };
        let loaded = self
            .parsed
            .load(&needs, placement, self.file.backing(), platform);
        let (model, storage) = loaded.map_err(|error| load_failure(path, error))?;
        let loaded = LoadedModel {
            model,
            tokenizer,
            template,
            context,
            load_time: self.start.elapsed(),
        };
        Ok((loaded, storage))
    }

    /// Brings the weights of a model into memory, as far as `placement` says, and takes none for keys and values.
    pub(crate) fn load_weights(
        self,
        placement: Placement,
        pool: Arc<dyn Pool + Send>,
        progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<LoadedModel, Error> {
        let (tokenizer, backing) = (self.shared_tokenizer(), self.file.backing());
        let memory = HugePages::default();
        let built = self
            .parsed
            .blueprint
            .build_unless_stopped(placement, &memory, backing, &*pool, progress);
        let model = built.map_err(|error| load_failure(self.file.path(), error))?;
        Ok(LoadedModel {
            model: Arc::new(model),
            tokenizer,
            template: self.template,
            context: self.parsed.context,
            load_time: self.start.elapsed(),
        })
    }
}

impl<'f> Deref for CheckedModel<'f> {
    type Target = ParsedModel<'f>;

    fn deref(&self) -> &ParsedModel<'f> {
        &self.parsed
    }
}

impl LoadedModel {
    /// The tokenizer, or why there is none.
    pub fn tokenizer(&self) -> Result<&Tokenizer, Error> {
        self.tokenizer.as_deref().map_err(Error::clone)
    }

    /// The tokenizer, for those who outlive the model.
    pub fn shared_tokenizer(&self) -> Result<Arc<Tokenizer>, Error> {
        self.tokenizer.clone()
    }

    /// What was loaded and what memory it got.
    pub fn description(&self, name: &str, storage: &PageStorage) -> String {
        let weights = match PageReport::of(self.model.packed()) {
            Some(report) => report.to_string(),
            None => Size(self.model.packed_bytes() as u64).to_string(),
        };
        let mut text = format!(
            "{name} {weights}, loaded in {:.3} s; keys and values of {} positions take {}",
            self.load_time.as_secs_f64(),
            self.context,
            Size(storage.bytes() as u64)
        );
        let streamed = self.model.streamed_bytes() as u64;
        if streamed > 0 {
            text += &format!(
                "\n{} of weights stay in the file and are read for each batch",
                Size(streamed)
            );
        }
        text
    }
}

pub(super) fn parse_failure(path: &Path, error: ParseError) -> Error {
    match error {
        ParseError::Load(error) => load_failure(path, error),
        ParseError::Positions { .. } => {
            Error::new(ErrorKind::InvalidArgument, error).with_hint("use a smaller --ctx")
        }
        error => bad_model(path, error),
    }
}

fn load_failure(path: &Path, error: LoadError) -> Error {
    match &error {
        LoadError::OutOfMemory(_) => {
            Error::new(ErrorKind::OutOfMemory, format_args!("{}: {error}", path.display()))
                .with_hint("use a smaller model, or close other programs")
        }
        LoadError::Stopped => Error::new(ErrorKind::Canceled, &error),
        LoadError::Architecture { .. } | LoadError::KnownArchitecture { .. } => {
            bad_model(path, &error).with_hint("`strata inspect --architectures` lists those that run")
        }
        LoadError::UntestedArchitecture { name } => bad_model(path, &error)
            .with_hint(format_args!("use --untested {name} to run it all the same")),
        LoadError::SurplusTensor { .. } => bad_model(path, &error).with_hint(
            "the model may be a variant of its architecture that is not supported; ignoring a tensor would make its answers wrong",
        ),
        LoadError::NoNextn | LoadError::SeveralNextn { .. } | LoadError::NextnFamily { .. } => {
            let sentence = format_args!("{}: {error}", path.display());
            Error::new(ErrorKind::InvalidArgument, sentence)
                .with_hint("use --speculate=auto, which drafts with what there is")
        }
        _ => bad_model(path, &error),
    }
}
