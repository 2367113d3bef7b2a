//! A request for text on its way through the engine: its events become those that dialects write.

use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;
use strata_engine::{
    Engine, Event as EngineEvent, EventKind, FinishReason, RequestId, SubmitError, TokenLogprobs,
};
use strata_service::{Prepared, Speaker, Spoken};
use strata_token::tokenizer::Tokenizer;
use strata_wire::lang::{self, Event, Finish, Generate, Timings, Usage};
use strata_wire::{Fault, FaultKind};

/// A request that the engine has taken.
pub(super) struct Talk {
    runs: Vec<Run>,
    speaker: Speaker,
    tokenizer: Arc<Tokenizer>,
    stop: Vec<String>,
    choices: usize,
    /// Text before each answer, where the client wants the prompt repeated.
    echo: Vec<String>,
    /// What the model is given, where the client wants to know.
    prompts: Vec<(String, Vec<u32>)>,
    tells_tokens: bool,
    usage: Usage,
    start: u64,
    first: Option<u64>,
    started: usize,
    pub(super) ended: bool,
}

/// One prompt. They run side by side in the engine and are told in order, as clients expect choices to be.
struct Run {
    id: RequestId,
    /// Answers that have not ended.
    open: usize,
    /// What has happened and is not told yet.
    waiting: VecDeque<EngineEvent>,
}

impl Talk {
    /// Hands a request to the engine.
    pub(super) fn begin(
        engine: &mut Engine<'_>,
        tokenizer: &Arc<Tokenizer>,
        request: &Generate,
        prepared: Prepared,
        now: u64,
    ) -> Result<Self, Fault> {
        let Prepared {
            requests,
            prompts,
            speaker,
            choices,
            ..
        } = prepared;
        let stop = requests.first().map(|r| r.stop.clone()).unwrap_or_default();
        let mut runs: Vec<Run> = Vec::new();
        for one in requests {
            match engine.submit(one) {
                Ok(id) => runs.push(Run {
                    id,
                    open: choices,
                    waiting: VecDeque::new(),
                }),
                Err(error) => {
                    for run in runs {
                        engine.cancel(run.id);
                    }
                    return Err(refusal(&error));
                }
            }
        }
        Ok(Self {
            runs,
            speaker,
            tokenizer: Arc::clone(tokenizer),
            stop,
            choices,
            echo: match request.echo {
                true => prompts.iter().map(|prompt| prompt.text.clone()).collect(),
                false => Vec::new(),
            },
            usage: Usage {
                prompt_tokens: prompts.iter().map(|prompt| prompt.tokens.len()).sum(),
                ..Usage::default()
            },
            prompts: match request.tokens {
                true => prompts.into_iter().map(|p| (p.text, p.tokens)).collect(),
                false => Vec::new(),
            },
            tells_tokens: request.tokens || request.logprobs.is_some(),
            start: now,
            first: None,
            started: 0,
            ended: false,
        })
    }

    /// Ends what still runs: the client has gone.
    pub(super) fn cancel(&self, engine: &mut Engine<'_>) {
        for run in self.runs.iter().filter(|run| run.open > 0) {
            engine.cancel(run.id);
        }
    }

    /// Takes an event of the engine; gives it back if it is another's.
    pub(super) fn hear(&mut self, event: EngineEvent) -> Option<EngineEvent> {
        match self.runs.iter_mut().find(|run| run.id == event.request) {
            Some(run) => {
                run.waiting.push_back(event);
                None
            }
            None => Some(event),
        }
    }

    /// Adds what there is to tell.
    pub(super) fn tell(&mut self, now: u64, events: &mut Vec<Event>) {
        while !self.ended {
            let Some(at) = self.runs.iter().position(|run| run.open > 0) else {
                self.finish(now, events);
                return;
            };
            let Some(event) = self.runs[at].waiting.pop_front() else {
                return;
            };
            self.tell_one(at, event, now, events);
        }
    }

    fn tell_one(&mut self, at: usize, event: EngineEvent, now: u64, events: &mut Vec<Event>) {
        let choice = at * self.choices + event.choice;
        match event.kind {
            EventKind::Started { cached_tokens } => self.tell_start(at, cached_tokens, events),
            EventKind::Token {
                token,
                text,
                logprobs,
            } => {
                self.first.get_or_insert(now);
                let told = self.tells_tokens.then(|| {
                    let logprobs = logprobs.map(|l| with_bytes(&self.tokenizer, &l));
                    (token, logprobs)
                });
                let spoken = Spoken {
                    choice,
                    token: told,
                    text: &text,
                };
                self.speaker.speak(spoken, &mut |event| events.push(event));
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
                let reason = match reason {
                    FinishReason::Stop(which) => match self.stop.get(which) {
                        Some(text) => Finish::StopText(text.clone()),
                        None => Finish::Stop,
                    },
                    FinishReason::Length | FinishReason::ContextFull => Finish::Length,
                    _ => Finish::Stop,
                };
                let tell = &mut |event| events.push(event);
                self.speaker.finish(choice, &text, reason, tell);
            }
            EventKind::Failed(error) => {
                self.runs[at].open = 0;
                let fault = Fault::new(FaultKind::Internal, error.to_string());
                events.push(Event::Failed(fault));
                self.ended = true;
            }
            _ => {}
        }
    }

    fn tell_start(&mut self, at: usize, cached_tokens: usize, events: &mut Vec<Event>) {
        self.usage.cached_tokens += cached_tokens;
        self.started += 1;
        if self.started == 1 {
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
        if let Some(text) = self.echo.get(at) {
            let repeated = (0..self.choices).map(|i| Event::Text {
                choice: at * self.choices + i,
                text: text.clone(),
            });
            events.extend(repeated);
        }
    }

    fn finish(&mut self, now: u64, events: &mut Vec<Event>) {
        let first = self.first.unwrap_or(now);
        let between = |from: u64, to: u64| Duration::from_nanos(to.saturating_sub(from));
        self.usage.thinking_tokens = self.speaker.thinking_tokens();
        events.push(Event::Done {
            usage: self.usage,
            timings: Timings {
                total: between(self.start, now),
                load: Duration::ZERO,
                prompt: between(self.start, first),
                generate: between(first, now),
            },
        });
        self.ended = true;
    }
}

fn with_bytes(tokenizer: &Tokenizer, logprobs: &TokenLogprobs) -> lang::TokenLogprobs {
    let one = |entry: &strata_engine::logprobs::TokenLogprob| lang::TokenLogprob {
        token: entry.token,
        bytes: tokenizer
            .token_bytes(entry.token)
            .map(|bytes| bytes.to_vec())
            .unwrap_or_default(),
        logprob: entry.logprob,
    };
    lang::TokenLogprobs {
        chosen: one(&logprobs.chosen),
        top: logprobs.top.iter().map(one).collect(),
    }
}

/// Why the engine did not take a request, for the client.
fn refusal(error: &SubmitError) -> Fault {
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
