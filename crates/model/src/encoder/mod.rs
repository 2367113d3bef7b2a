//! Encoders: a text is read as a whole, every token sees every other, and nothing is kept of it afterwards.
//!
//! BERT (<https://arxiv.org/abs/1810.04805>) and its relatives: embeddings of token, type and position, then layers
//! whose norms come after their branches.

mod pass;
pub(crate) mod weights;

/// A text to encode, or two that are read together.
#[derive(Copy, Clone, Debug)]
pub struct Text<'a> {
    /// The tokens, with those that the model wants around a text.
    pub tokens: &'a [u32],
    /// Where the second of two texts begins; for a single text, past its end.
    pub second: usize,
}

impl<'a> Text<'a> {
    /// One text.
    pub fn single(tokens: &'a [u32]) -> Self {
        Self {
            tokens,
            second: tokens.len(),
        }
    }
}
