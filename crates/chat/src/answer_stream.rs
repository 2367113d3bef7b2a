//! A request on its way through the engine: engine events in, chat events out.
//!
//! A stream does no I/O. Whoever runs the engine pushes its events with the time and gets the events to pass on.

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
use strata_engine::sampling::SampleError;
use strata_engine::{EventKind, FinishReason, Request, RequestError, SubmitError, TokenLogprobs};
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
    /// Prompts to echo before their answers.
    echo: Vec<Echo>,
    /// Rendered prompts to emit, if requested.
    prompts: Vec<(String, Vec<u32>)>,
    emits_tokens: bool,
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
}

/// A prompt to echo.
#[derive(Debug)]
struct Echo {
    text: String,
    logprobs: Vec<crate::TokenLogprobs>,
    /// Tokens whose log-probabilities are emitted with it.
    missing: usize,
}

impl Echo {
    fn new(prompt: &RenderedPrompt, scored: bool) -> Self {
        // The first token follows nothing, so it has none.
        let first = prompt.tokens.first().filter(|_| scored);
        let first = first.map(|&token| crate::TokenLogprobs {
            chosen: crate::TokenLogprob {
                token,
                bytes: Vec::new(),
                logprob: f32::NAN,
            },
            top: Vec::new(),
        });
        Self {
            text: prompt.text.clone(),
            missing: if scored { prompt.tokens.len() } else { 0 },
            logprobs: first.into_iter().collect(),
        }
    }
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
        };
        let scored = request.logprobs.is_some();
        let echoed = prompts.iter().filter(|_| request.echo);
        let stream = Self {
            runs: requests.iter().map(run).collect(),
            parser,
            tokenizer: Arc::clone(&profile.tokenizer),
            stop: requests.first().map(|r| r.stop.clone()).unwrap_or_default(),
            choices,
            echo: echoed.map(|prompt| Echo::new(prompt, scored)).collect(),
            usage: Usage {
                prompt_tokens: prompts.iter().map(|prompt| prompt.tokens.len()).sum(),
                ..Usage::default()
            },
            prompts: if request.tokens {
                prompts.into_iter().map(|p| (p.text, p.tokens)).collect()
            } else {
                Vec::new()
            },
            emits_tokens: request.tokens || scored,
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
        self.usage
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
        match self.runs.get_mut(run) {
            Some(run) if run.open > 0 => run.waiting.push_back((choice, kind)),
            _ => return,
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
                self.emit_start(at, cached_tokens, events);
            }
            EventKind::PromptLogprobs { logprobs, .. } => {
                let scored = logprobs.iter().map(|l| with_bytes(&self.tokenizer, l));
                let scored = scored.collect();
                self.repeat(at, scored, events);
            }
            EventKind::Token {
                token,
                text,
                logprobs,
            } => {
                self.times.first_token.get_or_insert(now);
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

    fn emit_start(&mut self, at: usize, cached_tokens: usize, events: &mut Vec<Event>) {
        self.usage.cached_tokens += cached_tokens;
        if at == 0 {
            events.push(Event::Started {
                prompt_tokens: self.usage.prompt_tokens,
                cached_tokens,
            });
        }
        if let Some((text, tokens)) = self.prompts.get_mut(at) {
            events.push(Event::Prompt {
                prompt: at,
                text: mem::take(text),
                tokens: mem::take(tokens),
            });
        }
        self.repeat(at, Vec::new(), events);
    }

    /// Echoes a prompt once its log-probabilities are complete.
    fn repeat(&mut self, at: usize, scored: Vec<crate::TokenLogprobs>, events: &mut Vec<Event>) {
        let Some(echo) = self.echo.get_mut(at) else {
            return;
        };
        echo.logprobs.extend(scored);
        if echo.missing > echo.logprobs.len() {
            return;
        }
        let text = mem::take(&mut echo.text);
        let logprobs = mem::take(&mut echo.logprobs);
        echo.missing = usize::MAX;
        for choice in (0..self.choices).map(|i| at * self.choices + i) {
            let tokens = logprobs.iter().map(|entry| Event::Token {
                choice,
                token: entry.chosen.token,
                logprobs: Some(entry.clone()),
            });
            events.extend(tokens);
            let text = text.clone();
            events.push(Event::Text { choice, text });
        }
    }

    fn finish(&mut self, now: Duration, events: &mut Vec<Event>) {
        let Times {
            arrived,
            first_token,
            ..
        } = self.times;
        let first = first_token.unwrap_or(now);
        self.usage.thinking_tokens = self.parser.thinking_tokens();
        self.times.ended = Some(now);
        events.push(Event::Done {
            usage: self.usage,
            timings: Timings {
                total: now.saturating_sub(arrived),
                load: self.load,
                prompt: first.saturating_sub(arrived).saturating_sub(self.load),
                generate: now.saturating_sub(first),
            },
        });
    }
}

fn with_bytes(tokenizer: &Tokenizer, logprobs: &TokenLogprobs) -> crate::TokenLogprobs {
    let one = |entry: &strata_engine::logprobs::TokenLogprob| crate::TokenLogprob {
        token: entry.token,
        bytes: tokenizer
            .token_bytes(entry.token)
            .map(|bytes| bytes.to_vec())
            .unwrap_or_default(),
        logprob: entry.logprob,
    };
    crate::TokenLogprobs {
        chosen: one(&logprobs.chosen),
        top: logprobs.top.iter().map(one).collect(),
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
        SubmitError::Unsupported { .. } | SubmitError::NoDraftModel => FaultKind::Unsupported,
        &SubmitError::Pages { tokens, room } => FaultKind::ContextExceeded {
            prompt_tokens: tokens,
            context: room,
        },
        _ => FaultKind::BadRequest,
    };
    Fault::new(kind, error)
}

/// Why the engine gave a request up, for the client.
pub fn failure(error: &RequestError) -> Fault {
    let kind = match error {
        RequestError::Sample(SampleError::NotFinite { .. }) => FaultKind::InvalidModel,
        RequestError::Sample(SampleError::AllBanned) => FaultKind::BadRequest,
        _ => FaultKind::Internal,
    };
    Fault::new(kind, error)
}

#[cfg(test)]
mod tests;
