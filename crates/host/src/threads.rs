//! Worker threads that wait awake for the next task, then park.
//!
//! A task is announced by one store that all workers watch, and each worker reports on a cache line of its own, which
//! the caller watches. Neither side makes a system call unless the other has gone to sleep, which it says beforehand:
//!
//! | the sleeper           | the waker                    |
//! |-----------------------|------------------------------|
//! | 1. `asleep = true`    | 1. publishes the event       |
//! | 2. looks for an event | 2. reads `asleep`            |
//! | 3. parks if none      | 3. unparks if it was `true`  |
//!
//! All four accesses of the first two lines are `SeqCst`, so they have one order that all threads agree on. If the
//! waker's read comes after the sleeper's write, it sees `true` and unparks; where the sleeper has not parked yet, the
//! token that `unpark` leaves makes `park` return at once. Otherwise the read, and so the event before it, comes
//! before the write, and so before the sleeper's look, which sees the event. No wake-up is lost either way. A wake-up
//! too many is harmless: sleepers look again, and park again.
//!
//! Whoever begins a task on a worker's behalf says so first, in `taken`: the worker itself, or, in [`Pool::share`], the
//! caller that has no use for it any more. Where other programs have the processors, a worker may come milliseconds
//! late; the caller has then done its part, and neither waits for the other. A worker that stops too often in the middle
//! of its part is [suspended](Standing) for a while.
#![allow(unsafe_code)]

#[cfg(test)]
mod tests;

use crate::affinity;
use crate::spin_wait::{SpinHistory, SpinWait};
use crate::standing::Standing;
use std::any::Any;
use std::cell::{Cell, UnsafeCell};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, Thread, ThreadId};
use std::time::{Duration, Instant};
use strata_platform::Pool;

/// Whether workers stay on one processor each.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Pinning {
    /// The operating system places all of them.
    None,
    /// The workers but not the caller stay on one processor each, if there are as many workers as processors. With
    /// fewer workers the choice is the operating system's, which knows what else runs; with more, pinning only hurts.
    #[default]
    Workers,
}

/// How a pool is made.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolOptions {
    /// How many workers, the caller included; by default one for each processor that this process may use.
    pub workers: Option<usize>,
    /// Whether workers stay on one processor each.
    pub pinning: Pinning,
}

impl From<Option<usize>> for PoolOptions {
    /// That many workers, and the rest by default.
    fn from(workers: Option<usize>) -> Self {
        Self {
            workers,
            ..Self::default()
        }
    }
}

type WorkFn = *const (dyn Fn(usize) + Sync);
type Panic = Box<dyn Any + Send>;

/// What the caller tells the workers. A worker that sees `epoch` change has the task on the same cache line.
#[repr(align(128))]
struct Announcement {
    /// Counts tasks; a worker starts when it changes.
    epoch: AtomicUsize,
    /// The current task; written before `epoch` changes, read after. `None` tells the workers to leave.
    task: UnsafeCell<Option<WorkFn>>,
}

/// What one worker tells the caller, on a cache line of its own (two, because they are fetched in pairs).
#[derive(Default)]
#[repr(align(128))]
struct Report {
    /// The last task that the worker began, or that the caller took away from it.
    taken: AtomicUsize,
    /// The last task that the worker finished.
    finished: AtomicUsize,
    /// The worker sleeps, or is about to, until `epoch` changes.
    asleep: AtomicBool,
    /// The worker is to sleep until this is over: tasks are not for it.
    suspended: AtomicBool,
    /// The caller sleeps, or is about to, until `finished` changes.
    awaited: AtomicBool,
}

struct Shared {
    announcement: Announcement,
    reports: Box<[Report]>,
    spin_wait: SpinWait,
    /// No task comes for a while: workers sleep at once.
    resting: AtomicBool,
    caller_history: SpinHistory,
    /// The caller, where it sleeps.
    caller: Mutex<Option<Thread>>,
    panicked: AtomicBool,
    /// What the first worker that panicked said.
    panic: Mutex<Option<Panic>>,
    /// Tests hold workers up here.
    #[cfg(test)]
    gate: Mutex<()>,
}

// SAFETY: all but `task` is `Sync`. `task` is written only by the one caller while no worker runs (each has finished
// the last epoch, or it was taken from it), and read only by workers that took the epoch, which happens after the write.
// The pointee is `Sync` and outlives the task.
unsafe impl Sync for Shared {}
// SAFETY: as above.
unsafe impl Send for Shared {}

std::thread_local! {
    /// Whether this thread is at work on a task, which must not wait for another.
    static IN_TASK: Cell<bool> = const { Cell::new(false) };
}

/// A fixed number of threads; the caller of [`Pool::run`] is one of the workers.
pub struct ThreadPool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// The processor of each worker, where they are pinned.
    processors: Option<Vec<usize>>,
    /// Only one `run` at a time.
    busy: AtomicBool,
    /// What the caller thinks of each worker.
    standings: Mutex<Vec<Standing>>,
    /// The thread that [`Self::pin_caller`] pinned.
    pinned_caller: Mutex<Option<PinnedCaller>>,
}

/// The one thread that does nothing but run the pool.
struct PinnedCaller {
    thread: ThreadId,
    /// It may run on any of the pool's processors for now.
    released: bool,
}

impl ThreadPool {
    /// Starts the workers: `ThreadPool::new(None)` for one on each processor, `Some(n)` for `n`, or [`PoolOptions`].
    pub fn new(options: impl Into<PoolOptions>) -> io::Result<Self> {
        let options = options.into();
        let processors = std::thread::available_parallelism()?.get();
        let workers = options.workers.unwrap_or(processors).max(1);
        let spin_wait = if workers > processors {
            SpinWait::CROWDED
        } else {
            SpinWait::measured()
        };
        Self::with_spin_wait(workers, options.pinning, spin_wait)
    }

    fn with_spin_wait(workers: usize, pinning: Pinning, spin_wait: SpinWait) -> io::Result<Self> {
        let processors = match pinning {
            Pinning::None => None,
            Pinning::Workers => Some(affinity::allowed()).filter(|all| all.len() == workers),
        };
        let shared = Arc::new(Shared {
            announcement: Announcement {
                epoch: AtomicUsize::new(0),
                task: UnsafeCell::new(None),
            },
            reports: (1..workers).map(|_| Report::default()).collect(),
            spin_wait,
            resting: AtomicBool::new(false),
            caller_history: SpinHistory::default(),
            caller: Mutex::new(None),
            panicked: AtomicBool::new(false),
            panic: Mutex::new(None),
            #[cfg(test)]
            gate: Mutex::new(()),
        });
        // Made before its threads, so that those that started leave again when one cannot.
        let mut pool = Self {
            shared,
            threads: Vec::new(),
            processors,
            busy: AtomicBool::new(false),
            standings: Mutex::new((1..workers).map(|_| Standing::default()).collect()),
            pinned_caller: Mutex::new(None),
        };
        for worker in 1..workers {
            let shared = Arc::clone(&pool.shared);
            let processor = pool.processors.as_ref().map(|all| all[worker]);
            let thread = std::thread::Builder::new()
                .name(format!("strata-{worker}"))
                .spawn(move || {
                    IN_TASK.set(true);
                    if let Some(processor) = processor {
                        // Where this is forbidden the worker is slower at worst.
                        let _ = affinity::pin(&[processor]);
                    }
                    serve(&shared, worker);
                })?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// Has the workers sleep until the next task rather than wait awake: nothing comes for a while, and others want the
    /// processors.
    pub fn rest(&self) {
        self.shared.resting.store(true, Ordering::Relaxed);
    }

    /// Whether the workers were placed on one processor each.
    pub fn pinning(&self) -> Pinning {
        match self.processors {
            Some(_) => Pinning::Workers,
            None => Pinning::None,
        }
    }

    /// Keeps the calling thread on the processor that the workers leave free, from now on, except while other programs
    /// want the processors: for a thread that does nothing but run this pool. Does nothing where the workers are not
    /// pinned.
    pub fn pin_caller(&self) -> io::Result<()> {
        let Some(processors) = &self.processors else {
            return Ok(());
        };
        affinity::pin(&processors[..1])?;
        *lock(&self.pinned_caller) = Some(PinnedCaller {
            thread: std::thread::current().id(),
            released: false,
        });
        Ok(())
    }

    /// Lets a pinned caller go where there is room while a worker is suspended, and puts it back after that: what has
    /// the worker's processor may want the caller's as well.
    fn place_caller(&self, released: bool) {
        let Some(processors) = &self.processors else {
            return;
        };
        let mut pinned = lock(&self.pinned_caller);
        let Some(caller) = pinned.as_mut().filter(|it| it.released != released) else {
            return;
        };
        let on = if released {
            &processors[..]
        } else {
            &processors[..1]
        };
        if caller.thread == std::thread::current().id() && affinity::pin(on).is_ok() {
            caller.released = released;
        }
    }

    /// Announces a task, or that the workers should leave, and returns its epoch.
    fn announce(&self, task: Option<WorkFn>) -> usize {
        let Announcement { epoch, task: place } = &self.shared.announcement;
        // SAFETY: no worker is at the last task or can begin it, so none reads the place until `epoch` changes.
        unsafe { *place.get() = task };
        let next = epoch.load(Ordering::Relaxed).wrapping_add(1);
        // Those that are suspended have no part in it.
        for report in &self.shared.reports {
            if report.suspended.load(Ordering::Relaxed) {
                report.take(next);
            }
        }
        self.shared.resting.store(false, Ordering::Relaxed);
        epoch.store(next, Ordering::SeqCst);
        for (report, thread) in self.shared.reports.iter().zip(&self.threads) {
            let suspended = report.suspended.load(Ordering::Relaxed);
            if !suspended && report.asleep.load(Ordering::SeqCst) {
                thread.thread().unpark();
            }
        }
        next
    }

    /// Suspends a worker, or ends that.
    fn suspend(&self, worker: usize, suspended: bool) {
        let report = &self.shared.reports[worker];
        if report.suspended.load(Ordering::Relaxed) == suspended {
            return;
        }
        report.suspended.store(suspended, Ordering::SeqCst);
        if !suspended {
            self.threads[worker].thread().unpark();
        }
    }
}

impl Pool for ThreadPool {
    fn workers(&self) -> usize {
        self.threads.len() + 1
    }

    fn run(&self, task: &(dyn Fn(usize) + Sync)) {
        self.start(task, Latecomers::Awaited);
    }

    fn share(&self, task: &(dyn Fn(usize) + Sync)) {
        self.start(task, Latecomers::LeftOut);
    }
}

/// What becomes of workers that have not begun when the caller has finished.
#[derive(Copy, Clone, PartialEq)]
enum Latecomers {
    Awaited,
    LeftOut,
}

impl ThreadPool {
    fn start(&self, task: &(dyn Fn(usize) + Sync), latecomers: Latecomers) {
        if self.threads.is_empty() {
            return task(0);
        }
        assert!(!IN_TASK.get(), "a task must not start another");
        // Whoever comes second waits: a model is loaded while another computes.
        while self.busy.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
        let start = Instant::now();
        let mut standings = lock(&self.standings);
        let mut any_suspended = false;
        for (worker, standing) in standings.iter_mut().enumerate() {
            if latecomers == Latecomers::Awaited {
                standing.resume();
            }
            let suspended = standing.is_suspended(start);
            any_suspended |= suspended;
            self.suspend(worker, suspended);
        }
        self.place_caller(any_suspended);
        // SAFETY: only the lifetime changes. Every worker is done with the task, or cannot begin it any more, before
        // this function returns, also when the caller's own part panics.
        let erased =
            unsafe { std::mem::transmute::<*const (dyn Fn(usize) + Sync + '_), WorkFn>(task) };
        let epoch = self.announce(Some(erased));
        IN_TASK.set(true);
        let own = catch_unwind(AssertUnwindSafe(|| task(0)));
        IN_TASK.set(false);
        let mut now = Instant::now();
        for (report, standing) in self.shared.reports.iter().zip(standings.iter_mut()) {
            if report.suspended.load(Ordering::Relaxed) {
                continue;
            }
            let mut waited = Duration::ZERO;
            if latecomers == Latecomers::Awaited {
                self.shared.await_worker(report, epoch);
            } else if !report.take(epoch) && !report.has_finished(epoch) {
                self.shared.await_worker(report, epoch);
                let begin = std::mem::replace(&mut now, Instant::now());
                waited = now - begin;
            }
            standing.learn(now, now - start, waited);
        }
        drop(standings);
        let theirs = self.shared.take_panic();
        self.busy.store(false, Ordering::Release);
        if let Some(panic) = own.err().or(theirs) {
            resume_unwind(panic);
        }
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        for worker in 0..self.threads.len() {
            self.suspend(worker, false);
        }
        self.announce(None);
        for thread in self.threads.drain(..) {
            // A worker catches its tasks' panics, so it cannot have ended with one.
            let _ = thread.join();
        }
    }
}

impl Report {
    /// Takes the epoch, unless the other side has.
    fn take(&self, epoch: usize) -> bool {
        let before = epoch.wrapping_sub(1);
        self.taken
            .compare_exchange(before, epoch, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    fn has_finished(&self, epoch: usize) -> bool {
        self.finished.load(Ordering::Acquire) == epoch
    }
}

impl Shared {
    /// The caller's wait for one worker.
    fn await_worker(&self, report: &Report, epoch: usize) {
        if self
            .spin_wait
            .wait(&self.caller_history, || report.has_finished(epoch))
        {
            return;
        }
        *lock(&self.caller) = Some(std::thread::current());
        report.awaited.store(true, Ordering::SeqCst);
        while report.finished.load(Ordering::SeqCst) != epoch {
            std::thread::park();
        }
        report.awaited.store(false, Ordering::Relaxed);
    }

    /// A worker's wait for a task after `seen`, which becomes that task's epoch.
    fn await_task(
        &self,
        report: &Report,
        history: &SpinHistory,
        seen: &mut usize,
    ) -> Option<WorkFn> {
        let epoch = &self.announcement.epoch;
        loop {
            while report.suspended.load(Ordering::SeqCst) {
                std::thread::park();
            }
            let changed = || epoch.load(Ordering::Acquire) != *seen;
            let ready = || changed() || self.resting.load(Ordering::Relaxed);
            if !self.spin_wait.wait(history, ready) || !changed() {
                report.asleep.store(true, Ordering::SeqCst);
                while epoch.load(Ordering::SeqCst) == *seen {
                    std::thread::park();
                }
                report.asleep.store(false, Ordering::Relaxed);
            }
            #[cfg(test)]
            drop(lock(&self.gate));
            *seen = epoch.load(Ordering::Acquire);
            if report.take(*seen) {
                // SAFETY: the caller wrote the task before `epoch` became this, and writes no other until this worker,
                // which took it, reports.
                return unsafe { *self.announcement.task.get() };
            }
        }
    }

    fn finish(&self, report: &Report, epoch: usize) {
        report.finished.store(epoch, Ordering::SeqCst);
        // From here the caller may be gone, and the task with it.
        if report.awaited.load(Ordering::SeqCst)
            && let Some(caller) = &*lock(&self.caller)
        {
            caller.unpark();
        }
    }

    fn keep_panic(&self, panic: Panic) {
        lock(&self.panic).get_or_insert(panic);
        self.panicked.store(true, Ordering::Relaxed);
    }

    fn take_panic(&self) -> Option<Panic> {
        // The workers' reports order this after their stores.
        if !self.panicked.load(Ordering::Relaxed) {
            return None;
        }
        self.panicked.store(false, Ordering::Relaxed);
        lock(&self.panic).take()
    }
}

/// What these locks guard is whole at any moment, whoever panics.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(shared: &Shared, worker: usize) {
    let report = &shared.reports[worker - 1];
    let history = SpinHistory::default();
    let mut epoch = 0usize;
    while let Some(task) = shared.await_task(report, &history, &mut epoch) {
        // SAFETY: the caller keeps the task alive until this worker reports that it finished.
        let task = unsafe { &*task };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| task(worker))) {
            shared.keep_panic(panic);
        }
        shared.finish(report, epoch);
    }
}
