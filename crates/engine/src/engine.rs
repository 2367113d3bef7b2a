//! The loop: build a batch, compute it, sample, tell.

use crate::logprobs::Logprobs;
use crate::request::{
    Event, EventKind, FinishReason, Request, RequestId, Session, TokenLogprobs, Usage,
};
use crate::sampling::{self, SampleError, Sampler, SettingsError};
use crate::stop::StopMatcher;
use alloc::string::String;
use alloc::vec::Vec;
use strata_model::{
    BatchError, BatchLimits, Compute, KvPages, Logits, Model, OutOfPages, Span, Workspace,
};
use strata_token::tokenizer::{DecodeOptions, StreamDecoder, Tokenizer};

/// How an engine works.
#[derive(Copy, Clone, Debug)]
pub struct EngineOptions {
    /// Positions that a sequence can have.
    pub context: usize,
    /// Tokens that are computed together.
    pub batch: usize,
    /// Requests that run side by side.
    pub requests: usize,
}

/// Runs requests through a model.
pub struct Engine<'a> {
    model: &'a Model,
    tokenizer: &'a Tokenizer,
    compute: Compute<'a>,
    options: EngineOptions,
    kv: KvPages,
    work: Workspace,
    sampling: sampling::Workspace,
    logprobs: Logprobs,
    running: Vec<Running<'a>>,
    next: u64,
}

/// A request on its way.
struct Running<'a> {
    id: RequestId,
    /// The prompt and what was generated after it; the first `session.sequence.len()` are computed.
    session: Session,
    sampler: Sampler,
    decoder: StreamDecoder<'a>,
    stops: StopMatcher,
    logprobs: Option<usize>,
    ignore_end: bool,
    max_tokens: usize,
    /// Whether `max_tokens` is what the context leaves, not what was asked for.
    bounded_by_context: bool,
    usage: Usage,
    /// Tokens of the current batch.
    in_batch: usize,
}

/// Why a request was not taken.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum SubmitError {
    #[error("the prompt is empty")]
    EmptyPrompt,
    #[error("token {token} is not in the vocabulary of {vocabulary}")]
    Token { token: u32, vocabulary: usize },
    #[error("the prompt has {tokens} tokens and the context has room for {context}")]
    TooLong { tokens: usize, context: usize },
    #[error("{requests} requests are running already")]
    Busy { requests: usize },
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Pages(#[from] OutOfPages),
}

/// Why a step failed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum StepError {
    #[error("the batch was refused: {0}")]
    Batch(#[from] BatchError),
    #[error("no token could be chosen: {0}")]
    Sample(#[from] SampleError),
}

impl<'a> Engine<'a> {
    /// An engine over a model, with pages for its keys and values.
    pub fn new(
        model: &'a Model,
        tokenizer: &'a Tokenizer,
        compute: Compute<'a>,
        kv: KvPages,
        options: EngineOptions,
    ) -> Self {
        let limits = BatchLimits {
            tokens: options.batch.max(options.requests).max(1),
            logits: options.requests.max(1),
        };
        Self {
            model,
            tokenizer,
            compute,
            options,
            kv,
            work: Workspace::new(model, limits),
            sampling: sampling::Workspace::new(),
            logprobs: Logprobs::new(),
            running: Vec::new(),
            next: 0,
        }
    }

    /// Takes a request. Of `session`, as much as the prompt begins with is kept.
    pub fn submit(
        &mut self,
        request: Request,
        session: Option<Session>,
    ) -> Result<RequestId, SubmitError> {
        let mut session = session.unwrap_or_default();
        match self.admit(request, &mut session) {
            Ok(running) => {
                let id = running.id;
                self.running.push(running);
                Ok(id)
            }
            Err(error) => {
                self.release(session);
                Err(error)
            }
        }
    }

    fn admit(
        &mut self,
        request: Request,
        session: &mut Session,
    ) -> Result<Running<'a>, SubmitError> {
        let prompt = request.prompt;
        let (tokens, context) = (prompt.len(), self.options.context);
        let vocabulary = self.model.config().vocabulary;
        if prompt.is_empty() {
            return Err(SubmitError::EmptyPrompt);
        }
        if let Some(&token) = prompt.iter().find(|&&token| token as usize >= vocabulary) {
            return Err(SubmitError::Token { token, vocabulary });
        }
        if tokens >= context {
            return Err(SubmitError::TooLong { tokens, context });
        }
        if self.running.len() >= self.work.limits().logits {
            return Err(SubmitError::Busy {
                requests: self.running.len(),
            });
        }
        let room = context - tokens;
        let max_tokens = request.max_tokens.unwrap_or(room).min(room);
        let mut sampler = Sampler::new(request.sampling, vocabulary)?;
        sampler.prime(&prompt);

        let shared = session
            .tokens
            .iter()
            .zip(&prompt)
            .take_while(|(a, b)| a == b)
            .count();
        // The last token is computed in any case: its logits are needed.
        let cached = shared.min(tokens - 1).min(session.sequence.len());
        self.kv.truncate(&mut session.sequence, cached);
        self.kv
            .reserve(&mut session.sequence, tokens - cached + max_tokens)?;
        session.tokens = prompt;

        self.next += 1;
        Ok(Running {
            id: RequestId(self.next),
            session: core::mem::take(session),
            sampler,
            decoder: StreamDecoder::new(self.tokenizer, DecodeOptions::default()),
            stops: StopMatcher::new(&request.stop),
            logprobs: request.logprobs,
            ignore_end: request.ignore_end,
            max_tokens,
            bounded_by_context: request.max_tokens.is_none_or(|asked| asked > max_tokens),
            usage: Usage {
                prompt_tokens: tokens,
                cached_tokens: cached,
                generated_tokens: 0,
            },
            in_batch: 0,
        })
    }

    /// Ends a request before its time. Its session is given back.
    pub fn cancel(&mut self, id: RequestId) -> Option<Session> {
        let index = self.running.iter().position(|running| running.id == id)?;
        Some(self.running.remove(index).session)
    }

    /// Gives a session's pages back.
    pub fn release(&mut self, mut session: Session) {
        self.kv.truncate(&mut session.sequence, 0);
    }

    /// Whether no request is running.
    pub fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Pages that no session has.
    pub fn free_pages(&self) -> usize {
        self.kv.free_pages()
    }

    /// Computes one batch and tells what came of it.
    ///
    /// Requests that wait for their next token come first; what room is left goes to prompts, in the order of
    /// their arrival.
    pub fn step(&mut self, tell: &mut dyn FnMut(Event)) -> Result<(), StepError> {
        let mut room = self.work.limits().tokens;
        for prefill in [false, true] {
            for running in &mut self.running {
                let pending = running.pending();
                if (pending > 1) == prefill {
                    running.in_batch = pending.min(room);
                    room -= running.in_batch;
                }
            }
        }
        let mut batch: Vec<Span<'_>> = Vec::with_capacity(self.running.len());
        for running in self
            .running
            .iter_mut()
            .filter(|running| running.in_batch > 0)
        {
            let pending = running.pending();
            let from = running.session.sequence.len();
            batch.push(Span {
                tokens: &running.session.tokens[from..from + running.in_batch],
                sequence: &mut running.session.sequence,
                logits: if running.in_batch == pending {
                    Logits::Last
                } else {
                    Logits::None
                },
            });
        }
        let logits = self
            .model
            .forward(&self.compute, &mut self.kv, &mut self.work, &mut batch)?;

        let mut rows = logits.chunks_exact(self.model.config().vocabulary);
        let mut index = 0;
        while index < self.running.len() {
            let running = &mut self.running[index];
            index += 1;
            if running.in_batch == 0 || running.pending() > 0 {
                continue;
            }
            let row = rows.next().expect("a row for each span that asked for one");
            let choice = running.sampler.sample(row, &mut self.sampling)?;
            let logprobs = match running.logprobs {
                None => None,
                Some(n) => {
                    let (chosen, top) = self.logprobs.compute(row, choice.token, n)?;
                    Some(TokenLogprobs {
                        chosen,
                        top: top.to_vec(),
                    })
                }
            };
            let ends = self.tokenizer.is_end_of_generation(choice.token);
            if let Some((reason, text)) = running.take(choice.token, ends, logprobs, tell) {
                index -= 1;
                let running = self.running.remove(index);
                tell(Event {
                    request: running.id,
                    kind: EventKind::Finished {
                        text,
                        reason,
                        usage: running.usage,
                        session: running.session,
                    },
                });
            }
        }
        Ok(())
    }
}

impl Running<'_> {
    /// Tokens that have yet to be computed.
    fn pending(&self) -> usize {
        self.session.tokens.len() - self.session.sequence.len()
    }

    /// Takes a generated token in and tells of it. Gives the reason and the rest of the text if it was the last.
    fn take(
        &mut self,
        token: u32,
        ends: bool,
        logprobs: Option<TokenLogprobs>,
        tell: &mut dyn FnMut(Event),
    ) -> Option<(FinishReason, String)> {
        self.sampler.accept(token);
        if ends && !self.ignore_end {
            return Some((FinishReason::EndOfTurn(token), self.rest()));
        }
        self.session.tokens.push(token);
        self.usage.generated_tokens += 1;
        let emit = self.stops.push(self.decoder.push(token));
        let stopped = emit.stopped;
        tell(Event {
            request: self.id,
            kind: EventKind::Token {
                token,
                text: emit.text.into(),
                logprobs,
            },
        });
        if let Some(which) = stopped {
            return Some((FinishReason::Stop(which), String::new()));
        }
        if self.usage.generated_tokens < self.max_tokens {
            return None;
        }
        let reason = if self.bounded_by_context {
            FinishReason::ContextFull
        } else {
            FinishReason::Length
        };
        Some((reason, self.rest()))
    }

    /// What is left in the decoder and the stop matcher.
    fn rest(&mut self) -> String {
        let emit = self.stops.push(self.decoder.finish());
        let mut text = String::from(emit.text);
        if emit.stopped.is_none() {
            text.push_str(self.stops.finish());
        }
        text
    }
}
