//! A request's events on their way from the engine's thread to whoever asked: read by blocking, or from a future.

use std::collections::VecDeque;
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
    /// Whoever waits for the next event, and whoever waits for the end.
    next: Option<Waker>,
    end: Option<Waker>,
}

/// The queue; clones lead to the same one.
#[derive(Clone, Default)]
pub(super) struct Queue(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event. Says whether anybody but the caller still has the queue.
    pub(super) fn push(&self, heard: Heard) -> bool {
        let mut state = self.state();
        state.heard.push_back(heard);
        let waker = state.next.take();
        drop(state);
        self.0.changed.notify_one();
        if let Some(waker) = waker {
            waker.wake();
        }
        Arc::strong_count(&self.0) > 1
    }

    /// Nothing follows.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        let wakers = [state.next.take(), state.end.take()];
        drop(state);
        self.0.changed.notify_all();
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    /// What there is already.
    pub(super) fn try_next(&self) -> Option<Heard> {
        self.state().heard.pop_front()
    }

    /// Waits for the next event; `None` after the last one.
    pub(super) fn next(&self) -> Option<Heard> {
        let mut state = self.state();
        loop {
            if let Some(heard) = state.heard.pop_front() {
                return Some(heard);
            }
            if state.closed {
                return None;
            }
            let waited = self.0.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits for the next event for so long; an error if none came.
    pub(super) fn next_within(&self, time: Duration) -> Result<Option<Heard>, TimedOut> {
        let end = Instant::now() + time;
        let mut state = self.state();
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
            let waited = self.0.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The next event, or a promise to wake the task when there is one.
    pub(super) fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<Heard>> {
        let mut state = self.state();
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
        let mut state = self.state();
        if state.closed {
            return Poll::Ready(());
        }
        state.end = Some(context.waker().clone());
        Poll::Pending
    }
}

/// Nothing came in time.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct TimedOut;
