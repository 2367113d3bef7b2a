//! A model: its file checked, then loaded into memory, ready to run.

use crate::computing::{ComputeArguments, Stream};
use crate::failure::{Failure, Kind};
use crate::machine::Machine;
use crate::memory_plan::{Limit, MemoryPlan, Needs};
use crate::model_file::{ModelFile, bad_model};
use crate::preset::{Preset, TemplateText};
use crate::progress::LoadProgress;
use crate::size::Size;
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
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) enum Words {
    Required,
    IfAny,
}

/// A model whose file is in order, before anything large is done about it.
pub(crate) struct CheckedModel<'f> {
    start: Instant,
    file: &'f ModelFile,
    pub(crate) blueprint: Blueprint<'f>,
    tokenizer: Result<Arc<Tokenizer>, Failure>,
    template: Option<TemplateText>,
    /// Positions that a sequence has at most.
    pub(crate) context: usize,
}

/// A model, its words, and how long a text it is loaded for.
pub(crate) struct LoadedModel {
    pub(crate) model: Arc<Model>,
    tokenizer: Result<Arc<Tokenizer>, Failure>,
    /// Its chat template.
    pub(crate) template: Option<TemplateText>,
    pub(crate) context: usize,
    pub(crate) load_time: Duration,
}

impl<'f> CheckedModel<'f> {
    /// Checks a file, for sequences of `context` positions, of as many as its Modelfile says, or of as many as the model
    /// has, up to 4096.
    pub(crate) fn new(
        file: &'f ModelFile,
        context: Option<usize>,
        words: Words,
    ) -> Result<Self, Failure> {
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
        if words == Words::Required {
            tokenizer = Ok(tokenizer?);
        }
        let blueprint = Blueprint::new(&parsed, LoadOptions { context })
            .map_err(|error| load_failure(path, error))?;
        let config = blueprint.config();
        let context = context.unwrap_or(config.context);
        // A table of positions has no more than it has; others can be asked for more than the model was trained for.
        if config.spec.position == Position::Learned && context > config.context {
            return Err(Failure::new(
                Kind::Usage,
                format_args!("the model has {} positions, not {context}", config.context),
            )
            .hint("ask for fewer"));
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
    pub(crate) fn tokenizer(&self) -> Result<&Tokenizer, Failure> {
        self.tokenizer.as_deref().map_err(Failure::clone)
    }

    /// The tokenizer, for those who outlive the model.
    pub(crate) fn shared_tokenizer(&self) -> Result<Arc<Tokenizer>, Failure> {
        self.tokenizer.clone()
    }

    /// The chat template.
    pub(crate) fn template(&self) -> Option<&TemplateText> {
        self.template.as_ref()
    }

    /// What its Modelfile says, if it is a model of the store.
    pub(crate) fn preset(&self) -> Option<&'f Preset> {
        self.file.preset()
    }

    /// Fails if keys and values cannot be stored so.
    pub(crate) fn check_kv(&self, kind: KvType) -> Result<(), Failure> {
        let config = self.blueprint.config();
        if config.stores_kv(kind) {
            return Ok(());
        }
        let mut sizes = config.attention().map(|attention| attention.head_size);
        let head = sizes.find(|size| !size.is_multiple_of(32)).unwrap_or(0);
        Err(Failure::new(
            Kind::Usage,
            format_args!(
                "{}: heads of {head} values cannot be stored in blocks of 32",
                self.file.path().display(),
            ),
        )
        .hint("leave --kv q8_0 out"))
    }

    /// Loads a model that foretells words, as [`load_any`](Self::load_any) does.
    pub(crate) fn load(
        self,
        needs: Needs,
        stream: Stream,
        arguments: &ComputeArguments,
        machine: &Machine,
    ) -> Result<(LoadedModel, PageStorage), Failure> {
        if self.role() == Role::Encoder {
            return Err(Failure::new(
                Kind::Usage,
                format_args!(
                    "{} is an encoder: it reads whole texts and foretells nothing",
                    self.file.path().display()
                ),
            )
            .hint("strata embed and strata rerank take it"));
        }
        self.load_any(needs, stream, arguments, machine)
    }

    pub(crate) fn role(&self) -> Role {
        self.blueprint.config().spec.role
    }

    /// Takes the memory for keys and values, and brings the weights into memory, as far as `arguments` let it.
    pub(crate) fn load_any(
        self,
        needs: Needs,
        stream: Stream,
        arguments: &ComputeArguments,
        machine: &Machine,
    ) -> Result<(LoadedModel, PageStorage), Failure> {
        let path = self.file.path();
        let fail = |error| load_failure(path, error);
        self.check_kv(needs.kv)?;
        let plan = MemoryPlan::new(&self.blueprint, needs, Limit::now());
        let placement = plan.place(path, stream, arguments.memory.is_some())?;
        let memory = HugePages::default();
        let config = self.blueprint.config();
        let positions = match self.role() {
            Role::Decoder => needs.positions,
            Role::Encoder => 0,
        };
        let layout = PageLayout::new(config, needs.kv);
        let kv = PageStorage::new(layout, positions, needs.states, &memory)
            .map_err(|error| fail(error.into()))?;
        let mut progress = LoadProgress::new();
        let show = &mut |done, total| progress.show(done, total);
        let backing = self.file.backing();
        let model = self
            .blueprint
            .build(placement, &memory, backing, &*machine.pool, show);
        drop(progress);
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
    pub(crate) fn tokenizer(&self) -> Result<&Tokenizer, Failure> {
        self.tokenizer.as_deref().map_err(Failure::clone)
    }

    /// The tokenizer, for those who outlive the model.
    pub(crate) fn shared_tokenizer(&self) -> Result<Arc<Tokenizer>, Failure> {
        self.tokenizer.clone()
    }

    /// What was loaded and what memory it got, on standard error.
    pub(crate) fn describe(&self, name: &str, kv: &PageStorage) {
        let weights = match PageReport::of(self.model.packed()) {
            Some(report) => report.to_string(),
            None => Size(self.model.packed_bytes() as u64).to_string(),
        };
        eprintln!(
            "{name} {weights}, loaded in {:.3} s; keys and values of {} positions take {}",
            self.load_time.as_secs_f64(),
            self.context,
            Size(kv.bytes() as u64)
        );
        match self.model.streamed_bytes() as u64 {
            0 => {}
            bytes => eprintln!(
                "{} of weights stay in the file and are read for each batch",
                Size(bytes)
            ),
        }
    }
}

fn own_context(metadata: &Metadata<'_>) -> Option<usize> {
    let name = metadata.str("general.architecture").ok()??;
    let own = metadata.u32(&format!("{name}.context_length")).ok()??;
    Some(own as usize)
}

fn load_failure(path: &Path, error: LoadError) -> Failure {
    match &error {
        LoadError::OutOfMemory(_) => {
            Failure::new(Kind::OutOfMemory, format_args!("{}: {error}", path.display()))
                .hint("choose a smaller model or close other programs")
        }
        LoadError::Architecture { .. } => {
            let known: Vec<&str> = arch::ALL.iter().map(|spec| spec.name).collect();
            bad_model(path, &error).hint(format_args!("those that run are {}", known.join(", ")))
        }
        LoadError::SurplusTensor { .. } => bad_model(path, &error).hint(
            "the model may be a variant of its architecture that is not supported; ignoring a tensor would make its answers wrong",
        ),
        _ => bad_model(path, &error),
    }
}
