//! The operating system's monotonic clock.

use std::time::Instant;
use strata_platform::Clock;

/// Time since it was made.
#[derive(Copy, Clone, Debug)]
pub struct MonotonicClock(Instant);

impl Default for MonotonicClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for MonotonicClock {
    fn now_ns(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}
