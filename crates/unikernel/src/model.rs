//! A model in memory, ready to run.

use crate::storage::SettleError;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use strata_engine::EngineOptions;
use strata_kernels::Kernels;
pub use strata_model::Placement;
use strata_model::{
    Blueprint, CpuExecutor, Executor, KvType, LoadError, LoadOptions, PageLayout, PageStorage,
};
use strata_platform::{Backing, Memory, OutOfMemory, Pool, Resident};
use strata_tokenizer::{Tokenizer, TokenizerError};
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
    /// What was read is not what was meant.
    #[error(transparent)]
    Settle(#[from] SettleError),
}

/// A model's file, in memory or brought there as it is read.
pub trait ModelFile {
    /// All of it.
    fn bytes(&self) -> &[u8];
    /// What weights are read from that stay in the file, and who is told which of its bytes are needed.
    fn backing(&self) -> Arc<dyn Backing>;
    /// Memory that reading it takes.
    fn memory(&self) -> usize {
        0
    }
    /// Says, once the weights are in memory, whether what was read is what was meant.
    fn settle(&self) -> Result<(), SettleError> {
        Ok(())
    }
}

impl ModelFile for &'static [u8] {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn backing(&self) -> Arc<dyn Backing> {
        Arc::new(Resident(self))
    }
}

/// What a model is computed with.
#[derive(Clone)]
pub struct Means<'a> {
    /// The workers.
    pub pool: Arc<dyn Pool + Send>,
    /// Where weights and caches go.
    pub memory: &'a dyn Memory,
    /// Called while weights are packed, with how many bytes of how many, and after each step of a prompt with zeros.
    pub progress: &'a dyn Fn(usize, usize),
}

/// A model in memory.
pub struct Opened<'m> {
    /// What computes.
    pub executor: Box<dyn Executor>,
    /// Its tokens.
    pub tokenizer: Arc<Tokenizer>,
    /// What its file says.
    pub file: &'m GgufSet<'m>,
    /// How the engine works.
    pub options: EngineOptions,
    /// Where the weights are.
    pub placement: Placement,
}

/// How a model is loaded.
#[derive(Copy, Clone, Debug)]
pub struct Load {
    /// Texts that run side by side.
    pub requests: usize,
    /// How many of their tokens are computed together.
    pub batch: usize,
    /// Positions of a text, at most, if somebody says so.
    pub context: Option<usize>,
    /// Bytes of memory that are free.
    pub free: usize,
}

/// What is left for everything else: sockets, requests, answers.
const SPARE: usize = 24 << 20;

/// Where the model in `bytes` may end, of which nobody says how long it is: with its last tensor, after what pads it, or
/// with the bytes.
pub fn ends(bytes: &[u8]) -> Result<[usize; 3], ModelError> {
    let file = Gguf::parse(bytes)?;
    let last = file.tensors().iter();
    let last = last.map(|tensor| tensor.offset.saturating_add(tensor.data.len() as u64));
    let end = file.data_offset().saturating_add(last.max().unwrap_or(0));
    let padded = end.checked_next_multiple_of(file.alignment());
    let inside = |end: u64| usize::try_from(end).map_or(bytes.len(), |end| end.min(bytes.len()));
    Ok([inside(end), inside(padded.unwrap_or(end)), bytes.len()])
}

/// Loads the model in a file, and works with it.
pub fn open<T>(
    source: &dyn ModelFile,
    load: Load,
    means: Means<'_>,
    work: impl FnOnce(Opened<'_>) -> T,
) -> Result<T, ModelError> {
    let first = Gguf::parse(source.bytes())?;
    let data = usize::try_from(first.data_offset()).unwrap_or(usize::MAX);
    let file = GgufSet::new(vec![first])?;
    let tokenizer = Arc::new(Tokenizer::from_gguf(file.metadata())?);
    let trained = Blueprint::new(&file, LoadOptions { context: None })?;
    let most = load.context.unwrap_or(MAX_CONTEXT).max(1);
    let context = trained.config().context.min(most);
    let blueprint = Blueprint::new(
        &file,
        LoadOptions {
            context: Some(context),
        },
    )?;
    let options = EngineOptions {
        context,
        batch: load.batch,
        requests: load.requests,
        ..EngineOptions::default()
    };
    // Texts share the pages: two full ones fit, or many short ones.
    let positions = context.saturating_mul(load.requests.min(2));
    let (pool, memory) = (means.pool, means.memory);
    let room = |placement| {
        let bytes = blueprint.workspace_bytes(options.limits(), pool.workers(), placement);
        let others = blueprint.kv_bytes(KvType::F16, positions, options.states()) + bytes + SPARE;
        load.free.saturating_sub(others + source.memory())
    };
    // What does not fit is packed anew each time it is used: the same bits, more slowly.
    let placement = match room(Placement::Packed) >= blueprint.packed_bytes() {
        true => Placement::Packed,
        // Two are in memory at a time then, where the file is not.
        false => {
            let largest = file.tensors().iter().map(|tensor| tensor.data.len());
            let two = largest.max().map_or(0, |bytes| 2 * bytes);
            let two = if source.memory() > 0 { two } else { 0 };
            Placement::Within(room(Placement::Within(0)).saturating_sub(two))
        }
    };
    // The few bytes that were needed so far lie all over the file.
    let data = source.bytes().get(data..).unwrap_or_default();
    source.backing().done_with(data);
    let layout = PageLayout::new(blueprint.config(), KvType::F16);
    let storage = PageStorage::new(layout, positions, options.states(), memory)?;
    let model = blueprint.build(
        placement,
        memory,
        source.backing(),
        &*pool,
        &mut |done, all| {
            (means.progress)(done, all);
        },
    )?;
    source.settle()?;
    let kernels = Kernels::detect();
    let executor = CpuExecutor::new(Arc::new(model), kernels, pool, storage, options.limits());
    Ok(work(Opened {
        executor: Box::new(executor),
        tokenizer,
        file: &file,
        options,
        placement,
    }))
}
