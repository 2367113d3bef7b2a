//! Encoders: a sequence is read as a whole, every token sees every other, and nothing is kept of it afterwards.
//!
//! BERT (<https://arxiv.org/abs/1810.04805>) and its relatives: embeddings of token, type and position, then layers
//! whose norms come after their branches.

mod pass;
mod rank;
mod source;
pub(crate) mod weights;

/// A sequence to encode, or a pair that is read together.
#[derive(Copy, Clone, Debug)]
pub struct EncoderInput<'a> {
    /// The tokens, with those that the model wants around them.
    pub tokens: &'a [u32],
    /// Where the second of a pair begins; past the end where there is only one.
    pub second: usize,
}

impl<'a> EncoderInput<'a> {
    /// A single sequence.
    pub fn single(tokens: &'a [u32]) -> Self {
        Self {
            tokens,
            second: tokens.len(),
        }
    }
}
