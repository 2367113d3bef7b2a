//! A request's events on their way from the engine's thread to whoever asked: read by blocking, or from a future.

use std::collections::VecDeque;
use std::fmt::{self, Display};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use strata_engine::{Event, SubmitError};

/// What the engine's thread says of a request.
#[derive(Debug)]
pub enum Heard {
    /// It was not taken; nothing follows.
    Refused(SubmitError),
    /// Something happened to it.
    Event(Event),
}

#[derive(Default)]
struct State {
    heard: VecDeque<Heard>,
    closed: bool,
    /// Threads that wait: where there are none, telling them would be a system call for nothing at each token.
    sleepers: usize,
    /// Whoever waits for the next event, and whoever waits for the end.
    next: Option<Waker>,
    end: Option<Waker>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Both ends of a new queue.
pub(super) fn queue() -> (QueueWriter, QueueReader) {
    let shared = Arc::<Shared>::default();
    (QueueWriter(Arc::clone(&shared)), QueueReader(shared))
}

/// The engine's end of a queue. Dropping it closes the queue, however that comes about: nobody waits for an event that no
/// one will send.
pub(super) struct QueueWriter(Arc<Shared>);

impl QueueWriter {
    /// Adds an event. Says whether anybody is left to read it.
    pub(super) fn push(&self, heard: Heard) -> bool {
        let mut state = self.0.state();
        state.heard.push_back(heard);
        let waker = state.next.take();
        let sleepers = state.sleepers;
        drop(state);
        if sleepers > 0 {
            self.0.changed.notify_one();
        }
        if let Some(waker) = waker {
            waker.wake();
        }
        Arc::strong_count(&self.0) > 1
    }
}

impl Drop for QueueWriter {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.closed = true;
        let wakers = [state.next.take(), state.end.take()];
        drop(state);
        self.0.changed.notify_all();
        wakers.into_iter().flatten().for_each(Waker::wake);
    }
}

/// The end of a queue that whoever asked reads.
pub(super) struct QueueReader(Arc<Shared>);

impl QueueReader {
    /// What there is already.
    pub(super) fn try_next(&self) -> Option<Heard> {
        self.0.state().heard.pop_front()
    }

    /// Waits for the next event; `None` after the last one.
    pub(super) fn next(&self) -> Option<Heard> {
        let mut state = self.0.state();
        loop {
            if let Some(heard) = state.heard.pop_front() {
                return Some(heard);
            }
            if state.closed {
                return None;
            }
            state.sleepers += 1;
            let waited = self.0.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
            state.sleepers -= 1;
        }
    }

    /// Waits for the next event until `end`; an error if none came.
    pub(super) fn next_until(&self, end: Instant) -> Result<Option<Heard>, TimedOut> {
        let mut state = self.0.state();
        loop {
            if let Some(heard) = state.heard.pop_front() {
                return Ok(Some(heard));
            }
            if state.closed {
                return Ok(None);
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(TimedOut);
            }
            state.sleepers += 1;
            let waited = self.0.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.sleepers -= 1;
        }
    }

    /// The next event, or a promise to wake the task when there is one.
    pub(super) fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<Heard>> {
        let mut state = self.0.state();
        if let Some(heard) = state.heard.pop_front() {
            return Poll::Ready(Some(heard));
        }
        if state.closed {
            return Poll::Ready(None);
        }
        state.next = Some(context.waker().clone());
        Poll::Pending
    }

    /// Ready once nothing follows what is in the queue.
    pub(super) fn poll_closed(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.0.state();
        if state.closed {
            return Poll::Ready(());
        }
        state.end = Some(context.waker().clone());
        Poll::Pending
    }
}

/// The end of a wait that begins now. Waits are cut to a century, so that the sum cannot overflow.
pub(crate) fn deadline(time: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
    Instant::now() + time.min(CENTURY)
}

/// Nothing came in time.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TimedOut;

impl Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nothing came in time")
    }
}

impl std::error::Error for TimedOut {}

#[cfg(test)]
mod tests {
    use super::*;
    use strata_engine::SubmitError;

    fn refusal() -> Heard {
        Heard::Refused(SubmitError::EmptyPrompt)
    }

    #[test]
    fn a_dropped_writer_ends_the_queue_after_what_it_wrote() {
        let (writer, reader) = queue();
        assert!(writer.push(refusal()));
        assert_eq!(reader.next_until(deadline(Duration::ZERO)).err(), None);
        assert_eq!(
            reader.next_until(deadline(Duration::ZERO)).err(),
            Some(TimedOut)
        );
        let waiting = std::thread::spawn(move || reader.next_until(deadline(Duration::MAX)));
        drop(writer);
        assert!(matches!(waiting.join().unwrap(), Ok(None)));
    }

    #[test]
    fn a_writer_learns_that_the_reader_is_gone() {
        let (writer, reader) = queue();
        drop(reader);
        assert!(!writer.push(refusal()));
    }
}
