//! How often a reader is woken at most.
//!
//! Waking a thread or an event loop takes some ten times as long as reading a document, from a processor that the engine
//! computes on. Where documents come faster than one in [`PACE`], a reader that waits lets them gather for so long, or until the
//! answer ends; where they come slower, and for the first ones, it is woken by each.

use std::time::{Duration, Instant};

/// Shorter than anyone sees, and longer than a small model takes for some tokens.
const PACE: Duration = Duration::from_millis(2);

/// When a reader was last given something, and whether more comes soon.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    given: Option<Instant>,
    fast: bool,
}

impl Pace {
    /// Takes in that so many documents were there at once, one at least.
    pub(crate) fn gave(&mut self, documents: usize, now: Instant) {
        let soon = |given: Instant| now.saturating_duration_since(given) < PACE;
        self.fast = documents > 1 || self.given.is_some_and(soon);
        self.given = Some(now);
    }

    /// How long to let documents gather from now on.
    pub(crate) fn pause(&self, now: Instant) -> Duration {
        let given = self.given.filter(|_| self.fast);
        given.map_or(Duration::ZERO, |given| {
            (given + PACE).saturating_duration_since(now)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_documents_that_come_fast_gather() {
        let (mut pace, start) = (Pace::default(), Instant::now());
        assert_eq!(pace.pause(start), Duration::ZERO);
        // The first, and one long after it.
        for moment in [start, start + 2 * PACE] {
            pace.gave(1, moment);
            assert_eq!(pace.pause(moment), Duration::ZERO);
        }
        // One soon after that: the next ones have what is left of the time.
        let soon = start + 2 * PACE + PACE / 2;
        pace.gave(1, soon);
        assert_eq!(pace.pause(soon), PACE);
        assert_eq!(pace.pause(soon + PACE / 4), PACE * 3 / 4);
        assert_eq!(pace.pause(soon + 2 * PACE), Duration::ZERO);
        // So long as several gather.
        pace.gave(3, soon + 2 * PACE);
        assert_eq!(pace.pause(soon + 2 * PACE), PACE);
        pace.gave(1, soon + 4 * PACE);
        assert_eq!(pace.pause(soon + 4 * PACE), Duration::ZERO);
    }
}
