//! How long a thread waits awake for another before it sleeps.
//!
//! Waking a sleeper takes several microseconds, in a virtual machine often fifty; looking again takes some
//! nanoseconds. So waiters look for a while first: without a pause in which others could run, then giving way to
//! them between looks. Where there are more threads than processors the one waited for may need this very processor,
//! and waiters give way at once.
//!
//! Giving way to another program costs its whole time slice, some milliseconds, and the scheduler counts it as time
//! that the waiter had. A thread that sleeps instead is let in as soon as it is woken. So a yield that took long tells
//! that the processor is wanted elsewhere, and for many waits after that the waiter sleeps rather than yields.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long the processor is kept: longer than the caller's own work between two tasks of a layer.
const KEEP: Duration = Duration::from_micros(100);
/// How long a waiter looks at all: longer than what lies between two tokens.
const LOOK: Duration = Duration::from_millis(1);
/// Looks between two offers to give way.
const LOOKS_PER_YIELD: u32 = 64;
/// How often `KEEP` may be halved: to 3 microseconds, for another processor answers within one.
const MOST_DOUBT: u32 = 5;
/// Offers to give way before sleeping, where threads share processors.
const CROWDED_YIELDS: u32 = 20;
/// A yield that takes longer let another program run; a free processor comes back within a microsecond.
const LONG_YIELD: Duration = Duration::from_micros(300);
/// Waits without a yield after that, before one is tried again: some tens of tokens.
const WAITS_WITHOUT_YIELD: u32 = 4096;

/// What a waiter does before it sleeps.
#[derive(Copy, Clone, Debug)]
pub(crate) struct SpinWait {
    /// Looks in a row.
    pub(crate) spins: u32,
    /// Offers to give way after that.
    yields: u32,
    /// Looks between two offers.
    spins_per_yield: u32,
}

impl SpinWait {
    /// For threads that have a processor each: `LOOK` in all, at the measured speed of this machine.
    pub(crate) fn measured() -> Self {
        const SAMPLE: u32 = 256;
        // The shortest of a few: the others may have been interrupted.
        let sample = (0..4)
            .map(|_| {
                let start = Instant::now();
                (0..SAMPLE).for_each(|_| spin_loop());
                start.elapsed()
            })
            .min()
            .unwrap_or(KEEP)
            .max(Duration::from_nanos(1));
        let looks =
            |time: Duration| (time.as_nanos() * u128::from(SAMPLE) / sample.as_nanos()) as u32;
        Self {
            spins: looks(KEEP),
            yields: looks(LOOK - KEEP) / LOOKS_PER_YIELD,
            spins_per_yield: LOOKS_PER_YIELD,
        }
    }

    /// For more threads than processors.
    pub(crate) const CROWDED: Self = Self {
        spins: 8,
        yields: CROWDED_YIELDS,
        spins_per_yield: 1,
    };

    /// Sleeps at once.
    #[cfg(test)]
    pub(crate) const NONE: Self = Self {
        spins: 0,
        yields: 0,
        spins_per_yield: 1,
    };

    /// Looks until `ready`, and says whether it came to that before it gave up.
    pub(crate) fn wait(&self, history: &SpinHistory, ready: impl Fn() -> bool) -> bool {
        self.wait_by(history, ready, || {
            let start = Instant::now();
            std::thread::yield_now();
            start.elapsed()
        })
    }

    /// The same with a way to yield, which tells how long it took.
    fn wait_by(
        &self,
        history: &SpinHistory,
        ready: impl Fn() -> bool,
        give_way: impl Fn() -> Duration,
    ) -> bool {
        let look = |times| {
            (0..times).any(|_| {
                let ready = ready();
                if !ready {
                    spin_loop();
                }
                ready
            })
        };
        if look(history.shorten(self.spins)) {
            history.kept_well();
            return true;
        }
        for _ in 0..self.yields {
            if !history.may_yield() {
                history.kept_in_vain();
                return false;
            }
            if give_way() > LONG_YIELD {
                history.yielded_long();
            }
            if ready() {
                history.kept_in_vain();
                return true;
            }
            if look(self.spins_per_yield) {
                history.kept_well();
                return true;
            }
        }
        false
    }
}

/// Whether keeping the processor has paid lately for one waiter.
///
/// Other programs may leave both sides of a wait on one processor. Then keeping it only keeps it from the other side,
/// as long as the wait lasts, at each wait. It shows: what is waited for is there right after giving way. So the time
/// is shortened when that happens, and lengthened again when something comes while the processor is kept.
#[derive(Debug, Default)]
pub(crate) struct SpinHistory {
    /// How often the time is halved.
    doubt: AtomicU32,
    /// Waits to come that do not yield.
    without_yield: AtomicU32,
}

impl SpinHistory {
    fn shorten(&self, spins: u32) -> u32 {
        spins >> self.doubt.load(Ordering::Relaxed)
    }

    fn kept_well(&self) {
        let doubt = self.doubt.load(Ordering::Relaxed);
        if doubt > 0 {
            self.doubt.store(doubt - 1, Ordering::Relaxed);
        }
    }

    /// Whether the processor seems to be ours to give away and get back.
    fn may_yield(&self) -> bool {
        let left = self.without_yield.load(Ordering::Relaxed);
        if left > 0 {
            self.without_yield.store(left - 1, Ordering::Relaxed);
        }
        left == 0
    }

    fn yielded_long(&self) {
        self.without_yield
            .store(WAITS_WITHOUT_YIELD, Ordering::Relaxed);
    }

    fn kept_in_vain(&self) {
        let doubt = self.doubt.load(Ordering::Relaxed);
        self.doubt
            .store((doubt + 2).min(MOST_DOUBT), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn looks(history: &SpinHistory, needed: u32) -> (bool, u32) {
        looks_yielding(history, needed, Duration::ZERO)
    }

    fn looks_yielding(history: &SpinHistory, needed: u32, yield_time: Duration) -> (bool, u32) {
        let spin_wait = SpinWait {
            spins: 1000,
            yields: 3,
            spins_per_yield: 10,
        };
        let looks = Cell::new(0);
        let ready = || {
            looks.set(looks.get() + 1);
            looks.get() > needed
        };
        let ready = spin_wait.wait_by(history, ready, || yield_time);
        (ready, looks.get())
    }

    #[test]
    fn the_wait_ends_and_success_is_seen_at_once() {
        assert_eq!(looks(&SpinHistory::default(), 0), (true, 1));
        assert_eq!(looks(&SpinHistory::default(), 500), (true, 501));
        assert_eq!(looks(&SpinHistory::default(), 1015), (true, 1016));
        assert_eq!(looks(&SpinHistory::default(), u32::MAX), (false, 1033));
    }

    #[test]
    fn keeping_the_processor_in_vain_shortens_the_next_wait() {
        let all = |history: &SpinHistory| looks(history, u32::MAX).1 - 33;
        let history = SpinHistory::default();
        // There right after giving way, once at each length.
        for (spins, next) in [(1000, 250), (250, 62), (62, 31), (31, 31)] {
            assert_eq!(looks(&history, spins), (true, spins + 1));
            assert_eq!(all(&history), next);
        }
        // There while looking, before or after giving way.
        for (needed, next) in [
            (0, 62),
            (62 + 5, 125),
            (100, 250),
            (0, 500),
            (0, 1000),
            (0, 1000),
        ] {
            assert!(looks(&history, needed).0);
            assert_eq!(all(&history), next);
        }
    }

    #[test]
    fn after_a_long_yield_waiters_sleep_for_a_while() {
        let history = SpinHistory::default();
        assert!(!looks_yielding(&history, u32::MAX, 2 * LONG_YIELD).0);
        for _ in 1..WAITS_WITHOUT_YIELD {
            let (ready, seen) = looks(&history, u32::MAX);
            assert!(!ready && seen <= 1000, "{seen}");
        }
        assert_eq!(looks(&history, u32::MAX), (false, 31 + 33));
    }

    #[test]
    fn a_measured_wait_keeps_the_processor_for_a_while() {
        let spin_wait = SpinWait::measured();
        assert!(
            spin_wait.spins > 100 && spin_wait.yields > 0,
            "{spin_wait:?}"
        );
    }
}
