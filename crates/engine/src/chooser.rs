//! What choosing tokens takes besides the text: masks, bans, log-probabilities.

use crate::constraint::{Constraint, TokenMask};
use crate::logprobs::{Logprobs, TokenLogprob};
use crate::request::{RequestError, TokenLogprobs};
use crate::sampling::{Choice, Workspace};
use alloc::sync::Arc;
use alloc::vec::Vec;
use strata_tokenizer::Tokenizer;

/// What choosing tokens takes, for all texts.
pub(crate) struct Chooser {
    pub(crate) tokenizer: Arc<Tokenizer>,
    pub(crate) sampling: Workspace,
    logprobs: Logprobs,
    pub(crate) mask: TokenMask,
    pub(crate) masked: Vec<f32>,
    pub(crate) forced: Vec<u32>,
    /// Tokens that have a text. Models can have rows for more, which are never sampled.
    pub(crate) sampled: usize,
}

/// How many tokens can be sampled.
pub(crate) fn sampled(tokenizer: &Tokenizer, vocabulary: usize) -> usize {
    vocabulary.min(tokenizer.vocab_size())
}

impl Chooser {
    pub(crate) fn new(tokenizer: Arc<Tokenizer>, vocabulary: usize) -> Self {
        Self {
            sampled: sampled(&tokenizer, vocabulary),
            tokenizer,
            sampling: Workspace::new(),
            logprobs: Logprobs::new(),
            mask: TokenMask::new(vocabulary),
            masked: Vec::new(),
            forced: Vec::new(),
        }
    }

    /// The `n` likeliest tokens.
    pub(crate) fn likeliest(
        &mut self,
        logits: &[f32],
        n: usize,
    ) -> Result<Vec<TokenLogprob>, RequestError> {
        let (_, top) = self.logprobs.compute(logits, 0, n)?;
        Ok(top.to_vec())
    }

    /// The `n` likeliest tokens that a constraint allows.
    pub(crate) fn likeliest_allowed(
        &mut self,
        logits: &[f32],
        n: usize,
        constraint: &mut dyn Constraint,
    ) -> Result<Vec<TokenLogprob>, RequestError> {
        self.mask.clear();
        constraint.allowed(&mut self.mask)?;
        self.mask.apply(logits, &mut self.masked);
        Ok(self.logprobs.among(logits, &self.masked, n)?.to_vec())
    }

    /// Bans the tokens that would end a text, unless nothing else is allowed. What a constraint bans is banned already.
    pub(crate) fn ban_ends(&mut self, logits: &[f32], constrained: bool, stop_tokens: &[u32]) {
        if !constrained {
            self.masked.clear();
            self.masked.extend_from_slice(logits);
        }
        let ends = self.tokenizer.end_of_generation().iter();
        for &token in ends.chain(stop_tokens) {
            if let Some(logit) = self.masked.get_mut(token as usize) {
                *logit = f32::NEG_INFINITY;
            }
        }
        let banned = |logit: &f32| *logit == f32::NEG_INFINITY;
        if constrained && self.masked.iter().all(banned) {
            self.mask.apply(logits, &mut self.masked);
        }
    }

    /// Log-probabilities of a drawn token and of the `n` likeliest, as they were when it was drawn.
    pub(crate) fn drawn(
        &mut self,
        logits: &[f32],
        choice: Choice,
        n: usize,
    ) -> Result<TokenLogprobs, RequestError> {
        let logprob = |token, probability: f32| TokenLogprob {
            token,
            logprob: libm::logf(probability),
        };
        let candidates = self.sampling.candidates().iter();
        let mut top: Vec<_> = candidates
            .map(|candidate| logprob(candidate.token, candidate.probability))
            .collect();
        top.sort_by(|a, b| b.logprob.total_cmp(&a.logprob).then(a.token.cmp(&b.token)));
        top.truncate(n);
        if top.len() < n {
            // The likeliest of those that could not be drawn.
            let (_, others) = self.logprobs.compute(logits, choice.token, n)?;
            for other in others {
                if top.len() < n && top.iter().all(|known| known.token != other.token) {
                    top.push(logprob(other.token, 0.0));
                }
            }
        }
        Ok(TokenLogprobs {
            chosen: logprob(choice.token, choice.probability),
            top,
        })
    }

    /// Log-probabilities of a token and of the `n` likeliest.
    pub(crate) fn logprobs(
        &mut self,
        logits: &[f32],
        token: u32,
        n: usize,
    ) -> Result<TokenLogprobs, RequestError> {
        let (chosen, top) = self.logprobs.compute(logits, token, n)?;
        Ok(TokenLogprobs {
            chosen,
            top: top.to_vec(),
        })
    }
}
