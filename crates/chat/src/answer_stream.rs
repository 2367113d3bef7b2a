//! A request on its way through the engine: engine events in, chat events out.
//!
//! A stream does no I/O. Whoever runs the engine pushes its events with the time and gets the events to pass on.

mod returned_prompt;

use crate::answer_parser::{AnswerParser, AnswerToken};
use crate::model_profile::ModelProfile;
use crate::prepare::Prepared;
use crate::prompt::RenderedPrompt;
use crate::{Event, Fault, FaultKind, Finish, Generate, Timings, Usage};
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;
use returned_prompt::{ReturnedPrompt, with_bytes};
use strata_engine::sampling::SampleError;
use strata_engine::{
    BatchError, ConstraintError, EventKind, FinishReason, Request, RequestError, SubmitError,
};
use strata_tokenizer::Tokenizer;

/// When a request arrived, on the clock that also times its events.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// When it arrived.
    pub at: Duration,
    /// How long it waited for its model to load.
    pub load: Duration,
}

/// The times of a request's milestones.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// When it arrived.
    pub arrived: Duration,
    /// When it left the engine's queue.
    pub started: Option<Duration>,
    /// When its first token was generated.
    pub first_token: Option<Duration>,
    /// When its last event was emitted.
    pub ended: Option<Duration>,
}

/// A request in progress. Its prompts run concurrently in the engine; their events are merged into one stream.
#[derive(Debug)]
pub struct AnswerStream {
    /// One per prompt. They run concurrently and are emitted in order, as clients expect of choices.
    runs: Vec<Run>,
    parser: AnswerParser,
    tokenizer: Arc<Tokenizer>,
    stop: Vec<String>,
    choices: usize,
    /// Prompts to return with their answers, if requested.
    prompts: Vec<ReturnedPrompt>,
    /// Prompts are echoed as the beginning of their answers.
    echo: bool,
    /// Prompts are emitted as such.
    emits_prompts: bool,
    emits_tokens: bool,
    emits_progress: bool,
    /// Tokens generated so far by each choice that has not ended.
    unfinished: Vec<usize>,
    usage: Usage,
    dropped: usize,
    load: Duration,
    times: Times,
}

#[derive(Debug, Default)]
struct Run {
    /// Choices that have not ended.
    open: usize,
    /// Events that are not emitted yet.
    waiting: VecDeque<(usize, EventKind)>,
    /// Prompt tokens computed so far.
    computed: usize,
}

impl AnswerStream {
    /// A stream for a prepared request, and the engine requests to submit: run `i` of the stream is the `i`-th.
    pub fn new(
        request: &Generate,
        prepared: Prepared,
        profile: &ModelProfile,
        arrival: Arrival,
    ) -> (Self, Vec<Request>) {
        let Prepared {
            requests,
            prompts,
            parser,
            choices,
            dropped,
            ..
        } = prepared;
        let run = |_: &Request| Run {
            open: choices,
            waiting: VecDeque::new(),
            computed: 0,
        };
        let echo_scored = request.echo && request.logprobs.is_some();
        let scored = echo_scored || request.prompt_logprobs.is_some();
        let emits_prompts = request.tokens || request.prompt_logprobs.is_some();
        let prompt_tokens = prompts.iter().map(|prompt| prompt.tokens.len()).sum();
        let returned = prompts
            .into_iter()
            .filter(|_| request.echo || emits_prompts);
        let stream = Self {
            runs: requests.iter().map(run).collect(),
            parser,
            tokenizer: Arc::clone(&profile.tokenizer),
            stop: requests.first().map(|r| r.stop.clone()).unwrap_or_default(),
            choices,
            prompts: returned
                .map(|prompt| ReturnedPrompt::new(prompt, scored, &profile.tokenizer))
                .collect(),
            echo: request.echo,
            emits_prompts,
            emits_tokens: request.tokens || request.logprobs.is_some(),
            emits_progress: request.progress,
            unfinished: Vec::new(),
            usage: Usage {
                prompt_tokens,
                ..Usage::default()
            },
            dropped,
            load: arrival.load,
            times: Times {
                arrived: arrival.at,
                ..Times::default()
            },
        };
        (stream, requests)
    }

    /// The run whose events are emitted next; `None` once all have ended.
    pub fn awaited(&self) -> Option<usize> {
        let open = self.runs.iter().position(|run| run.open > 0);
        open.filter(|_| !self.has_ended())
    }

    /// Whether a run is still open.
    pub fn is_open(&self, run: usize) -> bool {
        self.runs.get(run).is_some_and(|run| run.open > 0)
    }

    /// Whether the last event was emitted.
    pub fn has_ended(&self) -> bool {
        self.times.ended.is_some()
    }

    /// Tokens used so far.
    pub fn usage(&self) -> Usage {
        let unfinished: usize = self.unfinished.iter().sum();
        Usage {
            generated_tokens: self.usage.generated_tokens + unfinished,
            ..self.usage
        }
    }

    /// The number of messages dropped from the beginning of a conversation to make it fit.
    pub fn dropped_messages(&self) -> usize {
        self.dropped
    }

    /// When the milestones so far were reached.
    pub fn times(&self) -> Times {
        self.times
    }

    /// Takes an engine event of a run and appends the events it leads to. Events of later runs are held back until the
    /// earlier ones have ended.
    pub fn push(
        &mut self,
        run: usize,
        (choice, kind): (usize, EventKind),
        now: Duration,
        events: &mut Vec<Event>,
    ) {
        match self.runs.get_mut(run).filter(|run| run.open > 0) {
            Some(run) => run.waiting.push_back((choice, kind)),
            None => return,
        }
        while let Some(at) = self.awaited() {
            let Some((choice, kind)) = self.runs[at].waiting.pop_front() else {
                return;
            };
            self.emit(at, choice, kind, now, events);
            if self.runs.iter().all(|run| run.open == 0) && !self.has_ended() {
                self.finish(now, events);
            }
        }
    }

    /// Ends the stream with a failure.
    pub fn fail(&mut self, fault: Fault, now: Duration, events: &mut Vec<Event>) {
        if !self.has_ended() {
            self.times.ended = Some(now);
            events.push(Event::Failed(fault));
        }
    }

    fn emit(
        &mut self,
        at: usize,
        choice: usize,
        kind: EventKind,
        now: Duration,
        events: &mut Vec<Event>,
    ) {
        let choice = at * self.choices + choice;
        match kind {
            EventKind::Started { cached_tokens } => {
                self.times.started.get_or_insert(now);
                self.emit_start(at, cached_tokens, now, events);
            }
            EventKind::PromptLogprobs { logprobs, .. } => {
                let scored = logprobs.iter().map(|l| with_bytes(&self.tokenizer, l));
                if let Some(prompt) = self.prompts.get_mut(at) {
                    prompt.logprobs.get_or_insert_default().extend(scored);
                }
                self.return_prompt(at, events);
            }
            // What is computed again is no progress.
            EventKind::Progress { computed } if computed > self.runs[at].computed => {
                self.runs[at].computed = computed;
                self.emit_progress(now, events);
            }
            EventKind::Token {
                token,
                text,
                logprobs,
            } => {
                self.times.first_token.get_or_insert(now);
                if self.unfinished.len() <= choice {
                    self.unfinished.resize(choice + 1, 0);
                }
                self.unfinished[choice] += 1;
                self.emit_progress(now, events);
                let told = self.emits_tokens.then(|| {
                    let logprobs = logprobs.map(|l| with_bytes(&self.tokenizer, &l));
                    (token, logprobs)
                });
                let generated = AnswerToken {
                    choice,
                    token: told,
                    text: &text,
                };
                self.parser.push(generated, &mut |event| events.push(event));
            }
            EventKind::Finished {
                text,
                reason,
                usage,
            } => {
                self.runs[at].open -= 1;
                if let Some(unfinished) = self.unfinished.get_mut(choice) {
                    *unfinished = 0;
                }
                self.usage.generated_tokens += usage.generated_tokens;
                self.usage.drafted_tokens += usage.drafted_tokens;
                self.usage.accepted_tokens += usage.accepted_tokens;
                let emit = &mut |event| events.push(event);
                let reason = self.reason(reason);
                self.parser.finish(choice, &text, reason, emit);
            }
            EventKind::Failed(error) => {
                self.runs[at].open = 0;
                self.fail(failure(&error), now, events);
            }
            _ => {}
        }
    }

    fn reason(&self, reason: FinishReason) -> Finish {
        match reason {
            FinishReason::Stop(which) => match self.stop.get(which) {
                Some(text) => Finish::StopText(text.clone()),
                None => Finish::Stop,
            },
            FinishReason::Length | FinishReason::ContextFull => Finish::Length,
            _ => Finish::Stop,
        }
    }

    fn emit_start(
        &mut self,
        at: usize,
        cached_tokens: usize,
        now: Duration,
        events: &mut Vec<Event>,
    ) {
        self.usage.cached_tokens += cached_tokens;
        if at == 0 {
            events.push(Event::Started {
                prompt_tokens: self.usage.prompt_tokens,
                cached_tokens,
            });
        }
        self.runs[at].computed = cached_tokens;
        self.emit_progress(now, events);
        self.return_prompt(at, events);
    }

    fn emit_progress(&self, now: Duration, events: &mut Vec<Event>) {
        if self.emits_progress {
            events.push(Event::Progress {
                computed: self.runs.iter().map(|run| run.computed).sum(),
                usage: self.usage(),
                timings: self.timings(now),
            });
        }
    }

    /// Returns a prompt once its log-probabilities are complete.
    fn return_prompt(&mut self, at: usize, events: &mut Vec<Event>) {
        let Some(returned) = self.prompts.get_mut(at).filter(|p| p.is_complete()) else {
            return;
        };
        returned.returned = true;
        let echoed = if self.echo {
            returned.echoed()
        } else {
            Vec::new()
        };
        let RenderedPrompt { text, tokens, .. } = mem::take(&mut returned.prompt);
        if self.emits_prompts {
            events.push(Event::Prompt {
                prompt: at,
                text: text.clone(),
                tokens,
                logprobs: mem::take(&mut returned.logprobs).unwrap_or_default(),
            });
        }
        let choices = (0..self.choices).map(|i| at * self.choices + i);
        for choice in choices.filter(|_| self.echo) {
            let tokens = echoed.iter().filter(|_| self.emits_tokens);
            events.extend(tokens.map(|(token, logprobs)| Event::Token {
                choice,
                token: *token,
                logprobs: logprobs.clone(),
            }));
            let text = text.clone();
            events.push(Event::Text { choice, text });
        }
    }

    fn finish(&mut self, now: Duration, events: &mut Vec<Event>) {
        self.usage.thinking_tokens = self.parser.thinking_tokens();
        self.times.ended = Some(now);
        events.push(Event::Done {
            usage: self.usage,
            timings: self.timings(now),
        });
    }

    fn timings(&self, now: Duration) -> Timings {
        let arrived = self.times.arrived;
        let first = self.times.first_token.unwrap_or(now);
        Timings {
            total: now.saturating_sub(arrived),
            load: self.load,
            prompt: first.saturating_sub(arrived).saturating_sub(self.load),
            generate: now.saturating_sub(first),
        }
    }
}

/// The fault for a request that the engine refused.
pub fn refusal(error: &SubmitError) -> Fault {
    let kind = match error {
        SubmitError::Full { retry_after } => FaultKind::Overloaded {
            retry_after: *retry_after,
        },
        &SubmitError::TooLong { tokens, context } => FaultKind::ContextExceeded {
            prompt_tokens: tokens,
            context,
        },
        SubmitError::NoAdapter { .. } => FaultKind::NotFound,
        SubmitError::Unsupported { .. } | SubmitError::NoDraftModel | SubmitError::NoNextn => {
            FaultKind::Unsupported
        }
        &(SubmitError::Pages { tokens, room } | SubmitError::SourceTooLong { tokens, room }) => {
            FaultKind::ContextExceeded {
                prompt_tokens: tokens,
                context: room,
            }
        }
        _ => FaultKind::BadRequest,
    };
    Fault::new(kind, error)
}

/// Why the engine gave a request up, for the client.
pub fn failure(error: &RequestError) -> Fault {
    let kind = match error {
        RequestError::Sample(SampleError::NotFinite { .. }) => FaultKind::InvalidModel,
        RequestError::Sample(SampleError::AllBanned) => FaultKind::BadRequest,
        // The grammar asks for more than there is for one.
        RequestError::Constraint(ConstraintError::Limit { .. }) => FaultKind::BadRequest,
        RequestError::Batch(BatchError::Lost { reason }) => {
            let retry_after = Duration::from_secs(2);
            return Fault::new(FaultKind::Unavailable { retry_after }, reason);
        }
        _ => FaultKind::Internal,
    };
    Fault::new(kind, error)
}

#[cfg(test)]
mod tests;
