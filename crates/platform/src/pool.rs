//! The worker pool.

/// Workers that all run the same task at once.
pub trait Pool: Sync {
    /// How many workers there are, the caller included; at least one.
    fn workers(&self) -> usize;

    /// Calls `task(worker)` once for each worker and returns when all calls have returned.
    ///
    /// A task must not call `run` on the same pool.
    fn run(&self, task: &(dyn Fn(usize) + Sync));

    /// Calls `task(0)` on the caller and `task(worker)` on those workers that come before the caller is done; returns
    /// when all calls that began have returned. So nobody waits for a worker whose processor does something else.
    ///
    /// For tasks that claim their work piece by piece until none is left: whoever comes finds what is left to do.
    fn share(&self, task: &(dyn Fn(usize) + Sync)) {
        self.run(task);
    }
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
