//! The watchdog: a program that stops making progress is ended, and the reason kept.

use core::sync::atomic::{AtomicU64, Ordering};

/// A deadline on some clock, or none.
#[derive(Debug)]
pub struct Deadline {
    /// When it is too late; `u64::MAX` for never.
    at: AtomicU64,
    /// How long each step may take; 0 while nobody watches.
    limit: AtomicU64,
}

impl Deadline {
    /// Nobody watches.
    pub const fn new() -> Self {
        Self {
            at: AtomicU64::new(u64::MAX),
            limit: AtomicU64::new(0),
        }
    }

    /// From `now` on each step may take `limit`; 0 stops watching.
    pub fn arm(&self, now: u64, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
        self.progress(now);
    }

    /// A step is done.
    pub fn progress(&self, now: u64) {
        let at = match self.limit.load(Ordering::Relaxed) {
            0 => u64::MAX,
            limit => now.saturating_add(limit),
        };
        self.at.store(at, Ordering::Relaxed);
    }

    /// How long a step may take, if `now` is too late for the present one.
    pub fn missed(&self, now: u64) -> Option<u64> {
        (now > self.at.load(Ordering::Relaxed)).then(|| self.limit.load(Ordering::Relaxed))
    }
}

impl Default for Deadline {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod running {
    use super::Deadline;
    use crate::machine::interrupts::Frame;
    use crate::machine::{crash, time};

    static DEADLINE: Deadline = Deadline::new();

    /// Ends the run unless [`progress`] is called at least every so many nanoseconds; 0 stops watching.
    pub fn arm(limit: u64) {
        DEADLINE.arm(time::now(), limit);
    }

    /// A step is done.
    pub fn progress() {
        DEADLINE.progress(time::now());
    }

    /// Looks at the clock. Called by the timer's interrupt.
    pub(crate) fn tick(frame: &Frame) {
        if let Some(limit) = DEADLINE.missed(time::now()) {
            let at = crash::file_address(frame.instruction);
            crash::interrupted(
                format_args!(
                    "the watchdog saw no progress for {} ms, stuck at {at:#x}",
                    limit / 1_000_000
                ),
                frame,
            );
        }
    }
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) use running::tick;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub use running::{arm, progress};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_step_that_takes_too_long_is_noticed() {
        let deadline = Deadline::new();
        assert_eq!(deadline.missed(u64::MAX), None);
        deadline.arm(100, 50);
        assert_eq!(deadline.missed(150), None);
        assert_eq!(deadline.missed(151), Some(50));
        deadline.progress(140);
        assert_eq!(deadline.missed(190), None);
        assert_eq!(deadline.missed(191), Some(50));
        deadline.arm(200, 0);
        assert_eq!(deadline.missed(u64::MAX), None);
        deadline.arm(u64::MAX - 1, 100);
        assert_eq!(deadline.missed(u64::MAX), None);
    }
}
