//! What `forward` computes: tokens of one or more sequences.

use crate::adapter::Adapted;
use crate::embedded::{self, EmbeddedRun};
use crate::error::BatchError;
use crate::model::Model;
use crate::pages::{PAGE, PageLayout, Sequence};

/// What is wanted of a span.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Nothing: a chunk of a prompt that goes on.
    None,
    /// The logits of its last token: the next is to be sampled.
    LastLogits,
    /// The logits of all its tokens: scores of a sequence, or tokens to verify.
    AllLogits,
    /// The states of all its tokens after the last norm: a sequence to embed.
    States,
}

/// What a batch gave, in the order of its spans.
#[derive(Copy, Clone, Debug)]
pub struct Outputs<'w> {
    /// (rows, vocabulary), of the spans that asked for logits.
    pub logits: &'w [f32],
    /// (tokens, width), of the spans that asked for states.
    pub states: &'w [f32],
}

/// Tokens that continue one sequence: a chunk of a prompt, or the token sampled last.
pub struct Span<'a> {
    /// The sequence; it must have pages for the tokens. Its length grows by their number.
    pub sequence: &'a mut Sequence,
    /// The tokens.
    pub tokens: &'a [u32],
    /// What is wanted of them.
    pub output: Output,
    /// The adapter that they are computed with. What is stored of a sequence depends on it.
    pub adapter: Option<Adapted<'a>>,
    /// All the sequence's positions whose embeddings are given, in order; positions count from its beginning.
    pub embedded: &'a [EmbeddedRun],
}

impl Span<'_> {
    /// How many of the tokens are read by an encoder.
    pub(crate) fn read(&self) -> usize {
        self.sequence.source.saturating_sub(self.sequence.len)
    }

    /// How many are not.
    pub(crate) fn written(&self) -> usize {
        self.tokens.len().saturating_sub(self.read())
    }

    /// How many rows of logits the span asks for.
    pub fn rows(&self) -> usize {
        match self.output {
            Output::None | Output::States => 0,
            Output::LastLogits => self.written().min(1),
            Output::AllLogits => self.written(),
        }
    }
}

/// How many tokens and rows of logits a batch can have.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// Tokens.
    pub tokens: usize,
    /// Rows of logits.
    pub logits: usize,
}

/// Counts a batch and refuses what cannot be computed, before anything is.
pub(crate) fn check(
    batch: &[Span<'_>],
    limits: BatchLimits,
    model: &Model,
    positions: Option<usize>,
    layout: &PageLayout,
) -> Result<(), BatchError> {
    let tokens = batch.iter().map(|span| span.tokens.len()).sum();
    if tokens > limits.tokens {
        return Err(BatchError::TooManyTokens {
            tokens,
            room: limits.tokens,
        });
    }
    let rows = batch.iter().map(Span::rows).sum();
    if rows > limits.logits {
        return Err(BatchError::TooManyLogits {
            rows,
            room: limits.logits,
        });
    }
    for span in batch {
        if let Some(Adapted { adapter, scale }) = span.adapter {
            if !adapter.fits(model) || model.config().source.is_some() {
                return Err(BatchError::ForeignAdapter);
            }
            if !scale.is_finite() {
                return Err(BatchError::AdapterScale);
            }
        }
        let needed = span.sequence.len() + span.tokens.len();
        if needed > span.sequence.room() {
            return Err(BatchError::Pages {
                room: span.sequence.room(),
                needed,
            });
        }
        let (source, computed) = (span.sequence.source, span.sequence.len);
        if (source > 0) != model.config().source.is_some() {
            return Err(BatchError::Source);
        }
        if computed < source && (computed > 0 || span.tokens.len() < source) {
            return Err(BatchError::PartOfSource {
                tokens: span.tokens.len(),
                source_tokens: source,
            });
        }
        if layout.is_recurrent() && span.sequence.state().is_none() {
            return Err(BatchError::State);
        }
        if let Some(positions) = positions.filter(|&positions| needed > positions) {
            return Err(BatchError::Position {
                position: needed - 1,
                positions,
            });
        }
        let positions = span.sequence.len()..needed;
        embedded::check(span.embedded, positions, model.config().embedded_row())?;
        let sees = (span.sequence.len() + 1).saturating_sub(layout.window().unwrap_or(0));
        let held = span.sequence.forgotten() * PAGE;
        if sees < held {
            return Err(BatchError::Forgotten {
                position: sees,
                held,
            });
        }
        let vocabulary = model.config().vocabulary;
        if let Some(&token) = span.tokens.iter().find(|&&t| t as usize >= vocabulary) {
            return Err(BatchError::Token { token, vocabulary });
        }
    }
    Ok(())
}
