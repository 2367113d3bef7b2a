//! Worker threads that spin briefly for the next task, then park.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{JoinHandle, Thread};
use strata_platform::Pool;

/// How often a worker looks for work before it parks: some tens of microseconds, a layer's worth.
const SPINS: u32 = 20_000;

type Task = *const (dyn Fn(usize) + Sync);

struct Shared {
    /// Counts tasks; a worker starts when it changes. `usize::MAX` tells it to leave.
    epoch: AtomicUsize,
    /// How many workers have yet to finish the current task.
    running: AtomicUsize,
    /// The current task; written before `epoch` changes, read after.
    task: UnsafeCell<Option<Task>>,
    /// A worker's task panicked.
    panicked: AtomicBool,
}

// SAFETY: `task` is written only by the owner while no worker runs (`running` is 0), and read only by workers after
// they saw `epoch` change, which happens after the write. The pointee is `Sync` and outlives the task.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

/// A fixed number of threads; the caller of [`Pool::run`] is one of the workers.
pub struct ThreadPool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Only one `run` at a time.
    busy: AtomicBool,
}

impl ThreadPool {
    /// `workers` workers, or one for each processor that this process may use.
    pub fn new(workers: Option<usize>) -> std::io::Result<Self> {
        let workers = match workers {
            Some(workers) => workers.max(1),
            None => std::thread::available_parallelism()?.get(),
        };
        let shared = Arc::new(Shared {
            epoch: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            task: UnsafeCell::new(None),
            panicked: AtomicBool::new(false),
        });
        let threads = (1..workers)
            .map(|worker| {
                let shared = Arc::clone(&shared);
                std::thread::Builder::new()
                    .name(format!("strata-{worker}"))
                    .spawn(move || serve(&shared, worker))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            shared,
            threads,
            busy: AtomicBool::new(false),
        })
    }

    fn start(&self, epoch: usize) {
        self.shared.epoch.store(epoch, Ordering::Release);
        self.threads
            .iter()
            .map(JoinHandle::thread)
            .for_each(Thread::unpark);
    }
}

impl Pool for ThreadPool {
    fn workers(&self) -> usize {
        self.threads.len() + 1
    }

    fn run(&self, task: &(dyn Fn(usize) + Sync)) {
        if self.threads.is_empty() {
            return task(0);
        }
        assert!(
            !self.busy.swap(true, Ordering::Acquire),
            "a pool runs one task at a time"
        );
        let shared = &*self.shared;
        shared.running.store(self.threads.len(), Ordering::Relaxed);
        // SAFETY: no worker runs, so nobody reads `task`. The borrow's lifetime is erased, but every worker is done
        // with it before this function returns, also when the caller's own part panics.
        unsafe {
            *shared.task.get() = Some(std::mem::transmute::<
                *const (dyn Fn(usize) + Sync + '_),
                Task,
            >(task));
        }
        self.start(shared.epoch.load(Ordering::Relaxed) + 1);
        let own = catch_unwind(AssertUnwindSafe(|| task(0)));
        let mut spins = 0;
        while shared.running.load(Ordering::Acquire) != 0 {
            spins += 1;
            if spins < SPINS {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        let panicked = shared.panicked.swap(false, Ordering::Relaxed);
        self.busy.store(false, Ordering::Release);
        if let Err(panic) = own {
            resume_unwind(panic);
        }
        assert!(!panicked, "a worker's task panicked");
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.start(usize::MAX);
        for thread in self.threads.drain(..) {
            // A worker catches its tasks' panics, so it cannot have ended with one.
            let _ = thread.join();
        }
    }
}

fn serve(shared: &Shared, worker: usize) {
    let mut seen = 0;
    loop {
        let mut spins = 0;
        let epoch = loop {
            let epoch = shared.epoch.load(Ordering::Acquire);
            if epoch != seen {
                break epoch;
            }
            spins += 1;
            if spins < SPINS {
                std::hint::spin_loop();
            } else {
                // A wake-up between the look and the park leaves a token behind, so none is lost.
                std::thread::park();
            }
        };
        if epoch == usize::MAX {
            return;
        }
        seen = epoch;
        // SAFETY: `epoch` changed, so the owner has written the task and keeps it alive until `running` is 0.
        let task = unsafe { &*(*shared.task.get()).expect("written before the epoch changed") };
        if catch_unwind(AssertUnwindSafe(|| task(worker))).is_err() {
            shared.panicked.store(true, Ordering::Relaxed);
        }
        shared.running.fetch_sub(1, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_worker_runs_every_task_once() {
        for workers in [1, 2, 5] {
            let pool = ThreadPool::new(Some(workers)).unwrap();
            assert_eq!(pool.workers(), workers);
            let calls: Vec<AtomicUsize> = (0..workers).map(|_| AtomicUsize::new(0)).collect();
            for _ in 0..1000 {
                pool.run(&|worker| {
                    calls[worker].fetch_add(1, Ordering::Relaxed);
                });
            }
            assert!(calls.iter().all(|n| n.load(Ordering::Relaxed) == 1000));
        }
    }

    #[test]
    fn parked_workers_wake_up() {
        let pool = ThreadPool::new(Some(3)).unwrap();
        let calls = AtomicUsize::new(0);
        for _ in 0..3 {
            std::thread::sleep(std::time::Duration::from_millis(30));
            pool.run(&|_| {
                calls.fetch_add(1, Ordering::Relaxed);
            });
        }
        assert_eq!(calls.load(Ordering::Relaxed), 9);
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        let pool = ThreadPool::new(Some(2)).unwrap();
        for culprit in 0..2 {
            let result = catch_unwind(AssertUnwindSafe(|| {
                pool.run(&|worker| assert_ne!(worker, culprit));
            }));
            assert!(result.is_err());
        }
        let calls = AtomicUsize::new(0);
        pool.run(&|_| {
            calls.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(calls.load(Ordering::Relaxed), 2);
    }
}
