//! A sequence as planning sees it, and its place among others.

use crate::request::{ClientId, Priority};
use core::time::Duration;

/// How much earlier a sequence counts as having come, for each class of priority above the lowest.
const HEAD_START: Duration = Duration::from_secs(30);

/// Names a sequence.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SequenceId(pub(crate) u64);

/// A sequence to be computed, as far as planning goes.
#[derive(Clone, Debug)]
pub(crate) struct ScheduledSequence {
    pub(crate) id: SequenceId,
    pub(crate) client: ClientId,
    pub(crate) priority: Priority,
    pub(crate) arrival: Duration,
    /// When it comes before the client's other sequences, because its deadline is near.
    pub(crate) urgent: Option<Duration>,
    /// How long its steps may take.
    pub(crate) target: Option<Duration>,
    /// Tokens to compute; 0 while it waits for something else.
    pub(crate) pending: usize,
    pub(crate) admitted: bool,
    pub(crate) displaced: u8,
}

impl ScheduledSequence {
    /// Better-placed sequences are greater: they keep their memory.
    pub(super) fn rank(&self) -> (Priority, core::cmp::Reverse<(Duration, SequenceId)>) {
        (self.priority, core::cmp::Reverse((self.arrival, self.id)))
    }

    /// The place among its client's sequences; the least comes first.
    pub(super) fn place(&self, now: Duration) -> (bool, i128, SequenceId) {
        let urgent = self.urgent.is_some_and(|from| now >= from);
        let start = HEAD_START.as_nanos() as i128 * self.priority as i128;
        (!urgent, self.arrival.as_nanos() as i128 - start, self.id)
    }
}
