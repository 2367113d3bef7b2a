//! A look inside the model: one prompt, computed by itself between two steps.

use crate::cache::CachedSequence;
use crate::engine::Engine;
use alloc::vec::Vec;
use strata_model::{BatchError, Observer, Output, Span};

/// Why a prompt cannot be looked at.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum InspectError {
    #[error("the model is an encoder, which predicts no tokens")]
    Encoder,
    #[error("the prompt has no tokens")]
    Empty,
    #[error("the prompt has {tokens} tokens, and {most} are computed together at most")]
    TooLong { tokens: usize, most: usize },
    #[error("running requests leave no room for the prompt: try again later")]
    NoRoom,
    #[error(transparent)]
    Batch(#[from] BatchError),
}

impl Engine {
    /// Computes a prompt from its first token on, in one batch of its own, shows `observer` what happens inside, and gives
    /// the logits after its last token.
    ///
    /// Its pages are taken for this only: nothing of it stays, and nothing that runs changes. What is kept of finished
    /// requests may have to make room.
    pub fn inspect(
        &mut self,
        prompt: &[u32],
        observer: &dyn Observer,
    ) -> Result<Vec<f32>, InspectError> {
        if self.encodes() {
            return Err(InspectError::Encoder);
        }
        if prompt.is_empty() {
            return Err(InspectError::Empty);
        }
        let (tokens, limits) = (prompt.len(), self.executor().limits());
        let most = limits.tokens.min(self.options.context);
        if tokens > most {
            return Err(InspectError::TooLong { tokens, most });
        }
        let mut held = CachedSequence::default();
        held.sequence.set_source(self.source_of(prompt));
        if !self.cache.reserve(&mut held, tokens) {
            return Err(InspectError::NoRoom);
        }
        let span = Span {
            sequence: &mut held.sequence,
            tokens: prompt,
            output: Output::LastLogits,
            adapter: None,
            embedded: &[],
        };
        let computed = self.cache.observe(&mut [span], observer);
        let logits = computed.map(|outputs| outputs.logits.to_vec());
        self.cache.release(&mut held);
        self.refresh();
        Ok(logits?)
    }
}
