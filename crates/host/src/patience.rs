//! How long a thread waits awake for another before it sleeps.
//!
//! Waking a sleeper takes several microseconds, in a virtual machine often fifty; looking again takes some
//! nanoseconds. So waiters look for a while first: without a pause in which others could run, then giving way to
//! them between looks. Where there are more threads than processors the one waited for may need this very processor,
//! and waiters give way at once.

use std::hint::spin_loop;
use std::time::{Duration, Instant};

/// How long the processor is kept: longer than the caller's own work between two tasks of a layer.
const KEEP: Duration = Duration::from_micros(100);
/// How long a waiter looks at all: longer than what lies between two tokens.
const LOOK: Duration = Duration::from_millis(1);
/// Looks between two offers to give way.
const LOOKS_PER_YIELD: u32 = 64;
/// Offers to give way before sleeping, where threads share processors.
const CROWDED_YIELDS: u32 = 20;

/// What a waiter does before it sleeps.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Patience {
    /// Looks in a row.
    spins: u32,
    /// Offers to give way after that.
    yields: u32,
    /// Looks between two offers.
    spins_per_yield: u32,
}

impl Patience {
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

    /// Looks until `ready`, and says whether it came to that before patience ran out.
    pub(crate) fn wait(&self, ready: impl Fn() -> bool) -> bool {
        let look = |times| {
            (0..times).any(|_| {
                let ready = ready();
                if !ready {
                    spin_loop();
                }
                ready
            })
        };
        look(self.spins)
            || (0..self.yields).any(|_| {
                std::thread::yield_now();
                look(self.spins_per_yield)
            })
    }
}
