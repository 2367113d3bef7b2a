//! Whether a worker is worth waiting for.
//!
//! Where other programs have its processor, a worker stops in the middle of its part for a time slice, and the caller
//! waits that long for a piece that it would have done itself in microseconds. So the caller keeps account of how much
//! of its time it waits for each worker. One that it waits for too much is suspended: it sleeps, and the others do its
//! part. After a pause it is tried again. The pause grows at each failure and shrinks slowly where the worker keeps up,
//! because a trial that fails costs more than a while without the worker.

use std::time::{Duration, Instant};

/// Time over which waits are judged.
const WINDOW: Duration = Duration::from_millis(10);
/// The share of it that may be spent waiting for one worker: one in so many. Parts of uneven length cost up to an eighth.
const MOST: u32 = 3;
/// The pause after the first failure, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));

/// What the caller knows of one worker.
#[derive(Debug)]
pub(crate) struct Standing {
    waited: Duration,
    total: Duration,
    pause: Duration,
    /// Until when it is suspended.
    until: Option<Instant>,
}

impl Default for Standing {
    fn default() -> Self {
        Self {
            waited: Duration::ZERO,
            total: Duration::ZERO,
            pause: PAUSES.0,
            until: None,
        }
    }
}

impl Standing {
    /// Whether it is suspended; at the end of its pause it is not any more.
    pub(crate) fn is_suspended(&mut self, now: Instant) -> bool {
        if self.until.is_some_and(|until| now >= until) {
            self.until = None;
        }
        self.until.is_some()
    }

    /// Ends a pause.
    pub(crate) fn resume(&mut self) {
        self.until = None;
    }

    /// Takes in a task that took `total`, of which the caller waited `waited` for this worker.
    pub(crate) fn learn(&mut self, now: Instant, total: Duration, waited: Duration) {
        self.total += total;
        self.waited += waited;
        if self.total < WINDOW {
            return;
        }
        if self.waited > self.total / MOST {
            self.until = Some(now + self.pause);
            self.pause = (4 * self.pause).min(PAUSES.1);
        } else {
            self.pause = (self.pause * 7 / 8).max(PAUSES.0);
        }
        (self.waited, self.total) = (Duration::ZERO, Duration::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TASK: Duration = Duration::from_millis(1);

    /// Tasks from `now` on until the worker is suspended, at most `most`.
    fn tasks(standing: &mut Standing, now: &mut Instant, waited: Duration, most: u32) -> u32 {
        (0..most)
            .find(|_| {
                *now += TASK;
                standing.learn(*now, TASK, waited);
                standing.is_suspended(*now)
            })
            .map_or(most, |before| before + 1)
    }

    #[test]
    fn a_worker_that_is_waited_for_too_long_pauses_ever_longer_and_comes_back() {
        let (mut standing, mut now) = (Standing::default(), Instant::now());
        let mut pause = PAUSES.0;
        for _ in 0..9 {
            assert_eq!(tasks(&mut standing, &mut now, TASK / 2, 100), 10);
            assert!(standing.is_suspended(now + pause - TASK));
            now += pause;
            assert!(!standing.is_suspended(now));
            pause = (4 * pause).min(PAUSES.1);
        }
        assert_eq!(pause, PAUSES.1);
        assert_eq!(tasks(&mut standing, &mut now, TASK / 8, 1000), 1000);
        assert_eq!(tasks(&mut standing, &mut now, TASK, 100), 10);
        assert!(!standing.is_suspended(now + PAUSES.0));
    }
}
