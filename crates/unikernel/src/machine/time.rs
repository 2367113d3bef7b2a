//! The processor's counter as a clock.
#![cfg_attr(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    allow(unsafe_code)
)]

/// Converts ticks to nanoseconds with one multiplication.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Nanoseconds a tick, times 2³².
    factor: u64,
}

impl Scale {
    /// For a counter of `hz` ticks a second, at least one.
    pub const fn new(hz: u64) -> Self {
        let hz = if hz == 0 { 1 } else { hz };
        Self {
            factor: ((1_000_000_000u128 << 32) / hz as u128) as u64,
        }
    }

    /// How long that many ticks are.
    pub fn nanoseconds(self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.factor)) >> 32) as u64
    }
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod clock {
    //! The machine's clock.

    use super::Scale;
    use crate::machine::{cpu, frequency};
    use core::sync::atomic::{AtomicU64, Ordering};
    use strata_platform::Clock;

    /// Where nothing tells the frequency. Too high is better than too low: waits are then too long.
    const GUESS: u64 = 4_000_000_000;

    static HZ: AtomicU64 = AtomicU64::new(GUESS);
    static FACTOR: AtomicU64 = AtomicU64::new(Scale::new(GUESS).factor);
    static START: AtomicU64 = AtomicU64::new(0);

    /// Finds the frequency. Time begins now.
    ///
    /// # Safety
    /// For the bare machine, when firmware no longer uses its timers.
    pub unsafe fn start() {
        // SAFETY: the caller's promise.
        let hz = unsafe { frequency::find() }.unwrap_or(GUESS);
        HZ.store(hz, Ordering::Relaxed);
        FACTOR.store(Scale::new(hz).factor, Ordering::Relaxed);
        START.store(cpu::time_stamp(), Ordering::Release);
    }

    /// How often a second the counter counts.
    pub fn frequency() -> u64 {
        HZ.load(Ordering::Relaxed)
    }

    /// Nanoseconds since [`start`].
    pub fn now() -> u64 {
        let ticks = cpu::time_stamp().wrapping_sub(START.load(Ordering::Acquire));
        let factor = FACTOR.load(Ordering::Relaxed);
        Scale { factor }.nanoseconds(ticks)
    }

    /// Waits, awake.
    pub fn wait(microseconds: u64) {
        let ticks = u128::from(frequency()) * u128::from(microseconds) / 1_000_000;
        let start = cpu::time_stamp();
        while u128::from(cpu::time_stamp().wrapping_sub(start)) < ticks {
            core::hint::spin_loop();
        }
    }

    /// The clock that the engine asks.
    #[derive(Copy, Clone, Debug, Default)]
    pub struct TimeStamps;

    impl Clock for TimeStamps {
        fn now_ns(&self) -> u64 {
            now()
        }
    }
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub use clock::{TimeStamps, frequency, now, start, wait};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_nanoseconds() {
        for hz in [1_000_000u64, 2_345_678_901, 5_000_000_000] {
            for seconds in [1, 3600, 86_400 * 365] {
                let exact = seconds as f64 * 1e9;
                let got = Scale::new(hz).nanoseconds(hz * seconds) as f64;
                assert!((got / exact - 1.0).abs() < 1e-8, "{hz} {seconds}");
            }
        }
        let _ = Scale::new(0).nanoseconds(u64::MAX);
    }
}
