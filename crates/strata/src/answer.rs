//! Answers as they come: piece by piece, blocking or as a stream, with functions that answer tool calls.

use crate::error::{Error, ErrorKind};
use crate::events::Events;
use crate::request::{Request, tool_result};
use futures_core::Stream;
use std::collections::VecDeque;
use std::fmt;
use std::iter::FusedIterator;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use strata_chat::{CallPart, Event, Finish, Message, Role, ToolCall, ToolChoice, Usage};

/// Rounds of tool calls that functions answer, at most.
const MOST_ROUNDS: usize = 16;

/// A piece of an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delta {
    /// Text of the answer; empty while the model thinks or calls a tool.
    pub text: String,
    /// What the model thinks before it answers.
    pub thinking: String,
    /// A tool call, when it is complete.
    pub call: Option<ToolCall>,
    /// Which answer, where several were asked for.
    pub choice: usize,
}

/// A whole answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Completion {
    /// Its text.
    pub text: String,
    /// What the model thought before it answered.
    pub thinking: String,
    /// The tools that it called and that no function has answered.
    pub calls: Vec<ToolCall>,
    /// Why it ended.
    pub finish: Option<Finish>,
    /// What it took, all rounds of tool calls together.
    pub usage: Usage,
}

impl Completion {
    /// The model's message, to go on with the conversation.
    pub fn message(&self) -> Message {
        let mut message = Message::text(Role::Assistant, self.text.as_str());
        message.thinking = Some(self.thinking.clone()).filter(|text| !text.is_empty());
        message.tool_calls = self.calls.clone();
        message
    }
}

/// An answer as it comes: an iterator over its pieces. Dropping it cancels the request.
///
/// An error is the last item. Where the request has [functions](Request::tool_function), they run on the thread that
/// asks for the next piece.
pub struct Answer {
    request: Request,
    events: Events,
    deltas: VecDeque<Delta>,
    /// What was said and called in this round.
    round: Completion,
    /// What the rounds before took.
    before: Usage,
    rounds: usize,
    stage: Stage,
}

/// What is next, once all pieces that have come are taken.
enum Stage {
    /// More of the answer.
    Answering,
    /// The answer is complete; functions may have to answer its calls.
    RoundOver,
    /// Nothing.
    Ended,
    /// An error, then nothing.
    Failed(Error),
}

impl Answer {
    pub(crate) fn start(request: Request) -> Result<Self, Error> {
        let generate = &request.generate;
        if !request.functions.is_empty() && (generate.choices > 1 || generate.prompts.len() > 1) {
            let what =
                "functions can answer the tool calls of one answer, and several are asked for";
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        let events = request.model.generate(generate)?;
        Ok(Self {
            request,
            events,
            deltas: VecDeque::new(),
            round: Completion::default(),
            before: Usage::default(),
            rounds: 0,
            stage: Stage::Answering,
        })
    }

    /// What it has taken so far. Generated tokens are counted when the answer ends.
    pub fn usage(&self) -> Usage {
        let (before, now) = (self.before, self.events.usage());
        Usage {
            prompt_tokens: before.prompt_tokens + now.prompt_tokens,
            cached_tokens: before.cached_tokens + now.cached_tokens,
            generated_tokens: before.generated_tokens + now.generated_tokens,
            thinking_tokens: before.thinking_tokens + now.thinking_tokens,
            drafted_tokens: before.drafted_tokens + now.drafted_tokens,
            accepted_tokens: before.accepted_tokens + now.accepted_tokens,
        }
    }

    /// Why it ended, once it has.
    pub fn finish_reason(&self) -> Option<&Finish> {
        self.round.finish.as_ref()
    }

    /// Waits for the rest. Gives what has not been read yet of the answer, or of the first one where several were asked
    /// for.
    pub fn finish(mut self) -> Result<Completion, Error> {
        let mut whole = Completion::default();
        for delta in self.by_ref() {
            whole.add(delta?);
        }
        Ok(self.complete(whole))
    }

    /// What is known at the end, added to what was read.
    fn complete(self, read: Completion) -> Completion {
        Completion {
            usage: self.usage(),
            calls: self.round.calls,
            finish: self.round.finish,
            ..read
        }
    }

    /// The next item, if it can be told without waiting for the engine.
    fn next_ready(&mut self) -> Poll<Option<Result<Delta, Error>>> {
        loop {
            if let Some(delta) = self.deltas.pop_front() {
                return Poll::Ready(Some(Ok(delta)));
            }
            match std::mem::replace(&mut self.stage, Stage::Ended) {
                Stage::Answering => {
                    self.stage = Stage::Answering;
                    return Poll::Pending;
                }
                Stage::RoundOver => match self.answer_calls() {
                    Ok(true) => self.stage = Stage::Answering,
                    Ok(false) => {}
                    Err(error) => self.stage = Stage::Failed(error),
                },
                Stage::Ended => return Poll::Ready(None),
                Stage::Failed(error) => return Poll::Ready(Some(Err(error))),
            }
        }
    }

    fn take_in(&mut self, events: Vec<Event>) {
        if events.is_empty() {
            self.stage = Stage::Ended;
        }
        for event in events {
            match event {
                Event::Text { choice, text } => self.push(Delta {
                    text,
                    choice,
                    ..Delta::default()
                }),
                Event::Thinking { choice, text } => self.push(Delta {
                    thinking: text,
                    choice,
                    ..Delta::default()
                }),
                Event::Call {
                    choice,
                    part: CallPart::End(call),
                    ..
                } => self.push(Delta {
                    call: Some(call),
                    choice,
                    ..Delta::default()
                }),
                Event::Finished { choice: 0, reason } => self.round.finish = Some(reason),
                Event::Failed(fault) => {
                    let failure = self.events.failure().cloned();
                    self.stage = Stage::Failed(failure.unwrap_or_else(|| fault.into()));
                }
                Event::Done { .. } => self.stage = Stage::RoundOver,
                _ => {}
            }
        }
    }

    fn push(&mut self, delta: Delta) {
        self.round.add(delta.clone());
        self.deltas.push_back(delta);
    }

    /// Has functions answer the calls of this round and asks again; `false` if there is nothing to answer, or not all of it
    /// can be.
    fn answer_calls(&mut self) -> Result<bool, Error> {
        let calls = &self.round.calls;
        let functions = calls.iter().map(|call| self.request.function(&call.name));
        let Some(functions) = functions.collect::<Option<Vec<_>>>() else {
            return Ok(false);
        };
        if calls.is_empty() {
            return Ok(false);
        }
        self.rounds += 1;
        if self.rounds > MOST_ROUNDS {
            let what = format_args!("the model called tools {MOST_ROUNDS} times in a row");
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        let mut messages = vec![self.round.message()];
        for (call, function) in calls.iter().zip(functions) {
            let text = function(&call.arguments).unwrap_or_else(|error| format!("error: {error}"));
            messages.push(tool_result(call, text));
        }
        let Some(conversation) = self.request.messages_mut() else {
            return Ok(false);
        };
        conversation.extend(messages);
        // A call that was required has been made: from here on the model decides.
        match &mut self.request.generate.tools.choice {
            choice @ (ToolChoice::Required | ToolChoice::Named(_)) => *choice = ToolChoice::Auto,
            ToolChoice::Allowed { required, .. } => *required = false,
            ToolChoice::Auto | ToolChoice::None => {}
        }
        let events = self.request.model.generate(&self.request.generate)?;
        self.before = self.usage();
        self.events = events;
        self.round = Completion::default();
        Ok(true)
    }
}

impl Completion {
    /// Adds a piece, if it is of the first answer.
    fn add(&mut self, delta: Delta) {
        if delta.choice == 0 {
            self.text.push_str(&delta.text);
            self.thinking.push_str(&delta.thinking);
            self.calls.extend(delta.call);
        }
    }
}

impl Iterator for Answer {
    type Item = Result<Delta, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Poll::Ready(item) = self.next_ready() {
                return item;
            }
            let events = self.events.next_blocking();
            self.take_in(events);
        }
    }
}

impl FusedIterator for Answer {}

impl fmt::Debug for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Answer");
        shown.field("request", &self.request);
        shown.finish_non_exhaustive()
    }
}

/// An answer as a [`Stream`] of its pieces. Dropping it cancels the request.
///
/// An error is the last item. Where the request has [functions](Request::tool_function), they run on the task that polls.
#[derive(Debug)]
pub struct AsyncAnswer(pub(crate) Answer);

impl AsyncAnswer {
    /// The next piece; `None` after the last one.
    pub async fn next(&mut self) -> Option<Result<Delta, Error>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// What it has taken so far. Generated tokens are counted when the answer ends.
    pub fn usage(&self) -> Usage {
        self.0.usage()
    }

    /// Why it ended, once it has.
    pub fn finish_reason(&self) -> Option<&Finish> {
        self.0.finish_reason()
    }

    /// Waits for the rest, as [`Answer::finish`] does.
    pub async fn finish(mut self) -> Result<Completion, Error> {
        let mut whole = Completion::default();
        while let Some(delta) = self.next().await {
            whole.add(delta?);
        }
        Ok(self.0.complete(whole))
    }
}

impl Stream for AsyncAnswer {
    type Item = Result<Delta, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let answer = &mut self.0;
        loop {
            if let Poll::Ready(item) = answer.next_ready() {
                return Poll::Ready(item);
            }
            let events = ready!(answer.events.poll_next(context));
            answer.take_in(events);
        }
    }
}
