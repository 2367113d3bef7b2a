//! A draft model: a small model of the same vocabulary proposes what it finds likeliest.
//!
//! It has keys and values of its own. They follow the text: a prompt's chunks as they come, then the tokens that were
//! accepted; what was computed for a rejected token is forgotten. Where its cache is full or its context ends, nothing
//! is proposed.

use crate::cache::{Cache, CachedSequence};
use crate::prefix_tree::Salt;
use crate::request::AdapterId;
use crate::sampling;
use alloc::boxed::Box;
use alloc::vec::Vec;
use strata_model::{Executor, Output, Span};
use strata_tokenizer::{TokenKind, Tokenizer};

/// A model that cannot draft for another: their tokens differ.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the draft model has another vocabulary: its token {token} is not the model's")]
pub struct VocabularyMismatch {
    /// The first token that differs.
    pub token: u32,
}

/// A model that drafts for all requests of an engine.
pub(crate) struct DraftModel {
    cache: Cache,
    /// The other model's vocabulary: what may be proposed.
    vocabulary: usize,
    /// What a pass takes, in parts of the other model's.
    share: f32,
}

/// What is wanted for one request.
pub(crate) struct DraftRequest<'r> {
    /// The text so far.
    text: &'r [u32],
    /// What the draft model has computed of it, and of its draft.
    held: &'r mut CachedSequence,
    /// Tokens to propose; none while the prompt is still being computed.
    wanted: usize,
    /// The proposal.
    draft: &'r mut Vec<u32>,
    /// Tokens to compute in the next pass.
    chunk: usize,
}

impl<'r> DraftRequest<'r> {
    /// A request to propose `wanted` tokens, or only to keep up with the text.
    pub(crate) fn new(
        text: &'r [u32],
        held: &'r mut CachedSequence,
        wanted: usize,
        draft: &'r mut Vec<u32>,
    ) -> Self {
        Self {
            text,
            held,
            wanted,
            draft,
            chunk: 0,
        }
    }

    /// What to compute in the next pass.
    fn span(&mut self) -> Span<'_> {
        let computed = self.held.sequence.len();
        Span {
            tokens: match self.draft.as_slice() {
                [] => &self.text[computed..computed + self.chunk],
                [.., last] => core::slice::from_ref(last),
            },
            sequence: &mut self.held.sequence,
            output: match self.wanted {
                0 => Output::None,
                _ => Output::LastLogits,
            },
            adapter: None,
            embedded: &[],
        }
    }
}

impl DraftModel {
    /// The share of guesses that are expected to be right at first.
    pub(crate) const TRUST: f32 = 0.8;

    /// The most that a pass is taken to cost. Whoever chose a large draft model wants it tried.
    const LARGEST_SHARE: f32 = 0.5;

    /// A drafter for `target`, whose tokens must be the same.
    pub(crate) fn new(
        (executor, tokenizer): (Box<dyn Executor>, &Tokenizer),
        (target, target_tokenizer): (&dyn Executor, &Tokenizer),
    ) -> Result<Self, VocabularyMismatch> {
        let vocabulary = target.config().vocabulary;
        same_vocabulary(
            (executor.config().vocabulary, tokenizer),
            (vocabulary, target_tokenizer),
        )?;
        let share = executor.memory().weights as f32 / target.memory().weights as f32;
        Ok(Self {
            cache: Cache::new(executor),
            vocabulary,
            share: share.min(Self::LARGEST_SHARE),
        })
    }

    /// What a pass takes, in parts of the other model's.
    pub(crate) fn share(&self) -> f32 {
        self.share
    }

    /// Pages that nobody uses.
    pub(crate) fn free_pages(&self) -> usize {
        self.cache.table().free_pages()
    }

    /// Slots for recurrent states that nobody uses.
    pub(crate) fn free_states(&self) -> usize {
        self.cache.table().free_states()
    }

    /// Forgets what is kept.
    pub(crate) fn clear_cache(&mut self) {
        self.cache.clear_all();
    }

    /// Forgets what is kept under an adapter of the other model.
    pub(crate) fn clear_adapter(&mut self, adapter: AdapterId) {
        self.cache.clear_adapter(adapter);
    }

    /// Forgets what is kept under a salt.
    pub(crate) fn clear(&mut self, salt: Salt) {
        self.cache.clear(salt);
    }

    /// Gives a text what is known of its beginning.
    pub(crate) fn attach(&mut self, salt: Salt, tokens: &[u32], held: &mut CachedSequence) {
        self.cache.attach(salt, tokens, held);
    }

    /// Forgets what was computed after `tokens`, and keeps the rest for texts that begin so too.
    pub(crate) fn confirm(&mut self, salt: Salt, tokens: &[u32], held: &mut CachedSequence) {
        self.cache.cut(held, tokens.len());
        self.cache.record(salt, tokens, held);
    }

    /// Takes all pages from a text, and keeps those of `tokens` for others.
    pub(crate) fn release(&mut self, salt: Salt, tokens: &[u32], held: &mut CachedSequence) {
        self.confirm(salt, tokens, held);
        self.cache.record_tail(salt, tokens, held);
        self.cache.release(held);
    }

    /// Catches up with the texts and proposes how they go on, side by side.
    pub(crate) fn propose(&mut self, requests: &mut [DraftRequest<'_>]) {
        // Those that want tokens have little to catch up with; prompts take the room that they leave.
        requests.sort_by_key(|request| request.wanted == 0);
        let mut room = self.cache.executor().limits().tokens;
        for request in requests.iter_mut() {
            self.plan(request, room);
            room -= request.chunk;
        }
        while self.pass(requests) {}
    }

    /// Sets what the first pass computes of a request's text: what can be, and nothing where there are no pages.
    fn plan(&mut self, request: &mut DraftRequest<'_>, room: usize) {
        let config = self.cache.executor().config();
        let (context, vocabulary) = (config.context, config.vocabulary);
        let computed = request.held.sequence.len();
        let behind = &request.text[computed..];
        let chunk = behind.len().min(room);
        if chunk < behind.len() {
            request.wanted = 0;
        }
        let end = computed + chunk + request.wanted;
        let fits = end <= context
            && behind.iter().all(|&token| (token as usize) < vocabulary)
            && self.cache.reserve(request.held, chunk + request.wanted)
            && (request.wanted == 0 || self.cache.checkpoint(request.held));
        if fits {
            request.chunk = chunk;
        }
    }

    /// One pass: the first catches up, each of the others computes what the one before it proposed. Says whether
    /// there was anything to do.
    fn pass(&mut self, requests: &mut [DraftRequest<'_>]) -> bool {
        let mut batch: Vec<Span<'_>> = requests
            .iter_mut()
            .filter(|request| request.chunk > 0)
            .map(DraftRequest::span)
            .collect();
        if batch.is_empty() {
            return false;
        }
        let width = self.cache.executor().config().vocabulary;
        let Ok(outputs) = self.cache.forward(&mut batch) else {
            return false;
        };
        let mut rows = outputs.logits.chunks_exact(width);
        for request in requests.iter_mut().filter(|request| request.chunk > 0) {
            request.chunk = 0;
            if request.wanted == 0 {
                continue;
            }
            let row = rows.next().expect("a row for each span that asked for one");
            // What only pads this model's vocabulary is no token of the other.
            let row = &row[..row.len().min(self.vocabulary)];
            if let Ok(best) = sampling::best(row) {
                request.draft.push(best.token);
                request.chunk = usize::from(request.draft.len() < request.wanted);
            }
        }
        true
    }
}

/// Both must mean the same by each token; those that only pad a vocabulary do not matter.
fn same_vocabulary(
    a: (usize, &Tokenizer),
    b: (usize, &Tokenizer),
) -> Result<(), VocabularyMismatch> {
    fn text((vocabulary, tokenizer): (usize, &Tokenizer), token: u32) -> Option<&str> {
        let used =
            (token as usize) < vocabulary && tokenizer.kind(token) != Some(TokenKind::Unused);
        tokenizer.token_text(token).filter(|_| used)
    }
    let tokens = a.1.vocab_size().max(b.1.vocab_size()) as u32;
    match (0..tokens).find(|&token| text(a, token) != text(b, token)) {
        Some(token) => Err(VocabularyMismatch { token }),
        None => Ok(()),
    }
}
