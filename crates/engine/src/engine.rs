//! What runs requests: a model, its cache, and who is in both.

use crate::active_sequence::ActiveSequence;
use crate::adapters::Adapters;
use crate::cache::Cache;
use crate::chooser::Chooser;
use crate::counters::Counters;
use crate::group::Group;
use crate::page_events::PageTeller;
use crate::page_store::ModelDigest;
use crate::request::{ClientId, RequestId};
use crate::scheduler::Scheduler;
use crate::speculation::VocabularyMismatch;
use crate::speculation::draft_model::DraftModel;
use crate::speculation::recollection::Recollection;
use crate::watch::StepWatcher;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use strata_model::spec::Role;
use strata_model::{BatchLimits, Executor, Span};
use strata_platform::{Clock, PageStore};
use strata_tokenizer::Tokenizer;

/// How much a step, or an answer, moves the running means.
pub(crate) const GAIN: f64 = 0.1;

/// How an engine works.
#[derive(Copy, Clone, Debug)]
pub struct EngineOptions {
    /// Positions that a sequence can have.
    pub context: usize,
    /// Tokens that are computed together, at most.
    pub batch: usize,
    /// Sequences that run side by side.
    pub requests: usize,
    /// Sequences that wait beside them; more are rejected.
    pub queue: usize,
    /// How long a step takes at most, so far as that can be had, while somebody waits for a next token. It needs a
    /// [clock](Engine::with_clock).
    pub latency: Duration,
    /// Rows of logits beside those of the next tokens, for log-probabilities of prompts: so many of their tokens are
    /// computed together.
    pub scoring: usize,
    /// Tokens that a request can have drafted ahead at a time. Each of each sequence needs room for a row of logits.
    pub max_draft: usize,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            context: 4096,
            batch: 512,
            requests: 1,
            queue: 128,
            latency: Duration::from_millis(200),
            scoring: 0,
            max_draft: 0,
        }
    }
}

impl EngineOptions {
    /// Tokens of sequences in a batch: at least one for each sequence.
    pub(crate) fn tokens(&self) -> usize {
        self.batch.max(self.requests()).max(1)
    }

    pub(crate) fn requests(&self) -> usize {
        self.requests.max(1)
    }

    /// What the engine's batches can have: its executor is made for it.
    pub fn limits(&self) -> BatchLimits {
        let each = self.max_draft.saturating_add(1);
        let rows = self.requests().saturating_mul(each);
        BatchLimits {
            tokens: self.tokens().max(rows),
            logits: rows.saturating_add(self.scoring),
        }
    }

    /// Recurrent states that the engine keeps: of running sequences, of drafts that may be wrong, and of prompts that
    /// others may begin with.
    pub fn states(&self) -> usize {
        const SNAPSHOTS: usize = 16;
        self.requests().saturating_mul(3).saturating_add(SNAPSHOTS)
    }
}

/// Runs requests through a model.
pub struct Engine {
    pub(crate) tokenizer: Arc<Tokenizer>,
    pub(crate) clock: Option<Arc<dyn Clock>>,
    pub(crate) options: EngineOptions,
    pub(crate) draft_model: Option<DraftModel>,
    /// What a prediction with the model's own layer takes, in parts of a pass, if it has one.
    pub(crate) nextn_share: Option<f32>,
    pub(crate) recollection: Recollection,
    pub(crate) cache: Cache,
    pub(crate) adapters: Adapters,
    pub(crate) digest: Option<ModelDigest>,
    pub(crate) chooser: Chooser,
    pub(crate) scheduler: Scheduler,
    /// Room for a batch, empty between steps.
    pub(crate) spans: Vec<Span<'static>>,
    /// In the order of their names.
    pub(crate) active: Vec<ActiveSequence>,
    pub(crate) groups: BTreeMap<RequestId, Group>,
    pub(crate) counters: Counters,
    /// Tokens a second, lately; and tokens that an answer has, lately.
    pub(crate) speed: f64,
    pub(crate) answer_tokens: f64,
    pub(crate) next_request: u64,
    pub(crate) next_sequence: u64,
    /// Who is shown each step.
    pub(crate) watchers: Vec<StepWatcher>,
    pub(crate) page_teller: Option<PageTeller>,
}

impl Engine {
    /// An engine over an executor, whose batches must be as large as [`EngineOptions::limits`] says. Without a clock
    /// steps are as large as they can be.
    pub fn new(
        executor: Box<dyn Executor>,
        tokenizer: Arc<Tokenizer>,
        options: EngineOptions,
    ) -> Self {
        let vocabulary = executor.config().vocabulary;
        Self {
            chooser: Chooser::new(Arc::clone(&tokenizer), vocabulary),
            tokenizer,
            clock: None,
            options,
            draft_model: None,
            nextn_share: executor.predicting_share(),
            recollection: Recollection::default(),
            cache: Cache::new(executor),
            adapters: Adapters::default(),
            digest: None,
            scheduler: Scheduler::default(),
            spans: Vec::new(),
            active: Vec::new(),
            groups: BTreeMap::new(),
            counters: Counters::default(),
            speed: 0.0,
            answer_tokens: 0.0,
            next_request: 0,
            next_sequence: 0,
            watchers: Vec::new(),
            page_teller: None,
        }
    }

    /// Gives the engine a sense of time: steps are kept short, deadlines can be asked for, times are counted.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Says which model this is, so that what is saved of it is never used with another.
    #[must_use]
    pub fn with_digest(mut self, digest: ModelDigest) -> Self {
        self.digest = Some(digest);
        self
    }

    /// Puts a store behind the cache: pages that there is no room for go there, and what a sequence needs is looked for
    /// there. `digest` is the model's.
    #[must_use]
    pub fn with_store(mut self, store: Box<dyn PageStore>, digest: ModelDigest) -> Self {
        self.cache.set_store(store, digest);
        self.with_digest(digest)
    }

    /// Gives requests a model to draft with, which has the tokens of this one, on an executor of its own. Where its
    /// pages do not suffice for all, some requests run without drafts.
    pub fn with_draft_model(
        mut self,
        executor: Box<dyn Executor>,
        tokenizer: &Tokenizer,
    ) -> Result<Self, VocabularyMismatch> {
        let target = (self.executor(), &*self.tokenizer);
        self.draft_model = Some(DraftModel::new((executor, tokenizer), target)?);
        Ok(self)
    }

    /// What computes.
    pub fn executor(&self) -> &dyn Executor {
        self.cache.executor()
    }

    /// How it works.
    pub fn options(&self) -> &EngineOptions {
        &self.options
    }

    /// What has been done, and how things stand.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Bytes of memory that keep what was computed for a client, for its next requests.
    pub fn kept_bytes(&self, client: ClientId) -> usize {
        self.cache.kept_bytes(client)
    }

    /// Whether there is nothing to do.
    pub fn is_idle(&self) -> bool {
        self.active.is_empty()
    }

    /// Puts what is cached into the store, for the next process.
    pub fn persist(&mut self) {
        self.cache.keep_all();
        self.refresh();
    }

    /// Puts up to so many cached pages into the store that are not there yet, for a machine that may lose power at any time.
    /// Says whether there are more; if not, all are there for good.
    pub fn persist_some(&mut self, pages: usize) -> bool {
        let more = self.cache.keep_some(pages);
        self.refresh();
        more
    }

    /// Forgets what finished requests left in the cache.
    pub fn clear_cache(&mut self) {
        self.cache.clear_all();
        self.recollection.clear();
        if let Some(draft) = &mut self.draft_model {
            draft.clear_cache();
        }
        self.refresh();
    }

    /// Pages that nobody uses.
    pub fn free_pages(&self) -> usize {
        self.cache.table().free_pages()
    }

    /// Pages of the draft model that nobody uses.
    pub fn free_draft_pages(&self) -> usize {
        self.draft_model.as_ref().map_or(0, DraftModel::free_pages)
    }

    /// Slots for recurrent states that nobody uses; 0 if the model has no such states.
    pub fn free_states(&self) -> usize {
        self.cache.table().free_states()
    }

    /// Slots for recurrent states of the draft model that nobody uses.
    pub fn free_draft_states(&self) -> usize {
        self.draft_model.as_ref().map_or(0, DraftModel::free_states)
    }

    /// Whether the model is an encoder.
    pub(crate) fn encodes(&self) -> bool {
        self.executor().config().spec.role == Role::Encoder
    }

    /// How many of a sequence's tokens are its source: those before the first that begins an answer. 0 in models that read
    /// none.
    pub(crate) fn source_of(&self, tokens: &[u32]) -> usize {
        let source = self.executor().config().source.as_ref();
        let end = source.and_then(|source| tokens.iter().position(|&token| token == source.start));
        end.unwrap_or(0)
    }

    /// Whether the model reads a source before it writes.
    pub(crate) fn reads_source(&self) -> bool {
        self.executor().config().source.is_some()
    }

    pub(crate) fn now(&self) -> Duration {
        let now = |clock: &Arc<dyn Clock>| Duration::from_nanos(clock.now_ns());
        self.clock.as_ref().map_or(Duration::ZERO, now)
    }

    /// Brings the counters up to date with what is counted elsewhere.
    pub(crate) fn refresh(&mut self) {
        let counters = &mut self.counters;
        let counts = self.cache.counts();
        counters.evicted_pages = counts.evicted;
        counters.window_evictions = counts.window_evictions;
        counters.stored_pages = counts.stored;
        counters.restored_pages = counts.restored;
        counters.preemptions = self.scheduler.preemptions();
        counters.running = self.scheduler.admitted();
        counters.waiting = self.active.len() - counters.running;
        counters.pages = self.cache.table().pages();
        counters.free_pages = self.cache.table().free_pages();
        counters.kept_pages = self.cache.kept_pages();
        let waiting = counters.waiting > 0;
        counters.blocked = self.scheduler.blocked().filter(|_| waiting);
    }
}
