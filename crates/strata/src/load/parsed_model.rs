//! From a parsed file to a model in memory, on an operating system or without one.

use super::needs::Needs;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use core::ops::ControlFlow;
use strata_chat::parameters::{Parameters, of_file};
use strata_chat::{ModelFacts, ModelProfile, RankPrompt, Sampling};
use strata_engine::EngineOptions;
use strata_model::spec::{ArchSpec, Position, Role};
use strata_model::{
    Blueprint, LoadError, LoadOptions, Model, NextnUse, PageStorage, Placement, Stretch,
};
use strata_platform::{Backing, Memory, Pool};
use strata_tokenizer::{Tokenizer, TokenizerError};
use strata_weights::{GgufError, GgufSet, Metadata};

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

/// How many positions a sequence has at most. Where neither says, it is as many as the model was trained for, up to 4096.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct ContextChoice {
    /// What the user asks for.
    pub asked: Option<usize>,
    /// What the model's Modelfile says, cut to what the model was trained for.
    pub preset: Option<usize>,
}

impl ContextChoice {
    fn positions(self, metadata: &Metadata<'_>) -> Option<usize> {
        let trained = trained_context(metadata);
        let preset = self
            .preset
            .map(|preset| preset.min(trained.unwrap_or(preset)));
        let default = trained.map(|trained| trained.min(DEFAULT_CONTEXT));
        self.asked.or(preset).or(default)
    }
}

pub(super) fn trained_context(metadata: &Metadata<'_>) -> Option<usize> {
    let name = metadata.str("general.architecture").ok()??;
    let trained = metadata.u32(&format!("{name}.context_length")).ok()??;
    Some(trained as usize)
}

/// Why a file is no model that can be run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The tokenizer cannot be used.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The architecture or its tensors cannot be used.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The metadata is damaged.
    #[error(transparent)]
    Metadata(#[from] GgufError),
    /// The model learned its positions one by one, and more are asked for.
    #[error("the model supports a context of {has} tokens, not {asked}")]
    Positions {
        /// What it has.
        has: usize,
        /// What was asked for.
        asked: usize,
    },
    /// The tokenizer has tokens that the model does not score.
    #[error("the tokenizer has {tokens} tokens and the model scores {scored}")]
    Vocabulary {
        /// Tokens of the tokenizer.
        tokens: usize,
        /// Tokens that the model scores.
        scored: usize,
    },
}

/// What a machine gives to a model that is loaded.
pub struct Platform<'p> {
    /// The workers that pack its weights.
    pub pool: Arc<dyn Pool + Send>,
    /// Where weights and caches go.
    pub memory: &'p dyn Memory,
    /// Hears of bytes packed and bytes in all, and cancels with [`ControlFlow::Break`].
    pub progress: &'p mut dyn FnMut(usize, usize) -> ControlFlow<()>,
}

/// A model whose file is in order, before anything large is done about it.
pub struct ParsedModel<'f> {
    /// The model but for its weights.
    pub blueprint: Blueprint<'f>,
    /// Its tokenizer, or why there is none.
    pub tokenizer: Result<Arc<Tokenizer>, TokenizerError>,
    /// The chat template in its file, in Jinja.
    pub template: Option<String>,
    /// The prompt that it ranks by, if it is trained to say yes or no to one.
    rank_prompt: Option<RankPrompt>,
    /// Positions that a sequence has at most.
    pub context: usize,
    /// The sampling settings that its file recommends.
    sampling: Sampling,
}

impl<'f> ParsedModel<'f> {
    /// Checks what a file says of its model.
    pub fn new(
        file: &GgufSet<'f>,
        context: ContextChoice,
        tokenizer_use: TokenizerUse,
    ) -> Result<Self, ParseError> {
        let choices = (None, None, NextnUse::Omit);
        Self::with_choices(file, context, tokenizer_use, choices)
    }

    /// The same; the file may be of an architecture that nothing was compared with, if that is the one asked for, a
    /// part of the model may be all that is loaded, and what predicts the token after the next may be loaded too.
    pub fn with_choices(
        file: &GgufSet<'f>,
        context: ContextChoice,
        tokenizer_use: TokenizerUse,
        (untested, stretch, nextn): (Option<&'static ArchSpec>, Option<Stretch>, NextnUse),
    ) -> Result<Self, ParseError> {
        let metadata = file.metadata();
        let context = context.positions(metadata);
        let mut tokenizer = Tokenizer::from_gguf(metadata).map(Arc::new);
        if tokenizer_use == TokenizerUse::Required {
            tokenizer = Ok(tokenizer?);
        }
        let options = LoadOptions {
            context,
            untested,
            stretch,
            nextn,
        };
        let blueprint = Blueprint::new(file, options)?;
        let config = blueprint.config();
        let context = context.unwrap_or(config.context);
        // A table of positions has no more than it has; others can be asked for more than the model was trained for.
        let bounded = config.spec.position == Position::Learned || untested.is_some();
        if bounded && context > config.context {
            return Err(ParseError::Positions {
                has: config.context,
                asked: context,
            });
        }
        let scored = config.vocabulary;
        if let Ok(tokenizer) = &tokenizer
            && tokenizer.vocab_size() > scored
        {
            return Err(ParseError::Vocabulary {
                tokens: tokenizer.vocab_size(),
                scored,
            });
        }
        let template = metadata.str("tokenizer.chat_template")?.map(str::to_owned);
        Ok(Self {
            blueprint,
            tokenizer,
            template,
            rank_prompt: metadata
                .str("tokenizer.chat_template.rerank")?
                .and_then(RankPrompt::new),
            context,
            sampling: Parameters::of_model(of_file(metadata))
                .map(|read| read.sampling)
                .unwrap_or_default(),
        })
    }

    /// Whether it predicts tokens or reads texts as a whole.
    pub fn role(&self) -> Role {
        self.blueprint.config().spec.role
    }

    /// The engine's options for this model.
    pub fn engine_options(&self, asked: EngineOptions) -> EngineOptions {
        let requests = asked.requests.max(1);
        // A source is never cut: the longest must fit, beside the next tokens of others.
        let source = match self.blueprint.config().source {
            Some(_) => self.context.saturating_add(requests),
            None => 0,
        };
        EngineOptions {
            context: self.context,
            requests,
            batch: asked.batch.max(source),
            ..asked
        }
    }

    /// What requests see of the model, with a chat template in Jinja: its file's, or another.
    pub fn profile(&self, template: Option<&str>) -> Result<ModelProfile, TokenizerError> {
        let tokenizer = self.tokenizer.clone()?;
        let mut profile = ModelProfile::new(tokenizer, template, self.context);
        let config = self.blueprint.config();
        profile.sampling = self.sampling.clone();
        profile.encoder = config.spec.role == Role::Encoder;
        profile.start = config.source.as_ref().map(|source| source.start);
        profile.rank_prompt.clone_from(&self.rank_prompt);
        profile.pooling = config.pooling.unwrap_or(profile.pooling);
        Ok(profile)
    }

    /// What its file says of a model, and how it is served: through this profile, so many requests side by side.
    pub fn facts(
        &self,
        of_file: ModelFacts,
        profile: Option<&ModelProfile>,
        slots: usize,
    ) -> ModelFacts {
        ModelFacts {
            capabilities: profile.map(ModelProfile::capabilities).unwrap_or_default(),
            context: self.context,
            slots,
            ..of_file
        }
    }

    /// Takes the memory for keys and values, and brings the weights into memory, as far as `placement` lets it.
    pub fn load(
        self,
        needs: &Needs,
        placement: Placement,
        backing: Arc<dyn Backing>,
        platform: Platform<'_>,
    ) -> Result<(Arc<Model>, PageStorage), LoadError> {
        let Platform {
            pool,
            memory,
            progress,
        } = platform;
        let positions = match self.role() {
            Role::Decoder => needs.positions,
            Role::Encoder => 0,
        };
        let layout = self.blueprint.layout(needs.kv);
        let storage = PageStorage::new(layout, positions, needs.states, memory)?;
        let model = self
            .blueprint
            .build_unless_stopped(placement, memory, backing, &*pool, progress)?;
        Ok((Arc::new(model), storage))
    }
}
