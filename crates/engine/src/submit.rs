//! Who is taken in: what a request may ask for, and when it must come back later.

use crate::active_sequence::{ActiveSequence, Aim};
use crate::beams::{Beam, Search};
use crate::engine::Engine;
use crate::group::Group;
use crate::images::Images;
use crate::prefix_tree::Salt;
use crate::request::{AdapterId, Choices, Request, RequestId, Task};
use crate::sampling::SettingsError;
use crate::scheduler::{ScheduledSequence, SequenceId};
use crate::speculation::Speculation;
use crate::writer::Writer;
use alloc::boxed::Box;
use core::time::Duration;
use strata_model::{PAGE, Pooled};

/// The most answers to one request.
pub const MOST_CHOICES: usize = 128;

/// When to come back where nothing is known of how long things take.
const LATER: Duration = Duration::from_secs(1);

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
    #[error("the text would have {tokens} tokens and the cache has room for {room}")]
    Pages { tokens: usize, room: usize },
    #[error("the queue is full; there is room again in about {} ms", .retry_after.as_millis())]
    Full { retry_after: Duration },
    #[error("the engine has no draft model to guess tokens with")]
    NoDraftModel,
    #[error("the model has no layer that predicts the token after the next, or it is not loaded")]
    NoNextn,
    #[error("the engine has no adapter {}", .adapter.0)]
    NoAdapter { adapter: AdapterId },
    #[error(
        "n is {n} and best_of is {generated}; n must be from 1 to best_of, and best_of at most {MOST_CHOICES}"
    )]
    Choices { n: usize, generated: usize },
    #[error("the engine has no clock, which time limits need")]
    NoClock,
    #[error("the first token takes about {} ms, and {} ms are allowed", .needed.as_millis(), .limit.as_millis())]
    Deadline { needed: Duration, limit: Duration },
    #[error("a token takes about {} ms, and {} ms are allowed", .needed.as_millis(), .limit.as_millis())]
    PerToken { needed: Duration, limit: Duration },
    #[error("the text takes {needed} bytes of memory, and {limit} are allowed")]
    Memory { needed: usize, limit: usize },
    #[error("the prompt must be a source and, after it, the token that begins an answer")]
    Source,
    #[error("the source has {tokens} tokens, and {room} are read at once at most")]
    SourceTooLong { tokens: usize, room: usize },
    #[error("the engine cannot do this: {what}")]
    Unsupported { what: &'static str },
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

impl Engine {
    /// Takes a request. What becomes of it is told by [`step`](Self::step).
    pub fn submit(&mut self, request: Request) -> Result<RequestId, SubmitError> {
        let taken = self.take(request);
        match &taken {
            Ok(_) => self.counters.submitted += 1,
            Err(SubmitError::Full { .. }) => self.counters.rejected += 1,
            Err(_) => self.counters.refused += 1,
        }
        self.refresh();
        taken
    }

    fn take(&mut self, request: Request) -> Result<RequestId, SubmitError> {
        let room = self.check(&request)?;
        let aim = self.aim(&request, room)?;
        let generated = request.choices.generated();
        let waiting = self.active.len() - self.scheduler.admitted();
        let free = self
            .options
            .requests()
            .saturating_sub(self.scheduler.admitted());
        if waiting + generated > self.options.queue.saturating_add(free).max(generated) {
            return Err(SubmitError::Full {
                retry_after: self.retry_after(),
            });
        }
        self.next_request += 1;
        let id = RequestId(self.next_request);
        let salt = Salt {
            client: request.client,
            adapter: request.adapter,
            alone: (!request.cache).then_some(id),
            source: self.source_of(&request.prompt),
            privacy: request.privacy,
        };
        let now = self.now();
        let mut group = Group::new(request.choices.wanted(), generated, request.limits, now);
        group.alone = salt.alone.map(|_| salt);
        group.search = Search::new(&request, room);
        self.groups.insert(id, group);
        let mut first = ActiveSequence::new(self.name(), id, salt, &request, aim);
        for choice in 1..generated {
            let aim = match &first.aim {
                Aim::Write(writer) => {
                    let mut writer = writer.clone();
                    writer.reseed(choice);
                    Aim::Write(writer)
                }
                _ => Aim::Search(Beam::default()),
            };
            let mut other = ActiveSequence::new(self.name(), id, salt, &request, aim);
            (other.choice, other.parked) = (choice, true);
            self.active.push(other);
        }
        first.parked = false;
        let at = self.active.partition_point(|other| other.id < first.id);
        self.active.insert(at, first);
        for active in &self.active[at..] {
            self.scheduler.add(ScheduledSequence {
                id: active.id,
                client: request.client,
                priority: request.priority,
                arrival: now,
                urgent: self.groups[&id].urgent(),
                target: request.limits.per_token,
                pending: if active.parked {
                    0
                } else {
                    active.tokens.len()
                },
                admitted: false,
                displaced: 0,
            });
        }
        Ok(id)
    }

    fn name(&mut self) -> SequenceId {
        self.next_sequence += 1;
        SequenceId(self.next_sequence)
    }

    /// Refuses what cannot be run. Gives the tokens that there is room for after the prompt.
    fn check(&self, request: &Request) -> Result<usize, SubmitError> {
        let (tokens, context) = (request.prompt.len(), self.options.context);
        let vocabulary = self.executor().config().vocabulary;
        if request.prompt.is_empty() {
            return Err(SubmitError::EmptyPrompt);
        }
        let known = |&token: &u32| (token as usize) < vocabulary;
        if let Some(&token) = request.prompt.iter().find(|token| !known(token)) {
            return Err(SubmitError::Token { token, vocabulary });
        }
        if self.reads_source() {
            self.check_source(request)?;
        }
        let writes = request.task == Task::Generate && request.max_tokens != Some(0);
        if tokens + usize::from(writes) > context {
            return Err(SubmitError::TooLong { tokens, context });
        }
        if let (Speculation::DraftModel { .. }, None) = (request.speculation, &self.draft_model) {
            return Err(SubmitError::NoDraftModel);
        }
        if let Speculation::Nextn { .. } = request.speculation
            && self.nextn_share.is_none()
        {
            return Err(SubmitError::NoNextn);
        }
        if let Some(adapter) = request.adapter.filter(|&id| !self.adapters.serves(id)) {
            return Err(SubmitError::NoAdapter { adapter });
        }
        let table = self.cache.table();
        if table.layout().is_recurrent() && table.states() == 0 {
            let what = "the model is recurrent, and there is no slot for a state";
            return Err(SubmitError::Unsupported { what });
        }
        self.check_images(request)?;
        self.check_task(request)?;
        self.check_time(request)?;
        self.room(request)
    }

    /// Refuses what an encoder-decoder cannot do, and sources that there is never room for.
    fn check_source(&self, request: &Request) -> Result<(), SubmitError> {
        let asked = [
            (
                request.task != Task::Generate,
                "an encoder-decoder has no embeddings and no scores",
            ),
            (
                request.adapter.is_some(),
                "encoder-decoders have no adapters",
            ),
            (
                !request.images.is_empty(),
                "encoder-decoders read no images and no audio",
            ),
            (
                request.prompt_logprobs.is_some(),
                "a source has no log-probabilities",
            ),
            (
                matches!(request.speculation, Speculation::DraftModel { .. }),
                "encoder-decoders have no draft models",
            ),
        ];
        if let Some(&(_, what)) = asked.iter().find(|(asked, _)| *asked) {
            return Err(SubmitError::Unsupported { what });
        }
        let tokens = self.source_of(&request.prompt);
        if tokens == 0 {
            return Err(SubmitError::Source);
        }
        // Beside it every other sequence can have its next token.
        let room = self.options.tokens() + 1 - self.options.requests();
        if tokens > room {
            return Err(SubmitError::SourceTooLong { tokens, room });
        }
        Ok(())
    }

    /// Refuses images and audio that the executor cannot compute.
    fn check_images(&self, request: &Request) -> Result<(), SubmitError> {
        if request.images.is_empty() {
            return Ok(());
        }
        let mutual = || request.images.iter().filter(|run| run.mutual);
        let room = self
            .options
            .tokens()
            .saturating_sub(self.options.requests());
        let row = self.executor().config().embedded_row();
        let mut end = 0;
        let fits = request.images.iter().all(|run| {
            let after = run.start >= end;
            end = run.range().end;
            after && run.len > 0 && run.rows.len() == run.len * row
        });
        let faults = [
            (
                !self.executor().takes_embeddings(),
                "images and audio are computed on the processors only: run the model with the device cpu",
            ),
            (self.encodes(), "an encoder reads no images and no audio"),
            (
                !fits || end > request.prompt.len(),
                "the embeddings of an image or of audio do not fit the prompt",
            ),
            (
                self.cache.is_recurrent() && mutual().next().is_some(),
                "images whose positions see each other, in a recurrent model",
            ),
            (
                request.prompt_logprobs.is_some() && mutual().next().is_some(),
                "log-probabilities of a prompt with an image whose positions see each other",
            ),
            (
                mutual().any(|run| run.len > room),
                "an image has more positions than a batch has room for: use a larger batch",
            ),
        ];
        match faults.iter().find(|(fault, _)| *fault) {
            Some(&(_, what)) => Err(SubmitError::Unsupported { what }),
            None => Ok(()),
        }
    }

    fn check_task(&self, request: &Request) -> Result<(), SubmitError> {
        let (n, generated) = (request.choices.wanted(), request.choices.generated());
        if n == 0 || n > generated || generated > MOST_CHOICES {
            return Err(SubmitError::Choices { n, generated });
        }
        let what = match (request.task, self.encodes()) {
            (Task::Generate, true) => "the model reads texts and writes none",
            (Task::Score { .. }, _) if self.executor().labels() == 0 => {
                "the model has no classifier"
            }
            (_, true) if request.adapter.is_some() => "encoders have no adapters",
            (Task::Embed(_) | Task::Score { .. }, _) if request.choices != Choices::default() => {
                "a text has one embedding"
            }
            (Task::Generate, false) => match request.choices {
                Choices::Beams { length_penalty, .. } => {
                    let asked = [
                        (
                            request.prompt_logprobs.is_some(),
                            "log-probabilities of the prompt with beams",
                        ),
                        (request.max_tokens == Some(0), "beams without tokens"),
                        (
                            !length_penalty.is_finite(),
                            "a length penalty that is no number",
                        ),
                    ];
                    match asked.iter().find(|(asked, _)| *asked) {
                        Some(&(_, what)) => what,
                        None => return Ok(()),
                    }
                }
                Choices::Sample { .. } => return Ok(()),
            },
            _ => return Ok(()),
        };
        Err(SubmitError::Unsupported { what })
    }

    /// Refuses limits of time that cannot be kept even if nobody else were there.
    fn check_time(&self, request: &Request) -> Result<(), SubmitError> {
        let limits = &request.limits;
        let first = [limits.deadline, limits.first_token]
            .into_iter()
            .flatten()
            .min();
        if first.is_none() && limits.per_token.is_none() {
            return Ok(());
        }
        if self.clock.is_none() {
            return Err(SubmitError::NoClock);
        }
        let time = self.scheduler.time();
        if !time.is_known() {
            return Ok(());
        }
        if let Some(limit) = limits.per_token
            && let needed = time.predict(1)
            && needed > limit
        {
            return Err(SubmitError::PerToken { needed, limit });
        }
        let salt = Salt {
            client: request.client,
            adapter: request.adapter,
            alone: None,
            source: self.source_of(&request.prompt),
            privacy: request.privacy,
        };
        let kept = if request.cache {
            let keys = Images::new(&request.images);
            self.cache.kept_len(salt, &keys.keys(&request.prompt))
        } else {
            0
        };
        let kept = if kept < salt.source { 0 } else { kept };
        let needed = time.predict_all(request.prompt.len() - kept, self.options.tokens());
        match first {
            Some(limit) if needed > limit => Err(SubmitError::Deadline { needed, limit }),
            _ => Ok(()),
        }
    }

    /// Tokens that there is room for after the prompt.
    fn room(&self, request: &Request) -> Result<usize, SubmitError> {
        let tokens = request.prompt.len();
        let mut positions = self.options.context;
        if self.encodes() {
            let room = self.options.tokens();
            return if tokens > room {
                Err(SubmitError::Pages { tokens, room })
            } else {
                Ok(0)
            };
        }
        let table = self.cache.table();
        positions = positions.min(table.pages() * PAGE);
        let wanted = match request.task {
            Task::Generate => request.max_tokens,
            _ => Some(0),
        };
        // What is asked for must be had; what is not is cut.
        let needed = tokens + wanted.unwrap_or(1).min(self.options.context - tokens);
        if needed > positions {
            return Err(SubmitError::Pages {
                tokens: needed,
                room: positions,
            });
        }
        if let Some(limit) = request.limits.memory {
            // Answers share the pages of the prompt.
            let answers = request.choices.generated();
            let page = table.layout().page_bytes();
            let pages = |after: usize| {
                let shared = tokens / PAGE;
                shared + answers * ((tokens + after).div_ceil(PAGE) - shared)
            };
            let needed = pages(wanted.unwrap_or(1)).saturating_mul(page);
            if needed > limit {
                return Err(SubmitError::Memory { needed, limit });
            }
            // Pages of models without attention take nothing.
            if let Some(pages) = limit.checked_div(page) {
                let own = (pages - tokens / PAGE) / answers;
                positions = positions.min((tokens / PAGE + own) * PAGE);
            }
        }
        Ok(positions - tokens)
    }

    fn aim(&self, request: &Request, room: usize) -> Result<Aim, SubmitError> {
        Ok(match request.task {
            Task::Generate if matches!(request.choices, Choices::Beams { .. }) => {
                Aim::Search(Beam::first(request.constraint.clone()))
            }
            Task::Generate => {
                let vocabulary = self.executor().config().vocabulary;
                let drafts = (self.options.max_draft, self.predictor());
                let writer = Writer::new(request, &self.tokenizer, vocabulary, room, drafts)?;
                Aim::Write(Box::new(writer))
            }
            Task::Embed(kind) => {
                Aim::Embed(kind, Pooled::new(kind, self.executor().config().width))
            }
            Task::Score { second } => Aim::Score(second),
        })
    }

    /// When a place in the queue is likely to be free: how long one of the texts that are here takes.
    fn retry_after(&self) -> Duration {
        if self.speed <= 0.0 || self.active.is_empty() {
            return LATER;
        }
        let pending: usize = self.active.iter().map(ActiveSequence::pending).sum();
        let texts = self.active.len() as f64;
        let work = pending as f64 / texts + self.answer_tokens;
        Duration::try_from_secs_f64(work / self.speed).unwrap_or(LATER)
    }
}
