//! What runs requests: a model, its cache, and who is admitted to them.

use crate::logprobs::Logprobs;
use crate::request::{AdapterId, Choices, Limits, Request, RequestId, Task, Usage};
use crate::running::{Chooser, Running, Text};
use crate::sampling::{self, Sampler, SettingsError};
use crate::speculation::draft_model::DraftModel;
use crate::speculation::{Drafter, Speculation, VocabularyMismatch};
use crate::stop::StopMatcher;
use alloc::vec::Vec;
use core::time::Duration;
use strata_model::{BatchLimits, Compute, KvPages, Model, OutOfPages, Workspace};
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

impl EngineOptions {
    /// Tokens of texts in a batch: at least one for each request.
    pub(crate) fn tokens(&self) -> usize {
        self.batch.max(self.requests()).max(1)
    }

    fn requests(&self) -> usize {
        self.requests.max(1)
    }

    /// What a batch can have, with so many guesses for each request.
    fn limits(&self, max_draft: usize) -> BatchLimits {
        let rows = self.requests().saturating_mul(max_draft.saturating_add(1));
        BatchLimits {
            tokens: self.tokens().max(rows),
            logits: rows,
        }
    }
}

/// Runs requests through a model.
pub struct Engine<'a> {
    pub(crate) model: &'a Model<'a>,
    tokenizer: &'a Tokenizer,
    pub(crate) compute: Compute<'a>,
    pub(crate) options: EngineOptions,
    /// Guesses for each request at a time.
    max_draft: usize,
    pub(crate) draft_model: Option<DraftModel<'a>>,
    pub(crate) kv: KvPages,
    pub(crate) work: Workspace,
    pub(crate) chooser: Chooser<'a>,
    pub(crate) running: Vec<Running<'a>>,
    next: u64,
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
    #[error("the queue is full; there is room again in about {} ms", .retry_after.as_millis())]
    Full { retry_after: Duration },
    #[error("the engine has no draft model to guess tokens with")]
    NoDraftModel,
    #[error("the engine has no adapter {}", .adapter.0)]
    NoAdapter { adapter: AdapterId },
    #[error("the engine cannot do this: {what}")]
    Unsupported { what: &'static str },
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Pages(#[from] OutOfPages),
}

impl<'a> Engine<'a> {
    /// An engine over a model, with pages for its keys and values.
    pub fn new(
        model: &'a Model<'a>,
        tokenizer: &'a Tokenizer,
        compute: Compute<'a>,
        kv: KvPages,
        options: EngineOptions,
    ) -> Self {
        Self {
            model,
            tokenizer,
            compute,
            options,
            max_draft: 0,
            draft_model: None,
            kv,
            work: Workspace::new(model, options.limits(0), compute.pool.workers()),
            chooser: Chooser {
                tokenizer,
                sampling: sampling::Workspace::new(),
                logprobs: Logprobs::new(),
            },
            running: Vec::new(),
            next: 0,
        }
    }

    /// Lets requests that ask for it guess up to `max_draft` tokens ahead. Each guess of each request needs room for a
    /// row of logits.
    #[must_use]
    pub fn with_speculation(mut self, max_draft: usize) -> Self {
        self.max_draft = max_draft;
        self.work = Workspace::new(
            self.model,
            self.options.limits(max_draft),
            self.compute.pool.workers(),
        );
        self
    }

    /// Gives requests a model to guess with, which has the tokens of this one, and pages for its keys and values.
    /// Where the pages do not suffice for all, some requests run without guesses.
    pub fn with_draft_model(
        mut self,
        model: &'a Model<'a>,
        tokenizer: &Tokenizer,
        kv: KvPages,
    ) -> Result<Self, VocabularyMismatch> {
        let target = (self.model, self.tokenizer);
        let limits = self.options.limits(0);
        let workers = self.compute.pool.workers();
        let draft = (model, tokenizer);
        self.draft_model = Some(DraftModel::new(draft, kv, limits, workers, target)?);
        Ok(self)
    }

    /// Takes a request.
    pub fn submit(&mut self, request: Request) -> Result<RequestId, SubmitError> {
        let running = self.admit(request)?;
        let id = running.id;
        self.running.push(running);
        Ok(id)
    }

    fn admit(&mut self, request: Request) -> Result<Running<'a>, SubmitError> {
        self.refuse(&request)?;
        let prompt = request.prompt;
        let (tokens, context) = (prompt.len(), self.options.context);
        let room = context - tokens;
        let max_tokens = request.max_tokens.unwrap_or(room).min(room);
        let mut sampler = Sampler::new(request.sampling, self.model.config().vocabulary)?;
        sampler.prime(&prompt);
        let mut text = Text::default();
        self.kv.reserve(&mut text.sequence, tokens + max_tokens)?;
        text.tokens = prompt;

        self.next += 1;
        Ok(Running {
            id: RequestId(self.next),
            session: text,
            sampler,
            decoder: StreamDecoder::new(self.tokenizer, DecodeOptions::default()),
            stops: StopMatcher::new(&request.stop),
            logprobs: request.logprobs,
            ignore_end: request.ignore_end,
            max_tokens,
            bounded_by_context: request.max_tokens.is_none_or(|asked| asked > max_tokens),
            usage: Usage {
                prompt_tokens: tokens,
                ..Usage::default()
            },
            drafter: Drafter::new(request.speculation, self.max_draft),
            in_batch: 0,
            draft: Vec::new(),
            rows: 0,
        })
    }

    /// Refuses what cannot be run.
    fn refuse(&self, request: &Request) -> Result<(), SubmitError> {
        let (tokens, context) = (request.prompt.len(), self.options.context);
        let vocabulary = self.model.config().vocabulary;
        if request.prompt.is_empty() {
            return Err(SubmitError::EmptyPrompt);
        }
        let known = |&token: &u32| (token as usize) < vocabulary;
        if let Some(&token) = request.prompt.iter().find(|token| !known(token)) {
            return Err(SubmitError::Token { token, vocabulary });
        }
        if tokens >= context {
            return Err(SubmitError::TooLong { tokens, context });
        }
        if self.running.len() >= self.options.requests() {
            return Err(SubmitError::Busy {
                requests: self.running.len(),
            });
        }
        if let (Speculation::DraftModel { .. }, None) = (request.speculation, &self.draft_model) {
            return Err(SubmitError::NoDraftModel);
        }
        if let Some(adapter) = request.adapter {
            return Err(SubmitError::NoAdapter { adapter });
        }
        let unsupported = [
            (request.task != Task::Generate, "embeddings"),
            (request.choices != Choices::default(), "several choices"),
            (request.constraint.is_some(), "constraints"),
            (
                request.prompt_logprobs.is_some(),
                "log-probabilities of prompts",
            ),
            (request.limits != Limits::default(), "limits"),
        ];
        match unsupported.iter().find(|(asked, _)| *asked) {
            Some(&(_, what)) => Err(SubmitError::Unsupported { what }),
            None => Ok(()),
        }
    }

    /// Ends a request before its time. Says whether it was running.
    pub fn cancel(&mut self, id: RequestId) -> bool {
        match self.running.iter().position(|running| running.id == id) {
            Some(index) => {
                self.end(index);
                true
            }
            None => false,
        }
    }

    pub(crate) fn end(&mut self, index: usize) -> Running<'a> {
        end(
            &mut self.running,
            &mut self.kv,
            &mut self.draft_model,
            index,
        )
    }

    /// Whether no request is running.
    pub fn is_idle(&self) -> bool {
        self.running.is_empty()
    }

    /// Pages that no session has.
    pub fn free_pages(&self) -> usize {
        self.kv.free_pages()
    }

    /// Pages of the draft model that no session has.
    pub fn free_draft_pages(&self) -> usize {
        self.draft_model.as_ref().map_or(0, DraftModel::free_pages)
    }
}

/// Takes a request out and gives its pages back.
pub(crate) fn end<'a>(
    requests: &mut Vec<Running<'a>>,
    kv: &mut KvPages,
    draft_model: &mut Option<DraftModel<'_>>,
    index: usize,
) -> Running<'a> {
    let mut running = requests.remove(index);
    kv.truncate(&mut running.session.sequence, 0);
    if let Some(drafter) = draft_model {
        drafter.truncate(&mut running.session.drafted, 0);
    }
    running
}
