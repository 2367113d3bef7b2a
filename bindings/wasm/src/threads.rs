//! Workers of the host that share this module's memory, each in an instance of its own.
//!
//! A task is announced by one store that all watch. Each worker says which task it has begun and which it has finished; a task
//! that a worker has not begun when the caller is done is taken away from it, so that nobody waits for a worker whose
//! processor does something else.

use core::arch::wasm32::{memory_atomic_notify, memory_atomic_wait64};
use core::cell::UnsafeCell;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use strata_platform::Pool;

/// Workers at most, the caller included.
const MOST: usize = 32;
/// Looks for the next task before a worker sleeps: longer than what lies between two tasks of a step.
const LOOKS: u32 = 20_000;

type Work = *const (dyn Fn(usize) + Sync);

/// The current task, written while no worker is at one.
struct Task(UnsafeCell<Option<Work>>);

// SAFETY: it is written by the one caller while no worker can begin the task before, and read by workers that have begun this
// one. What it leads to is `Sync` and stays until all of them have finished.
unsafe impl Sync for Task {}

/// What is known of a worker: the last task that it began, or that was taken away, and the last that it finished.
struct Place {
    begun: AtomicU64,
    finished: AtomicU64,
}

static TASK: Task = Task(UnsafeCell::new(None));
/// Counts tasks.
static EPOCH: AtomicU64 = AtomicU64::new(0);
static SLEEPERS: AtomicU32 = AtomicU32::new(0);
static WORKERS: AtomicUsize = AtomicUsize::new(1);
static PANICKED: AtomicBool = AtomicBool::new(false);
static PLACES: [Place; MOST] = [const {
    Place {
        begun: AtomicU64::new(0),
        finished: AtomicU64::new(0),
    }
}; MOST];

/// Says how many workers there are, the caller included. Gives how many will be used.
pub(crate) fn set_workers(count: usize) -> usize {
    let count = count.clamp(1, MOST);
    WORKERS.store(count, Ordering::Relaxed);
    count
}

/// A thread has ended in the middle of its work: others must not wait for it.
pub(crate) fn panicked() {
    PANICKED.store(true, Ordering::SeqCst);
}

/// A worker's life: waits for tasks and does them.
pub(crate) fn serve(worker: usize) {
    let Some(place) = PLACES.get(worker) else {
        return;
    };
    let mut seen = 0;
    loop {
        seen = next_epoch(seen);
        if place.begun.fetch_max(seen, Ordering::SeqCst) >= seen {
            continue;
        }
        // SAFETY: the task was begun, so it stays until it is finished.
        if let Some(task) = unsafe { *TASK.0.get() } {
            // SAFETY: as above.
            unsafe { (*task)(worker) };
        }
        place.finished.store(seen, Ordering::SeqCst);
    }
}

/// Waits for another task than this one.
fn next_epoch(seen: u64) -> u64 {
    loop {
        for _ in 0..LOOKS {
            let epoch = EPOCH.load(Ordering::SeqCst);
            if epoch != seen {
                return epoch;
            }
            spin_loop();
        }
        SLEEPERS.fetch_add(1, Ordering::SeqCst);
        // SAFETY: the counter is there as long as the module. It is looked at again before the thread sleeps.
        unsafe { memory_atomic_wait64(EPOCH.as_ptr().cast(), seen.cast_signed(), -1) };
        SLEEPERS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The workers, and the thread that calls them.
pub(crate) struct Workers;

impl Workers {
    /// Announces a task, does the caller's part, and waits for the others; `needed` says whether all must have a part.
    fn work(&self, task: &(dyn Fn(usize) + Sync), needed: bool) {
        let workers = self.workers();
        if workers == 1 {
            return task(0);
        }
        // SAFETY: only the lifetime changes, and this function returns when nobody uses the task any more.
        let work: Work = unsafe { core::mem::transmute::<&(dyn Fn(usize) + Sync), Work>(task) };
        // SAFETY: no worker is at a task or can begin the one before.
        unsafe { *TASK.0.get() = Some(work) };
        let epoch = EPOCH.load(Ordering::Relaxed) + 1;
        EPOCH.store(epoch, Ordering::SeqCst);
        if SLEEPERS.load(Ordering::SeqCst) > 0 {
            // SAFETY: the counter is there as long as the module.
            unsafe { memory_atomic_notify(EPOCH.as_ptr().cast(), u32::MAX) };
        }
        task(0);
        for place in &PLACES[1..workers] {
            if !needed && place.begun.fetch_max(epoch, Ordering::SeqCst) < epoch {
                continue;
            }
            while place.finished.load(Ordering::SeqCst) != epoch {
                assert!(!PANICKED.load(Ordering::Relaxed), "a thread has panicked");
                spin_loop();
            }
        }
    }
}

impl Pool for Workers {
    fn workers(&self) -> usize {
        WORKERS.load(Ordering::Relaxed)
    }

    fn run(&self, task: &(dyn Fn(usize) + Sync)) {
        self.work(task, true);
    }

    fn share(&self, task: &(dyn Fn(usize) + Sync)) {
        self.work(task, false);
    }
}
