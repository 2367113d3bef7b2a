//! A model in memory, ready to run.

use crate::prompt::text;
use crate::storage::VerifyError;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use core::time::Duration;
pub use strata::load::Platform;
use strata::load::{ContextChoice, Needs, ParseError, ParsedModel, TokenizerUse};
pub use strata::{KvType, LocalModel};
use strata_chat::{Arrival, Fault, Generate, ModelFacts, Prompt, RequestContext};
use strata_engine::{Engine, EngineOptions};
use strata_kernels::Kernels;
pub use strata_model::Placement;
use strata_model::{CpuExecutor, LoadError};
use strata_platform::{Backing, Resident};
use strata_weights::{Gguf, GgufError, GgufSet, SplitError};
use thiserror::Error;

/// Why a model cannot be run.
#[derive(Debug, Error)]
pub enum ModelError {
    /// The file is no model.
    #[error(transparent)]
    File(#[from] GgufError),
    /// It is a part of one.
    #[error(transparent)]
    Split(#[from] SplitError),
    /// The model in it cannot be run.
    #[error(transparent)]
    Parse(#[from] ParseError),
    /// The model cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// What was read is not what was meant.
    #[error(transparent)]
    Verify(#[from] VerifyError),
    /// There is not so much memory.
    #[error(
        "the model takes {needs} MiB of memory beside its weights, and {free} MiB would be free"
    )]
    Memory {
        /// What it takes.
        needs: u64,
        /// What there is.
        free: u64,
    },
    /// It was loaded and cannot write a word.
    #[error("the model fails its self-test: {0}")]
    SelfTest(String),
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
    fn verify(&self) -> Result<(), VerifyError> {
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

/// How a model is loaded.
#[derive(Copy, Clone, Debug)]
pub struct LoadSettings {
    /// Sequences that run side by side.
    pub requests: usize,
    /// How many of their tokens are computed together.
    pub batch: usize,
    /// Positions of a sequence, at most, if somebody says so.
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

/// What a file says of its model, which is called `name`, without loading it.
pub fn facts(source: &dyn ModelFile, name: &str) -> Result<ModelFacts, ModelError> {
    let file = GgufSet::new(vec![Gguf::parse(source.bytes())?])?;
    Ok(ModelFacts::of_file(name, &file))
}

/// A model that is understood, and what it is loaded for.
struct Plan<'f> {
    parsed: ParsedModel<'f>,
    options: EngineOptions,
    needs: Needs,
    /// Bytes for it.
    free: u64,
}

impl<'f> Plan<'f> {
    fn new(
        source: &dyn ModelFile,
        file: &'f GgufSet<'f>,
        settings: LoadSettings,
        workers: usize,
    ) -> Result<Self, ModelError> {
        let context = ContextChoice {
            asked: settings.context,
            preset: None,
        };
        let parsed = ParsedModel::new(file, context, TokenizerUse::Required)?;
        let options = parsed.engine_options(EngineOptions {
            batch: settings.batch,
            requests: settings.requests,
            ..EngineOptions::default()
        });
        let needs = Needs::of_engine(&options, KvType::F16, workers);
        let free = settings.free.saturating_sub(SPARE + source.memory()) as u64;
        Ok(Self {
            parsed,
            options,
            needs,
            free,
        })
    }
}

/// Refuses a model that cannot be understood, or that would not run in the memory that would be free, weights left in the
/// file.
pub fn check(
    source: &dyn ModelFile,
    settings: LoadSettings,
    workers: usize,
) -> Result<(), ModelError> {
    let file = GgufSet::new(vec![Gguf::parse(source.bytes())?])?;
    let plan = Plan::new(source, &file, settings, workers)?;
    let blueprint = &plan.parsed.blueprint;
    let beside = plan
        .needs
        .workspace_bytes(blueprint, Placement::Within(0))
        .saturating_add(plan.needs.kv_bytes(blueprint))
        .saturating_add(largest_pair(source, &file));
    if beside.min(plan.needs.total_bytes(blueprint)) > plan.free {
        return Err(ModelError::Memory {
            needs: beside.div_ceil(1 << 20),
            free: plan.free >> 20,
        });
    }
    Ok(())
}

/// Loads the model in a file, under a name, and lets it write a token. Says also where its weights are. Progress is told
/// before each step, of nothing packed, for those who look after clients meanwhile.
pub fn open(
    source: &dyn ModelFile,
    name: &str,
    settings: LoadSettings,
    platform: Platform<'_>,
) -> Result<(LocalModel, Placement), ModelError> {
    let Platform {
        pool,
        memory,
        progress,
    } = platform;
    let mut pause = || {
        // Whoever wants to stop is asked again when there is something to give back.
        let _ = progress(0, 0);
    };
    pause();
    let first = Gguf::parse(source.bytes())?;
    let data = usize::try_from(first.data_offset()).unwrap_or(usize::MAX);
    let file = GgufSet::new(vec![first])?;
    pause();
    let Plan {
        parsed,
        options,
        needs,
        free,
    } = Plan::new(source, &file, settings, pool.workers())?;
    pause();
    let profile = parsed.profile(parsed.template.as_deref());
    let profile = Arc::new(profile.map_err(ParseError::from)?);
    let of_file = ModelFacts::of_file(name, &file);
    let facts = parsed.facts(of_file, Some(&profile), options.requests);
    let placement = place(&parsed, &needs, free, largest_pair(source, &file));
    // The few bytes that were needed so far lie all over the file. With room for all of it they stay, and nothing is read
    // twice.
    let whole = needs.total_bytes(&parsed.blueprint);
    if free.saturating_sub(whole) < source.bytes().len() as u64 {
        let data = source.bytes().get(data..).unwrap_or_default();
        source.backing().done_with(data);
    }
    let platform = Platform {
        pool: Arc::clone(&pool),
        memory,
        progress: &mut *progress,
    };
    let (model, storage) = parsed.load(&needs, placement, source.backing(), platform)?;
    source.verify()?;
    let _ = progress(0, 0);
    let executor = CpuExecutor::new(model, Kernels::detect(), pool, storage, needs.limits);
    let tokenizer = Arc::clone(&profile.tokenizer);
    let mut model = LocalModel {
        engine: Engine::new(Box::new(executor), tokenizer, options),
        profile,
        facts,
    };
    self_test(&mut model).map_err(|fault| ModelError::SelfTest(fault.message))?;
    Ok((model, placement))
}

/// Computes a token: damaged weights make numbers that are none, of which the sampler tells. A short text needs all
/// matrices too, and clients wait.
fn self_test(model: &mut LocalModel) -> Result<(), Fault> {
    let mut request = Generate::new("", Prompt::text("Once"));
    request.max_tokens = Some(1);
    request.sampling.temperature = Some(0.0);
    let context = RequestContext {
        now: None,
        seed: 0,
        id: "",
    };
    let prepared = model.prepare(&request, context)?;
    let mut generation = model.start(&request, prepared, Arrival::default())?;
    while !generation.has_ended() {
        let now = || Duration::ZERO;
        let events = generation.step(&mut model.engine, &now, &mut |_| {});
        text(&events)?;
    }
    // What clients ask is computed as if nothing had been.
    model.engine.clear_cache();
    Ok(())
}

/// Where the weights go. What does not fit is packed anew each time it is used: the same bits, more slowly.
fn place(parsed: &ParsedModel<'_>, needs: &Needs, free: u64, pair: u64) -> Placement {
    let blueprint = &parsed.blueprint;
    if needs.total_bytes(blueprint) <= free {
        return Placement::Packed;
    }
    let room = needs.room(blueprint, free).unwrap_or(0);
    Placement::Within(room.saturating_sub(pair) as usize)
}

/// Bytes of the two tensors that are in memory at a time while a model is read from a file that is not.
fn largest_pair(source: &dyn ModelFile, file: &GgufSet<'_>) -> u64 {
    if source.memory() == 0 {
        return 0;
    }
    let largest = file.tensors().iter().map(|tensor| tensor.data.len());
    largest.max().map_or(0, |bytes| 2 * bytes as u64)
}

#[cfg(test)]
pub(crate) mod tests;
