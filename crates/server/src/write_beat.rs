//! When streams are written to: all of them at once, so many times a second.
//!
//! A small model makes a token for every stream each millisecond or two. Waking a thread and calling the system for
//! each of them takes as long as a part of the token itself, on processors that compute the next ones. So what comes
//! between two beats leaves together. A model that is slower than the beat, and every first token, is not held up.

use std::time::{Duration, Instant};

/// Time between two writes to a stream: a screen's between two pictures.
const BEAT: Duration = Duration::from_millis(16);

/// Waits for the next beat, counted from a moment that all streams of a server share.
pub(crate) async fn next_beat(start: Instant) {
    tokio::time::sleep_until((start + after(start.elapsed())).into()).await;
}

/// The beat after so much time.
fn after(time: Duration) -> Duration {
    let beats = time.as_nanos() / BEAT.as_nanos() + 1;
    Duration::from_nanos((beats * BEAT.as_nanos()) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_beat_is_never_far_and_never_now() {
        for nanoseconds in [0, 1, 15_999_999, 16_000_000, 16_000_001, 123_456_789_012] {
            let time = Duration::from_nanos(nanoseconds);
            let next = after(time);
            assert!(next > time && next - time <= BEAT, "{time:?} {next:?}");
            assert!(next.as_nanos().is_multiple_of(BEAT.as_nanos()));
        }
    }
}
