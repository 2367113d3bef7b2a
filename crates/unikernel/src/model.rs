//! A model in memory, ready to run.

use alloc::sync::Arc;
use alloc::vec;
use strata_engine::EngineOptions;
use strata_kernels::Kernels;
use strata_model::{Blueprint, Compute, KvPages, KvType, LoadError, LoadOptions, Model, Placement};
use strata_platform::{Memory, OutOfMemory, Pool, Resident};
use strata_token::tokenizer::{Tokenizer, TokenizerError};
use strata_weights::{Gguf, GgufError, GgufSet, SplitError};
use thiserror::Error;

/// Positions of a text at most: what the model was trained for, up to this.
const MAX_CONTEXT: usize = 4096;

/// Why a model cannot be run.
#[derive(Debug, Error)]
pub enum ModelError {
    /// The file is no model.
    #[error(transparent)]
    File(#[from] GgufError),
    /// It is a part of one.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// The model's words cannot be used.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The model cannot be run.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// There is too little memory for keys and values.
    #[error(transparent)]
    Memory(#[from] OutOfMemory),
}

/// What a model is computed with.
#[derive(Copy, Clone)]
pub struct Means<'a> {
    /// The workers.
    pub pool: &'a dyn Pool,
    /// Where weights and caches go.
    pub memory: &'a dyn Memory,
    /// Called after each step, for a watchdog.
    pub progress: &'a dyn Fn(),
}

/// A model in memory.
pub struct Opened<'m> {
    /// The weights.
    pub model: &'m Model<'m>,
    /// Its tokens.
    pub tokenizer: Arc<Tokenizer>,
    /// What its file says.
    pub file: &'m GgufSet<'m>,
    /// Memory for keys and values.
    pub kv: KvPages,
    /// What computes.
    pub compute: Compute<'m>,
    /// How the engine works.
    pub options: EngineOptions,
}

/// How many texts run side by side, and how many of their tokens are computed together.
#[derive(Copy, Clone, Debug)]
pub struct Load {
    /// Texts.
    pub requests: usize,
    /// Tokens.
    pub batch: usize,
}

/// Loads the model in `bytes`, and works with it.
pub fn open<T>(
    bytes: &[u8],
    load: Load,
    means: Means<'_>,
    work: impl FnOnce(Opened<'_>) -> T,
) -> Result<T, ModelError> {
    let file = GgufSet::new(vec![Gguf::parse(bytes)?])?;
    let tokenizer = Arc::new(Tokenizer::from_gguf(file.metadata())?);
    let trained = Blueprint::new(&file, LoadOptions { context: None })?;
    let context = trained.config().context.min(MAX_CONTEXT);
    let options = LoadOptions {
        context: Some(context),
    };
    let blueprint = Blueprint::new(&file, options)?;
    // Texts share the pages: two full ones fit, or many short ones.
    let positions = context.saturating_mul(load.requests.min(2));
    let kv = KvPages::new(blueprint.config(), KvType::F16, positions, means.memory)?;
    let (pool, memory) = (means.pool, means.memory);
    let model = blueprint.build(Placement::Packed, memory, &Resident, pool, &mut |_, _| {
        (means.progress)();
    })?;
    Ok(work(Opened {
        model: &model,
        tokenizer,
        file: &file,
        kv,
        compute: Compute {
            kernels: Kernels::detect(),
            pool,
        },
        options: EngineOptions {
            context,
            batch: load.batch,
            requests: load.requests,
            ..EngineOptions::default()
        },
    }))
}
