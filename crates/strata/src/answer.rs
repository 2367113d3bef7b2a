//! Answers as they come.

use crate::error::{Error, ErrorKind};
use crate::request::Request;
use crate::worker::{Heard, Running, TimedOut};
use futures_core::Stream;
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use strata_chat::{
    AnswerStream, CallPart, Event, Fault, Finish, Message, Role, Times, ToolCall, Usage, refusal,
};

/// Rounds of tool calls that are answered by functions, at most.
const MOST_ROUNDS: usize = 16;

/// The events of a request, in the form that every door shares. Dropping them cancels it.
pub struct Events {
    runs: Vec<Running>,
    stream: AnswerStream,
    ready: Vec<Event>,
    /// Where the clock of its times began.
    start: Instant,
    failed: bool,
}

impl Events {
    pub(crate) fn new(runs: Vec<Running>, stream: AnswerStream, clock: Option<Instant>) -> Self {
        Self {
            runs,
            stream,
            ready: Vec::new(),
            start: clock.unwrap_or_else(Instant::now),
            failed: false,
        }
    }

    /// Whether all is told.
    pub fn has_ended(&self) -> bool {
        self.stream.has_ended()
    }

    /// Whether it ended with a failure.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// What it has taken so far.
    pub fn usage(&self) -> Usage {
        self.stream.usage()
    }

    /// When things happened.
    pub fn times(&self) -> Times {
        self.stream.times()
    }

    /// Waits for the engine and gives all that there is to tell by then; nothing after the end.
    pub fn next_blocking(&mut self) -> Vec<Event> {
        while let Some(at) = self.stream.awaited() {
            let heard = self.runs[at].next_blocking();
            self.push(at, heard);
            self.drain();
            if !self.ready.is_empty() {
                break;
            }
        }
        std::mem::take(&mut self.ready)
    }

    /// The same, for so long at most.
    pub fn next_within(&mut self, time: Duration) -> Result<Vec<Event>, TimedOut> {
        let end = Instant::now() + time;
        while let Some(at) = self.stream.awaited() {
            let left = end.saturating_duration_since(Instant::now());
            let heard = self.runs[at].next_within(left)?;
            self.push(at, heard);
            self.drain();
            if !self.ready.is_empty() {
                break;
            }
        }
        Ok(std::mem::take(&mut self.ready))
    }

    /// The same, from a future; nothing after the end.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Vec<Event>> {
        while let Some(at) = self.stream.awaited() {
            let heard = ready!(self.runs[at].poll_next(context));
            self.push(at, heard);
            self.drain();
            if !self.ready.is_empty() {
                break;
            }
        }
        Poll::Ready(std::mem::take(&mut self.ready))
    }

    /// Ready once the run that is told of has said everything: a writer that gathers events need wait no longer.
    pub fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self.stream.awaited() {
            Some(at) => self.runs[at].poll_over(context),
            None => Poll::Ready(()),
        }
    }

    /// Takes in all that has happened by now, so that it leaves together.
    fn drain(&mut self) {
        while let Some(at) = self.stream.awaited() {
            match self.runs[at].ready() {
                Some(heard) => self.push(at, Some(heard)),
                None => return,
            }
        }
    }

    fn push(&mut self, at: usize, heard: Option<Heard>) {
        let now = self.start.elapsed();
        let events = &mut self.ready;
        match heard {
            Some(Heard::Event(event)) => {
                self.stream
                    .push(at, (event.choice, event.kind), now, events);
            }
            Some(Heard::Refused(error)) => self.stream.fail(refusal(&error), now, events),
            None => self.stream.fail(Fault::unloaded(), now, events),
        }
        self.failed |= matches!(events.last(), Some(Event::Failed(_)));
        if !self.stream.is_open(at) {
            self.runs[at].end();
        }
    }
}

/// Something new of an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delta {
    /// Text of the answer; empty while the model thinks or calls a tool.
    pub text: String,
    /// What the model thinks before it answers.
    pub thinking: String,
    /// A tool's call, when it is complete.
    pub call: Option<ToolCall>,
    /// Which answer, where several were asked for.
    pub choice: usize,
}

/// A whole answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Completion {
    /// Its text.
    pub text: String,
    /// What the model thought before.
    pub thinking: String,
    /// The tools that it called and that no function has answered.
    pub calls: Vec<ToolCall>,
    /// Why it ended.
    pub finish: Option<Finish>,
    /// What it took.
    pub usage: Usage,
}

/// An answer as it comes. Dropping it cancels the request.
pub struct Answer {
    request: Request,
    events: Events,
    deltas: VecDeque<Delta>,
    /// Of this round: what was said and called.
    said: Completion,
    rounds: usize,
    done: bool,
}

impl Answer {
    pub(crate) fn start(request: Request) -> Result<Self, Error> {
        let events = request.model.generate(&request.generate)?;
        Ok(Self {
            request,
            events,
            deltas: VecDeque::new(),
            said: Completion::default(),
            rounds: 0,
            done: false,
        })
    }

    /// What it has taken so far.
    pub fn usage(&self) -> Usage {
        self.events.usage()
    }

    /// Why it ended, once it has.
    pub fn finish_reason(&self) -> Option<&Finish> {
        self.said.finish.as_ref()
    }

    /// Waits for the rest, and gives the first of the answers that were asked for.
    pub fn finish(mut self) -> Result<Completion, Error> {
        let mut text = String::new();
        let mut thinking = String::new();
        for delta in self.by_ref() {
            let delta = delta?;
            if delta.choice == 0 {
                text.push_str(&delta.text);
                thinking.push_str(&delta.thinking);
            }
        }
        Ok(Completion {
            text,
            thinking,
            usage: self.events.usage(),
            ..self.said
        })
    }

    /// The next piece, if there is one; `Ok(None)` if more events are needed or all is told.
    fn take_in(&mut self, events: Vec<Event>) -> Result<(), Error> {
        for event in events {
            match event {
                Event::Text { choice, text } => {
                    if choice == 0 {
                        self.said.text.push_str(&text);
                    }
                    self.deltas.push_back(Delta {
                        text,
                        choice,
                        ..Delta::default()
                    });
                }
                Event::Thinking { choice, text } => self.deltas.push_back(Delta {
                    thinking: text,
                    choice,
                    ..Delta::default()
                }),
                Event::Call {
                    choice,
                    part: CallPart::End(call),
                    ..
                } => {
                    if choice == 0 {
                        self.said.calls.push(call.clone());
                    }
                    self.deltas.push_back(Delta {
                        call: Some(call),
                        choice,
                        ..Delta::default()
                    });
                }
                Event::Finished { choice: 0, reason } => self.said.finish = Some(reason),
                Event::Failed(fault) => {
                    self.done = true;
                    return Err(fault.into());
                }
                Event::Done { .. } => self.end_round()?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Has functions answer the calls of this round, and asks again; or ends.
    fn end_round(&mut self) -> Result<(), Error> {
        let known = |call: &ToolCall| {
            self.request
                .functions
                .iter()
                .any(|(name, _)| *name == call.name)
        };
        let calls = &self.said.calls;
        if calls.is_empty() || !calls.iter().all(known) {
            self.done = true;
            return Ok(());
        }
        self.rounds += 1;
        if self.rounds > MOST_ROUNDS {
            self.done = true;
            let what = format_args!("the model called tools {MOST_ROUNDS} times in a row");
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        let said = std::mem::take(&mut self.said);
        let mut results = Vec::new();
        for call in &said.calls {
            let function = self
                .request
                .functions
                .iter()
                .find(|(name, _)| *name == call.name);
            let Some((_, function)) = function else {
                continue;
            };
            let text = function(&call.arguments).unwrap_or_else(|error| format!("error: {error}"));
            let mut message = Message::text(Role::Tool, text);
            message.tool_call_id = Some(call.id.clone());
            message.name = Some(call.name.clone());
            results.push(message);
        }
        let Some(messages) = self.request.messages_mut() else {
            self.done = true;
            return Ok(());
        };
        let mut answer = Message::text(Role::Assistant, said.text);
        answer.tool_calls = said.calls;
        messages.push(answer);
        messages.extend(results);
        self.events = self.request.model.generate(&self.request.generate)?;
        Ok(())
    }
}

impl Iterator for Answer {
    type Item = Result<Delta, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(delta) = self.deltas.pop_front() {
                return Some(Ok(delta));
            }
            if self.done {
                return None;
            }
            let events = self.events.next_blocking();
            if events.is_empty() {
                self.done = true;
            }
            if let Err(error) = self.take_in(events) {
                return Some(Err(error));
            }
        }
    }
}

/// An answer as a `Stream`. Dropping it cancels the request.
pub struct AsyncAnswer(pub(crate) Answer);

impl Stream for AsyncAnswer {
    type Item = Result<Delta, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let answer = &mut self.0;
        loop {
            if let Some(delta) = answer.deltas.pop_front() {
                return Poll::Ready(Some(Ok(delta)));
            }
            if answer.done {
                return Poll::Ready(None);
            }
            let events = ready!(answer.events.poll_next(context));
            if events.is_empty() {
                answer.done = true;
            }
            if let Err(error) = answer.take_in(events) {
                return Poll::Ready(Some(Err(error)));
            }
        }
    }
}
