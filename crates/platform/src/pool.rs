//! The worker pool.

/// Workers that all run the same task at once.
pub trait Pool: Sync {
    /// How many workers there are, the caller included; at least one.
    fn workers(&self) -> usize;

    /// Calls `task(worker)` once for each worker and returns when all calls have returned.
    ///
    /// A task must not call `run` on the same pool.
    fn run(&self, task: &(dyn Fn(usize) + Sync));
}

/// A pool of one: the caller itself.
#[derive(Copy, Clone, Debug, Default)]
pub struct Inline;

impl Pool for Inline {
    fn workers(&self) -> usize {
        1
    }

    fn run(&self, task: &(dyn Fn(usize) + Sync)) {
        task(0);
    }
}
