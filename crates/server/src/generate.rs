//! Requests for text: from the dialect through the engine and back.

use crate::access::Client;
use crate::body::ReplyBody;
use crate::http::{Answered, answered, reply};
use crate::manager::Lease;
use crate::state::Server;
use crate::worker::Running;
use bytes::Bytes;
use std::sync::Arc;
use std::time::{Duration, Instant};
use strata_engine::{ClientId, EventKind, FinishReason, SubmitError, TokenLogprobs};
use strata_service::prompt::Prompt;
use strata_service::{Card, Circumstances, Prepared, Shape, Speaker, Spoken, prepare};
use strata_token::template::DateTime;
use strata_token::tokenizer::Tokenizer;
use strata_wire::lang::{self, Event, Finish, Generate, Shape as Sent, Timings, Usage};
use strata_wire::{Answer, Fault, FaultKind, Stamp};
use tokio::sync::mpsc;

/// Pieces of a body that wait for a slow client. The engine is not held up by it: a full channel only delays the
/// writing, and the text of an answer is small.
const WAITING: usize = 64;

/// Answers a request for text.
pub(crate) async fn generate(
    server: &Arc<Server>,
    client: &Client,
    request: Box<Generate>,
    mut answer: Box<dyn Answer>,
    stamp: &Stamp,
) -> Answered {
    let talk = match Talk::begin(server, client, &request, stamp).await {
        Ok(talk) => talk,
        Err(fault) => return reply(answer.fault(&fault)),
    };
    let mut talk = talk;
    let mut bytes = Vec::new();
    // The first event decides the status.
    let mut events = Vec::new();
    loop {
        talk.next(&mut events).await;
        if let Some(Event::Failed(fault)) = events.first() {
            return reply(answer.fault(fault));
        }
        if !events.is_empty() {
            break;
        }
    }
    if answer.shape() == Sent::Whole {
        loop {
            for event in events.drain(..) {
                if let Event::Failed(fault) = &event {
                    return reply(answer.fault(fault));
                }
                answer.event(&event, &mut bytes);
            }
            if talk.ended {
                break;
            }
            talk.next(&mut events).await;
        }
        server.keep(client, &mut *answer);
        return answered(200, Sent::Whole.content_type(), ReplyBody::whole(bytes));
    }
    let (sender, receiver) = mpsc::channel(WAITING);
    let shape = answer.shape();
    let (server, client) = (Arc::clone(server), client.clone());
    tokio::spawn(async move {
        loop {
            for event in events.drain(..) {
                answer.event(&event, &mut bytes);
            }
            let piece = Bytes::from(std::mem::take(&mut bytes));
            // A client that has gone ends the talk, and with it the engine's work.
            if !piece.is_empty() && sender.send(piece).await.is_err() {
                return;
            }
            if talk.ended {
                break;
            }
            tokio::select! {
                () = talk.next(&mut events) => {}
                () = sender.closed() => return,
            }
        }
        server.keep(&client, &mut *answer);
    });
    answered(200, shape.content_type(), ReplyBody::Stream(receiver))
}

/// A request on its way: the engine's requests, and the speaker that makes one answer of them.
struct Talk {
    runs: Vec<Run>,
    speaker: Speaker,
    tokenizer: Arc<Tokenizer>,
    stop: Vec<String>,
    choices: usize,
    /// The prompts that are repeated before their answers.
    echo: Vec<Echo>,
    /// What the model is given, where the client wants to know.
    prompts: Vec<(String, Vec<u32>)>,
    tells_tokens: bool,
    usage: Usage,
    start: Instant,
    first: Option<Instant>,
    load: Duration,
    started: usize,
    ended: bool,
    /// Keeps the model while the request runs.
    _lease: Lease,
}

/// A prompt to repeat.
struct Echo {
    text: String,
    logprobs: Vec<lang::TokenLogprobs>,
    /// Tokens whose log-probabilities are told with it.
    missing: usize,
}

impl Echo {
    fn new(prompt: &Prompt, scored: bool) -> Self {
        // The first token follows nothing, so it has none.
        let first = prompt.tokens.first().filter(|_| scored);
        let first = first.map(|&token| lang::TokenLogprobs {
            chosen: lang::TokenLogprob {
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

struct Run {
    running: Running,
    /// Answers that have not ended.
    open: usize,
}

impl Talk {
    async fn begin(
        server: &Arc<Server>,
        client: &Client,
        request: &Generate,
        stamp: &Stamp,
    ) -> Result<Self, Fault> {
        let start = Instant::now();
        let name = Some(request.model.as_str()).filter(|name| !name.is_empty());
        let lease = server.manager.lease(name, request.keep_alive).await?;
        client.allows(&lease.facts.name)?;
        let prepared = ready(server, &lease, request, stamp).await?;
        let Prepared {
            requests,
            prompts,
            speaker,
            choices,
            ..
        } = prepared;
        let usage = Usage {
            prompt_tokens: prompts.iter().map(|prompt| prompt.tokens.len()).sum(),
            ..Usage::default()
        };
        let stop = requests.first().map(|r| r.stop.clone()).unwrap_or_default();
        let mut runs = Vec::new();
        for mut prepared in requests {
            prepared.client = ClientId(client.number);
            let submitted = lease.worker.submit(prepared, &request.adapters).await;
            let running = submitted
                .ok_or_else(gone)?
                .map_err(|error| refusal(&error))?;
            runs.push(Run {
                running,
                open: choices,
            });
        }
        Ok(Self {
            runs,
            speaker,
            tokenizer: Arc::clone(&lease.worker.card.tokenizer),
            stop,
            choices,
            echo: match request.echo {
                true => prompts
                    .iter()
                    .map(|prompt| Echo::new(prompt, request.logprobs.is_some()))
                    .collect(),
                false => Vec::new(),
            },
            prompts: match request.tokens {
                true => prompts.into_iter().map(|p| (p.text, p.tokens)).collect(),
                false => Vec::new(),
            },
            tells_tokens: request.tokens || request.logprobs.is_some(),
            usage,
            start,
            first: None,
            load: lease.waited,
            started: 0,
            ended: false,
            _lease: lease,
        })
    }

    /// Waits for the engine and adds what there is to tell.
    async fn next(&mut self, events: &mut Vec<Event>) {
        let Some(at) = self.runs.iter().position(|run| run.open > 0) else {
            self.finish(events);
            return;
        };
        // Prompts run side by side in the engine; they are told in order, as clients expect choices to be.
        let run = &mut self.runs[at];
        let Some(event) = run.running.next().await else {
            events.push(Event::Failed(gone()));
            self.ended = true;
            return;
        };
        let choice = at * self.choices + event.choice;
        match event.kind {
            EventKind::Started { cached_tokens } => {
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
                        text: std::mem::take(text),
                        tokens: std::mem::take(tokens),
                    });
                }
                self.repeat(at, Vec::new(), events);
            }
            EventKind::PromptLogprobs { logprobs, .. } => {
                let scored = logprobs.iter().map(|l| with_bytes(&self.tokenizer, l));
                self.repeat(at, scored.collect(), events);
            }
            EventKind::Token {
                token,
                text,
                logprobs,
            } => {
                self.first.get_or_insert_with(Instant::now);
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
                run.open -= 1;
                if run.open == 0 {
                    run.running.end();
                }
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
                if self.runs.iter().all(|run| run.open == 0) {
                    self.finish(events);
                }
            }
            EventKind::Failed(error) => {
                run.running.end();
                let message = error.to_string();
                events.push(Event::Failed(Fault::new(FaultKind::Internal, message)));
                self.ended = true;
            }
            _ => {}
        }
    }

    /// Repeats a prompt once all that is told of it is there.
    fn repeat(&mut self, at: usize, scored: Vec<lang::TokenLogprobs>, events: &mut Vec<Event>) {
        let Some(echo) = self.echo.get_mut(at) else {
            return;
        };
        echo.logprobs.extend(scored);
        if echo.missing > echo.logprobs.len() {
            return;
        }
        let text = std::mem::take(&mut echo.text);
        let logprobs = std::mem::take(&mut echo.logprobs);
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

    fn finish(&mut self, events: &mut Vec<Event>) {
        let now = Instant::now();
        let first = self.first.unwrap_or(now);
        self.usage.thinking_tokens = self.speaker.thinking_tokens();
        events.push(Event::Done {
            usage: self.usage,
            timings: Timings {
                total: now - self.start,
                load: self.load,
                prompt: (first - self.start).saturating_sub(self.load),
                generate: now - first,
            },
        });
        self.ended = true;
    }
}

/// Makes a request ready on a thread that may take its time: tokenizing and compiling grammars are not for those that
/// answer clients.
pub(crate) async fn ready(
    server: &Arc<Server>,
    lease: &Lease,
    request: &Generate,
    stamp: &Stamp,
) -> Result<Prepared, Fault> {
    let (worker, request) = (lease.worker.clone(), request.clone());
    let (id, seed) = (stamp.id.clone(), server.random());
    let now = DateTime::from_unix(stamp.unix_seconds as i64);
    let task = tokio::task::spawn_blocking(move || {
        let world = Circumstances {
            now: Some(now),
            seed,
            id: &id,
        };
        let card: &Card = &worker.card;
        let mut prepared = prepare(&request, card, world)?;
        if prepared.shape != Shape::Free {
            let constraint = worker.grammars.compile(&prepared.shape)?;
            for request in &mut prepared.requests {
                request.constraint = Some(constraint.clone());
            }
        }
        Ok(prepared)
    });
    task.await.unwrap_or_else(|_| {
        let message = "the request could not be made ready";
        Err(Fault::new(FaultKind::Internal, message))
    })
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
pub(crate) fn refusal(error: &SubmitError) -> Fault {
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

/// The engine's thread has ended.
pub(crate) fn gone() -> Fault {
    let kind = FaultKind::Unavailable {
        retry_after: Duration::from_secs(1),
    };
    Fault::new(kind, "the model was unloaded")
}
