//! What this machine computes with: kernels for its instruction set and worker threads.

use super::overrides::Overrides;
use crate::error::{Error, ErrorKind};
use crate::worker::Turns;
use std::sync::Arc;
use strata_host::ThreadPool;
use strata_kernels::{CpuFeatures, Isa, Kernels, Tiles};
use strata_model::{BatchLimits, CpuExecutor, CpuStretch, Model, PageStorage};
use strata_platform::Pool;

/// The variable that forces an instruction set.
const ISA: &str = "STRATA_ISA";

/// Kernels and workers.
pub struct Machine {
    /// The kernels for this processor.
    pub kernels: &'static Kernels,
    /// The workers. They run one task at a time: engines that share them take [turns](Self::turns).
    pub pool: Arc<ThreadPool>,
    turns: Arc<Turns>,
    /// What somebody has set.
    pub(super) overrides: Overrides,
}

impl Machine {
    /// `threads` workers, or one for each processor.
    pub fn new(threads: Option<usize>) -> Result<Self, Error> {
        let kernels = kernels(
            std::env::var_os(ISA)
                .map(|name| name.to_string_lossy().into_owned())
                .as_deref(),
        )?;
        let overrides = Overrides::from_environment()?;
        kernels.use_tiles(overrides.tiles.unwrap_or(Tiles::Amx));
        let pool = ThreadPool::new(threads).map_err(|error| {
            Error::new(
                ErrorKind::Internal,
                format_args!("cannot start the worker threads: {error}"),
            )
            .with_hint("use fewer with --threads")
        })?;
        Ok(Self {
            kernels,
            pool: Arc::new(pool),
            turns: Arc::default(),
            overrides,
        })
    }

    /// Whose turn it is to use the workers.
    pub fn turns(&self) -> &Arc<Turns> {
        &self.turns
    }

    /// The workers, for one who takes a turn for each task.
    pub(crate) fn pool_in_turns(&self) -> Arc<dyn Pool + Send> {
        Arc::new(PoolInTurns {
            pool: Arc::clone(&self.pool),
            turns: Arc::clone(&self.turns),
        })
    }

    /// Keeps the calling thread on the processor that the workers left free: for one that computes from here on, and
    /// starts no threads that compute. Without it the system moves it to a worker's processor whenever something else
    /// runs on its own, and both wait for each other.
    pub fn settle(&self) {
        // Where this is forbidden the thread is slower at worst.
        let _ = self.pool.pin_caller();
    }

    /// An executor on this machine, for batches within `limits`; the kernels are [tuned](Self::tune) for the model first.
    pub fn executor(
        &self,
        model: &Arc<Model>,
        storage: PageStorage,
        limits: BatchLimits,
    ) -> CpuExecutor {
        self.tune(model);
        let pool = Arc::clone(&self.pool);
        CpuExecutor::new(Arc::clone(model), self.kernels, pool, storage, limits)
    }
}

impl Machine {
    /// Some of a model's layers on this machine, for batches within `limits`; the kernels are [tuned](Self::tune) first.
    pub(crate) fn stretch(
        &self,
        model: &Arc<Model>,
        storage: PageStorage,
        limits: BatchLimits,
    ) -> CpuStretch {
        self.tune(model);
        let pool = Arc::clone(&self.pool);
        CpuStretch::new(Arc::clone(model), self.kernels, pool, storage, limits)
    }

    /// The layers of a whole model before this one, of which alone the weights are in memory; likewise.
    pub(crate) fn first_layers(
        &self,
        model: &Arc<Model>,
        end: usize,
        storage: PageStorage,
        limits: BatchLimits,
    ) -> CpuStretch {
        self.tune(model);
        let pool = Arc::clone(&self.pool);
        let computes = (self.kernels, pool as Arc<dyn Pool + Send>);
        CpuStretch::of_first(Arc::clone(model), end, computes, storage, limits)
    }
}

struct PoolInTurns {
    pool: Arc<ThreadPool>,
    turns: Arc<Turns>,
}

impl Pool for PoolInTurns {
    fn workers(&self) -> usize {
        self.pool.workers()
    }

    fn run(&self, task: &(dyn Fn(usize) + Sync)) {
        self.turns.take(|| self.pool.run(task));
    }

    fn share(&self, task: &(dyn Fn(usize) + Sync)) {
        self.turns.take(|| self.pool.share(task));
    }
}

fn kernels(forced: Option<&str>) -> Result<&'static Kernels, Error> {
    let Some(name) = forced.filter(|name| !name.is_empty()) else {
        return Ok(Kernels::detect());
    };
    let fault = match Isa::from_name(name) {
        None => "is not an instruction set that the kernels know",
        Some(isa) => match Kernels::for_isa(isa) {
            Some(kernels) => return Ok(kernels),
            None => "is not available on this processor",
        },
    };
    let features = CpuFeatures::detect();
    let here: Vec<&str> = Isa::ALL
        .iter()
        .filter(|&&isa| features.has(isa))
        .map(|isa| isa.name())
        .collect();
    Err(Error::new(
        ErrorKind::InvalidArgument,
        format_args!("{ISA}: {name:?} {fault}"),
    )
    .with_hint(format_args!(
        "this machine has {}; unset {ISA} to use the fastest",
        here.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_set_is_taken_by_name_or_refused_with_the_ones_there_are() {
        assert_eq!(kernels(Some("scalar")).unwrap().isa(), Isa::Scalar);
        assert_eq!(kernels(None).unwrap().isa(), CpuFeatures::detect().best());
        let refused = format!("{:?}", kernels(Some("sse9")).unwrap_err());
        assert!(
            refused.contains("sse9") && refused.contains("scalar"),
            "{refused}"
        );
    }
}
