//! Ends matching that holds up a step: a thread looks now and then at what is being computed.
//!
//! Time is counted in looks, not by a clock, so that a process that was stopped for a while, or a machine that stood
//! still, fails nobody. What a matcher allows never depends on it: matching is done in time, or the request has failed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use llguidance::CancellationHandle;

/// How often it looks.
const LOOK: Duration = Duration::from_millis(20);

/// A matcher's calls, as the watchdog sees them.
pub(crate) struct Watched {
    /// Counts beginnings and ends: odd while a call runs.
    calls: AtomicU64,
    handle: CancellationHandle,
    /// Looks at the same call after which it is ended.
    allowed_looks: u32,
}

impl Watched {
    /// Says that a call begins, until the guard is dropped.
    pub(crate) fn call(self: &Arc<Self>) -> Call {
        self.calls.fetch_add(1, Ordering::Relaxed);
        Call(Arc::clone(self))
    }
}

/// A call that runs.
pub(crate) struct Call(Arc<Watched>);

impl Drop for Call {
    fn drop(&mut self) {
        self.0.calls.fetch_add(1, Ordering::Relaxed);
    }
}

/// What is looked at, and what was seen of it.
struct Seen {
    watched: Weak<Watched>,
    calls: u64,
    looks: u32,
}

/// Looks at matchers while there are any.
#[derive(Default)]
pub(crate) struct Watchdog(Mutex<Round>);

#[derive(Default)]
struct Round {
    seen: Vec<Seen>,
    awake: bool,
}

impl Watchdog {
    /// Watches the calls of a matcher that listens to `handle`: none may take longer than `time`, or not much.
    pub(crate) fn watch(
        self: &Arc<Self>,
        handle: CancellationHandle,
        time: Duration,
    ) -> Arc<Watched> {
        let looks = time.as_nanos().div_ceil(LOOK.as_nanos());
        let watched = Arc::new(Watched {
            calls: AtomicU64::new(0),
            handle,
            allowed_looks: u32::try_from(looks).unwrap_or(u32::MAX).max(1),
        });
        let mut round = self.round();
        round.seen.push(Seen {
            watched: Arc::downgrade(&watched),
            calls: 0,
            looks: 0,
        });
        if !round.awake {
            let this = Arc::clone(self);
            let thread = thread::Builder::new().name("grammar watch".into());
            round.awake = thread.spawn(move || while this.look() {}).is_ok();
        }
        if !round.awake {
            // Nothing is matched that nobody watches.
            watched.handle.cancel();
        }
        watched
    }

    fn round(&self) -> MutexGuard<'_, Round> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits and looks once. Says whether there is anything left to look at.
    fn look(&self) -> bool {
        thread::sleep(LOOK);
        let mut round = self.round();
        round.seen.retain_mut(|seen| {
            let Some(watched) = seen.watched.upgrade() else {
                return false;
            };
            let calls = watched.calls.load(Ordering::Relaxed);
            let same = calls == seen.calls && calls % 2 == 1;
            seen.looks = if same { seen.looks + 1 } else { 0 };
            seen.calls = calls;
            if seen.looks >= watched.allowed_looks {
                watched.handle.cancel();
            }
            true
        });
        round.awake = !round.seen.is_empty();
        round.awake
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_long_call_is_ended_and_many_short_ones_are_not() {
        let watchdog = Arc::new(Watchdog::default());
        let (long, short) = (CancellationHandle::default(), CancellationHandle::default());
        let watched = watchdog.watch(long.clone(), 5 * LOOK);
        let brief = watchdog.watch(short.clone(), 5 * LOOK);
        let call = watched.call();
        let start = Instant::now();
        while !long.is_cancelled() && start.elapsed() < Duration::from_secs(60) {
            drop(brief.call());
            thread::sleep(Duration::from_millis(1));
        }
        assert!(long.is_cancelled() && !short.is_cancelled());
        assert!(start.elapsed() >= 5 * LOOK);
        drop(call);
        drop((watched, brief));
        // The thread goes when there is nothing to look at, and comes back.
        while watchdog.round().awake {
            assert!(start.elapsed() < Duration::from_secs(60));
            thread::sleep(LOOK);
        }
        let again = CancellationHandle::default();
        let watched = watchdog.watch(again.clone(), LOOK);
        let _call = watched.call();
        while !again.is_cancelled() {
            assert!(start.elapsed() < Duration::from_secs(60));
            thread::sleep(LOOK);
        }
    }
}
