//! Threads that make requests ready: they parse, render and tokenize, so that those that answer clients need not. They are
//! few, and those for large requests yield to all others.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use strata_chat::{Fault, FaultKind};
use strata_host::{Priority, lower_priority, release_free_memory};
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// How much there is to do.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Little.
    Small,
    /// Much: it is done where others leave processors idle.
    Large,
}

/// The threads, and what they have to do.
pub(crate) struct PreparationPool {
    shared: Arc<Shared>,
}

/// How often memory is given back after a large job: what it left to others is freed later.
const ROUNDS: usize = 8;

struct Shared {
    queues: Mutex<Queues>,
    changed: Condvar,
    /// How often memory is yet to be given back.
    untidy: AtomicUsize,
}

#[derive(Default)]
struct Queues {
    small: VecDeque<Job>,
    large: VecDeque<Job>,
    closed: bool,
}

impl PreparationPool {
    /// A pool of so many threads, two at least, and half as many for large jobs.
    pub(crate) fn new(threads: usize) -> std::io::Result<Self> {
        let threads = threads.max(2);
        let shared = Arc::new(Shared {
            queues: Mutex::default(),
            changed: Condvar::new(),
            untidy: AtomicUsize::new(0),
        });
        for number in 0..threads + threads / 2 {
            let shared = Arc::clone(&shared);
            let builder = std::thread::Builder::new().name("prepare".into());
            builder.spawn(move || {
                if number < threads {
                    shared.work(Effort::Small);
                } else {
                    lower_priority(Priority::Lowest);
                    shared.work(Effort::Large);
                }
            })?;
        }
        Ok(Self { shared })
    }

    /// Does something on one of the threads, in its turn. Nothing is done for a client that has gone before.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        effort: Effort,
        work: impl FnOnce() -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let (reply, done) = oneshot::channel();
        let job: Job = Box::new(move || {
            if !reply.is_closed() {
                let result = catch_unwind(AssertUnwindSafe(work));
                let _ = reply.send(result.unwrap_or_else(|panic| Err(failed(&*panic))));
            }
        });
        self.submit(effort, job);
        done.await.unwrap_or_else(|_| Err(failed(&())))
    }

    fn submit(&self, effort: Effort, job: Job) {
        let mut queues = self.shared.queues();
        match effort {
            Effort::Small => queues.small.push_back(job),
            Effort::Large => queues.large.push_back(job),
        }
        self.shared.changed.notify_all();
    }

    /// Says that much memory will be free soon, which [`tidy`](Self::tidy) is to give back.
    pub(crate) fn expect_free_memory(&self) {
        self.shared.untidy.store(ROUNDS, Ordering::Relaxed);
    }

    /// Gives memory back, if large requests have left some behind. Called now and then.
    pub(crate) fn tidy(&self) {
        let rounds = &self.shared.untidy;
        let left = rounds.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            left.checked_sub(1)
        });
        if left.is_ok() {
            self.submit(Effort::Small, Box::new(release_free_memory));
        }
    }
}

impl Drop for PreparationPool {
    fn drop(&mut self) {
        self.shared.queues().closed = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does the jobs of one effort until the pool is gone.
    fn work(&self, effort: Effort) {
        let mut queues = self.queues();
        while !queues.closed {
            let job = match effort {
                Effort::Small => queues.small.pop_front(),
                Effort::Large => queues.large.pop_front(),
            };
            let Some(job) = job else {
                let waited = self.changed.wait(queues);
                queues = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(queues);
            job();
            if effort == Effort::Large {
                self.untidy.store(ROUNDS, Ordering::Relaxed);
            }
            queues = self.queues();
        }
    }
}

fn failed(panic: &dyn Any) -> Fault {
    let reason = panic.downcast_ref::<&str>().copied().unwrap_or_default();
    let problem = format_args!("the request could not be made ready. {reason}");
    Fault::new(FaultKind::Internal, problem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn small_jobs_are_done_beside_large_ones_and_a_panic_is_a_fault() {
        let pool = Arc::new(PreparationPool::new(2).unwrap());
        let (release, held) = std::sync::mpsc::channel::<()>();
        let (first, second) = (Arc::clone(&pool), Arc::clone(&pool));
        let large = tokio::spawn(async move {
            first
                .run(Effort::Large, move || Ok(held.recv().is_ok()))
                .await
        });
        let waiting = tokio::spawn(async move { second.run(Effort::Large, || Ok(2)).await });
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(pool.run(Effort::Small, || Ok(1)).await, Ok(1));
        let fault = pool.run::<()>(Effort::Small, || panic!("odd")).await;
        assert!(fault.unwrap_err().message.ends_with("odd"));
        assert!(!waiting.is_finished());
        release.send(()).unwrap();
        assert_eq!(large.await.unwrap(), Ok(true));
        assert_eq!(waiting.await.unwrap(), Ok(2));
        pool.tidy();
    }
}
