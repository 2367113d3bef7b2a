//! A model: its file checked, then loaded into memory, ready to run.

use super::machine::Machine;
use super::memory_plan::{Limit, MemoryPlan, Needs};
use super::model_file::{ModelFile, bad_model};
use super::preset::{Preset, TemplateText};
use crate::error::{Error, ErrorKind};
use crate::options::Stream;
use crate::size::Size;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strata_host::{HugePages, PageReport};
use strata_model::spec::{Position, Role};
use strata_model::{
    Blueprint, KvType, LoadError, LoadOptions, Model, PageLayout, PageStorage, arch,
};
use strata_tokenizer::Tokenizer;
use strata_weights::Metadata;

/// The context where none is asked for and the model has more.
const DEFAULT_CONTEXT: usize = 4096;

/// Whether a model without a usable tokenizer serves.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum TokenizerUse {
    /// It does not.
    Required,
    /// It does, for tokens given as numbers.
    Optional,
}

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
    /// The model but for its weights.
    pub blueprint: Blueprint<'f>,
    tokenizer: Result<Arc<Tokenizer>, Error>,
    template: Option<TemplateText>,
    /// Positions that a sequence has at most.
    pub context: usize,
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
        let start = Instant::now();
        let path = file.path();
        let parsed = file.parse()?;
        let metadata = parsed.metadata();
        let preset = file.preset();
        let wanted = preset.and_then(|preset| preset.parameters.context);
        let wanted = wanted.map(|wanted| wanted.min(own_context(metadata).unwrap_or(wanted)));
        let context = context
            .or(wanted)
            .or_else(|| Some(own_context(metadata)?.min(DEFAULT_CONTEXT)));
        let tokenizer = Tokenizer::from_gguf(metadata).map(Arc::new);
        let mut tokenizer = tokenizer.map_err(|error| bad_model(path, error));
        if tokenizer_use == TokenizerUse::Required {
            tokenizer = Ok(tokenizer?);
        }
        let blueprint = Blueprint::new(&parsed, LoadOptions { context })
            .map_err(|error| load_failure(path, error))?;
        let config = blueprint.config();
        let context = context.unwrap_or(config.context);
        // A table of positions has no more than it has; others can be asked for more than the model was trained for.
        if config.spec.position == Position::Learned && context > config.context {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format_args!("the model has {} positions, not {context}", config.context),
            )
            .with_hint("ask for fewer"));
        }
        let scored = config.vocabulary;
        if let Some(tokens) = tokenizer
            .as_ref()
            .ok()
            .map(|tokenizer| tokenizer.vocab_size())
            && tokens > scored
        {
            return Err(bad_model(
                path,
                format_args!("the tokenizer has {tokens} tokens and the model scores {scored}"),
            ));
        }
        let template = metadata
            .str("tokenizer.chat_template")
            .map_err(|error| bad_model(path, error))?
            .map(str::to_owned);
        let template = match preset {
            Some(preset) => preset.choose(template),
            None => template.map(TemplateText::Jinja),
        };
        Ok(Self {
            start,
            file,
            blueprint,
            tokenizer,
            template,
            context,
        })
    }

    /// The tokenizer, or why there is none.
    pub fn tokenizer(&self) -> Result<&Tokenizer, Error> {
        self.tokenizer.as_deref().map_err(Error::clone)
    }

    /// The tokenizer, for those who outlive the model.
    pub fn shared_tokenizer(&self) -> Result<Arc<Tokenizer>, Error> {
        self.tokenizer.clone()
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
        .with_hint("leave --kv q8_0 out"))
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
                    "{} is an encoder: it reads whole texts and generates none",
                    self.file.path().display()
                ),
            )
            .with_hint("strata embed and strata rerank take it"));
        }
        self.load_any(needs, choice, machine, progress)
    }

    /// Whether it predicts tokens or reads texts as a whole.
    pub fn role(&self) -> Role {
        self.blueprint.config().spec.role
    }

    /// Takes the memory for keys and values, and brings the weights into memory, as far as `choice` lets it. `progress` hears of bytes packed and bytes in all, and cancels with
    /// [`ControlFlow::Break`].
    pub fn load_any(
        self,
        needs: Needs,
        choice: WeightChoice,
        machine: &Machine,
        progress: &mut dyn FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<(LoadedModel, PageStorage), Error> {
        let path = self.file.path();
        let fail = |error| load_failure(path, error);
        self.check_kv(needs.kv)?;
        let plan = MemoryPlan::new(&self.blueprint, needs, choice.limit());
        let placement = plan.place(path, choice)?;
        let memory = HugePages::default();
        let config = self.blueprint.config();
        let positions = match self.role() {
            Role::Decoder => needs.positions,
            Role::Encoder => 0,
        };
        let layout = PageLayout::new(config, needs.kv);
        let kv = PageStorage::new(layout, positions, needs.states, &memory)
            .map_err(|error| fail(error.into()))?;
        let backing = self.file.backing();
        // Other models compute meanwhile, with the same workers.
        let pool = machine.pool_in_turns();
        let model = self
            .blueprint
            .build_unless_stopped(placement, &memory, backing, &pool, progress);
        let loaded = LoadedModel {
            model: Arc::new(model.map_err(fail)?),
            tokenizer: self.tokenizer,
            template: self.template,
            context: self.context,
            load_time: self.start.elapsed(),
        };
        Ok((loaded, kv))
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

pub(super) fn own_context(metadata: &Metadata<'_>) -> Option<usize> {
    let name = metadata.str("general.architecture").ok()??;
    let own = metadata.u32(&format!("{name}.context_length")).ok()??;
    Some(own as usize)
}

fn load_failure(path: &Path, error: LoadError) -> Error {
    match &error {
        LoadError::OutOfMemory(_) => {
            Error::new(ErrorKind::OutOfMemory, format_args!("{}: {error}", path.display()))
                .with_hint("choose a smaller model or close other programs")
        }
        LoadError::Stopped => Error::new(ErrorKind::Canceled, &error),
        LoadError::Architecture { .. } => {
            let known: Vec<&str> = arch::ALL.iter().map(|spec| spec.name).collect();
            bad_model(path, &error).with_hint(format_args!("those that run are {}", known.join(", ")))
        }
        LoadError::SurplusTensor { .. } => bad_model(path, &error).with_hint(
            "the model may be a variant of its architecture that is not supported; ignoring a tensor would make its answers wrong",
        ),
        _ => bad_model(path, &error),
    }
}
