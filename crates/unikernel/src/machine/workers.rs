//! The worker pool: one job at a time, done by every processor at once.
#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicUsize, Ordering};
use strata_platform::Pool;

/// How long a worker looks for work before it sleeps.
const SPINS: u32 = 20_000;

/// How a worker sleeps and is woken.
pub trait Doze: Sync {
    /// Sleeps until [`wake`](Self::wake), unless there is work already. It may wake for no reason.
    fn sleep(&self, has_work: &dyn Fn() -> bool);
    /// Wakes all workers.
    fn wake(&self);
}

type WorkFn = *const (dyn Fn(usize) + Sync);

/// A worker's place in a pool.
#[derive(Debug)]
pub struct WorkerSlot {
    worker: usize,
    /// The jobs that came before it.
    seen: usize,
}

/// The workers of a machine: the caller of [`run`](Pool::run), and everybody who called [`work`](Self::work).
pub struct Workers<D> {
    doze: D,
    /// Workers, the caller included.
    count: AtomicUsize,
    /// How many jobs there were.
    jobs: AtomicUsize,
    task: UnsafeCell<Option<WorkFn>>,
    busy: AtomicUsize,
    asleep: AtomicUsize,
    /// Whether a job is under way.
    running: AtomicUsize,
}

// SAFETY: `task` is written by `run` alone, while no worker is busy, and read by workers after they saw `jobs` grow.
unsafe impl<D: Sync> Sync for Workers<D> {}

impl<D: Doze> Workers<D> {
    /// The caller alone.
    pub const fn new(doze: D) -> Self {
        Self {
            doze,
            count: AtomicUsize::new(1),
            jobs: AtomicUsize::new(0),
            task: UnsafeCell::new(None),
            busy: AtomicUsize::new(0),
            asleep: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
        }
    }

    /// Joins the pool. No job may be under way or begin meanwhile; from the next on, all wait for this worker's part.
    pub fn join(&self) -> WorkerSlot {
        let seen = self.jobs.load(Ordering::SeqCst);
        let worker = self.count.fetch_add(1, Ordering::SeqCst);
        WorkerSlot { worker, seen }
    }

    /// Does its part of every job, until `go_on` says no after a job.
    pub fn work(&self, slot: WorkerSlot, mut go_on: impl FnMut() -> bool) {
        let WorkerSlot { worker, mut seen } = slot;
        while go_on() {
            self.wait(seen);
            seen = seen.wrapping_add(1);
            // SAFETY: `jobs` grew, so `run` has written the task and keeps it alive until `busy` is zero.
            let task = unsafe { (*self.task.get()).map(|task| &*task) };
            if let Some(task) = task {
                task(worker);
            }
            self.busy.fetch_sub(1, Ordering::Release);
        }
    }

    /// Returns when there is a job after `seen`.
    fn wait(&self, seen: usize) {
        let has_work = || self.jobs.load(Ordering::SeqCst) != seen;
        loop {
            for _ in 0..SPINS {
                if has_work() {
                    return;
                }
                core::hint::spin_loop();
            }
            // Announced before the last look, so that the caller either sees a sleeper or is seen.
            self.asleep.fetch_add(1, Ordering::SeqCst);
            self.doze.sleep(&has_work);
            self.asleep.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl<D: Doze> Pool for Workers<D> {
    fn workers(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    fn run(&self, task: &(dyn Fn(usize) + Sync)) {
        let others = self.workers() - 1;
        if others == 0 {
            return task(0);
        }
        assert_eq!(
            self.running.swap(1, Ordering::Acquire),
            0,
            "one job at a time"
        );
        let task_pointer: *const (dyn Fn(usize) + Sync + '_) = task;
        // SAFETY: only the lifetime changes, and the task is used until `busy` is zero, which is waited for below.
        // No worker reads `task` now: the job before ended with `busy` at zero.
        unsafe {
            *self.task.get() = Some(core::mem::transmute::<
                *const (dyn Fn(usize) + Sync + '_),
                WorkFn,
            >(task_pointer));
        }
        self.busy.store(others, Ordering::Release);
        self.jobs.fetch_add(1, Ordering::SeqCst);
        if self.asleep.load(Ordering::SeqCst) > 0 {
            self.doze.wake();
        }
        task(0);
        while self.busy.load(Ordering::Acquire) != 0 {
            core::hint::spin_loop();
        }
        self.running.store(0, Ordering::Release);
    }
}

/// The first few workers of a pool.
pub struct LimitedPool<'p> {
    /// Whose.
    pub pool: &'p dyn Pool,
    /// How many.
    pub count: usize,
}

impl Pool for LimitedPool<'_> {
    fn workers(&self) -> usize {
        self.pool.workers().min(self.count.max(1))
    }

    fn run(&self, task: &(dyn Fn(usize) + Sync)) {
        let count = self.workers();
        match count {
            1 => task(0),
            _ => self.pool.run(&|worker| {
                if worker < count {
                    task(worker);
                }
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::sync::{Condvar, Mutex};
    use std::time::Duration;
    use std::vec;

    #[derive(Default)]
    struct Parking(Mutex<()>, Condvar);

    impl Doze for Parking {
        fn sleep(&self, has_work: &dyn Fn() -> bool) {
            let held = self.0.lock().unwrap();
            if !has_work() {
                drop(self.1.wait(held).unwrap());
            }
        }
        fn wake(&self) {
            let _held = self.0.lock().unwrap();
            self.1.notify_all();
        }
    }

    #[test]
    fn every_worker_does_its_part_of_every_job_awake_or_asleep() {
        let pool = Workers::new(Parking::default());
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| pool.work(pool.join(), || !stop.load(Ordering::SeqCst)));
            }
            while pool.workers() < 4 {
                std::thread::yield_now();
            }
            for round in 0..200 {
                let done: [AtomicUsize; 4] = Default::default();
                if round == 199 {
                    stop.store(true, Ordering::SeqCst);
                }
                if round % 50 == 0 {
                    std::thread::sleep(Duration::from_millis(20));
                }
                pool.run(&|worker| {
                    done[worker].fetch_add(1, Ordering::Relaxed);
                });
                let done = done.each_ref().map(|n| n.load(Ordering::Relaxed));
                assert_eq!(done, [1; 4], "round {round}");
            }
        });
    }

    #[test]
    fn a_few_are_no_more_than_were_asked_for() {
        struct Three;
        impl Pool for Three {
            fn workers(&self) -> usize {
                3
            }
            fn run(&self, task: &(dyn Fn(usize) + Sync)) {
                (0..3).for_each(task);
            }
        }
        for (count, expected) in [(0, 1), (1, 1), (2, 2), (3, 3), (9, 3)] {
            let pool: &dyn Pool = &Three;
            let few = LimitedPool { pool, count };
            let done = Mutex::new(vec![]);
            few.run(&|worker| done.lock().unwrap().push(worker));
            assert_eq!(done.lock().unwrap().len(), expected);
            assert_eq!(few.workers(), expected);
        }
    }

    #[test]
    fn alone_it_runs_in_place() {
        let pool = Workers::new(Parking::default());
        let done = Mutex::new(vec![]);
        pool.run(&|worker| done.lock().unwrap().push(worker));
        assert_eq!(*done.lock().unwrap(), [0]);
    }
}
