//! The events of a request, in the form that every door shares.

use crate::error::Error;
use crate::worker::{Heard, Probe, RequestHandle, TimedOut, deadline};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use strata_chat::{AnswerStream, Event, Fault, Times, Usage, refusal};
use strata_engine::EventKind;

/// The events of a request, in the form that every door shares. Dropping them cancels the request. They do not keep the model:
/// where its last handle is dropped before the end, the request fails.
pub struct Events {
    runs: Vec<RequestHandle>,
    stream: AnswerStream,
    ready: Vec<Event>,
    /// Where the clock of its times began.
    start: Instant,
    failure: Option<Error>,
}

impl Events {
    pub(crate) fn new(
        runs: Vec<RequestHandle>,
        stream: AnswerStream,
        clock: Option<Instant>,
    ) -> Self {
        Self {
            runs,
            stream,
            ready: Vec::new(),
            start: clock.unwrap_or_else(Instant::now),
            failure: None,
        }
    }

    /// Whether the last event has happened: [`Event::Done`] or [`Event::Failed`].
    pub fn has_ended(&self) -> bool {
        self.stream.has_ended()
    }

    /// Whether the request ended with a failure.
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Why the request failed, where it did.
    pub fn failure(&self) -> Option<&Error> {
        self.failure.as_ref()
    }

    /// What the request has taken so far.
    pub fn usage(&self) -> Usage {
        self.stream.usage()
    }

    /// The number of messages dropped from the beginning of a conversation to make it fit.
    pub fn dropped_messages(&self) -> usize {
        self.stream.dropped_messages()
    }

    /// When things happened.
    pub fn times(&self) -> Times {
        self.stream.times()
    }

    /// A handle that tells where the prompt that is answered now stands; `None` after the end.
    pub fn probe(&self) -> Option<Probe> {
        let at = self.stream.awaited()?;
        Some(self.runs.get(at)?.probe())
    }

    /// Waits for the next events and gives all that have happened by then; none after the end.
    pub fn next_blocking(&mut self) -> Vec<Event> {
        while let Some(at) = self.awaited() {
            let heard = self.runs[at].next_blocking();
            self.take_in(at, heard);
        }
        std::mem::take(&mut self.ready)
    }

    /// Waits for the next events for `time` at most.
    pub fn next_within(&mut self, time: Duration) -> Result<Vec<Event>, TimedOut> {
        let end = deadline(time);
        while let Some(at) = self.awaited() {
            let heard = self.runs[at].next_until(end)?;
            self.take_in(at, heard);
        }
        Ok(std::mem::take(&mut self.ready))
    }

    /// The next events, from a future; none after the end.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Vec<Event>> {
        while let Some(at) = self.awaited() {
            let heard = ready!(self.runs[at].poll_next(context));
            self.take_in(at, heard);
        }
        Poll::Ready(std::mem::take(&mut self.ready))
    }

    /// Ready once the engine has said everything about the prompt that is answered now: a writer that gathers events need
    /// wait no longer.
    pub fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self.stream.awaited() {
            Some(at) => self.runs[at].poll_over(context),
            None => Poll::Ready(()),
        }
    }

    /// The run to wait for, unless there is something to tell already.
    fn awaited(&self) -> Option<usize> {
        let at = self.stream.awaited();
        at.filter(|_| self.ready.is_empty())
    }

    /// Takes in what was waited for, and all else that has happened by now, so that it leaves together.
    fn take_in(&mut self, at: usize, heard: Option<Heard>) {
        self.push(at, heard);
        while let Some(at) = self.stream.awaited() {
            match self.runs[at].ready() {
                Some(heard) => self.push(at, Some(heard)),
                None => break,
            }
        }
        if self.stream.has_ended() {
            // Where one prompt has failed, the others are canceled.
            self.runs.clear();
        }
    }

    fn push(&mut self, at: usize, heard: Option<Heard>) {
        let now = self.start.elapsed();
        let events = &mut self.ready;
        let mut failure = None;
        match heard {
            Some(Heard::Event(event)) => {
                if let EventKind::Failed(error) = &event.kind {
                    failure = Some(Error::from(error.clone()));
                }
                self.stream
                    .push(at, (event.choice, event.kind), now, events);
            }
            Some(Heard::Refused(error)) => {
                self.stream.fail(refusal(&error), now, events);
                failure = Some(error.into());
            }
            None => self.stream.fail(Fault::unloaded(), now, events),
        }
        if let Some(Event::Failed(fault)) = events.last() {
            self.failure = Some(failure.unwrap_or_else(|| fault.clone().into()));
        }
        if !self.stream.is_open(at) {
            self.runs[at].end();
        }
    }
}
