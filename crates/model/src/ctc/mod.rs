//! Wav2Vec2 and HuBERT with CTC: from samples to letters (<https://arxiv.org/abs/2006.11477>).
//!
//! Convolutions over raw sound make a row every 20 ms, layers whose positions all see each other read the rows, and each
//! says how likely every letter is there. Files are GGUF with `general.architecture` `wav2vec2` or `hubert`;
//! `docs/speech.md` has the keys and tensors. The numerics contract holds: the same samples give the same bits on any
//! number of workers and any instruction set.

mod config;
mod features;
mod pass;
mod weights;

pub use config::{CtcConfig, CtcConvolution, CtcNorm};
pub use weights::Ctc;

/// The sound is shorter than the first row needs.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the sound has {found} samples; at least {least} are needed")]
pub struct TooShort {
    /// Samples that there are.
    pub found: usize,
    /// Samples that make one row.
    pub least: usize,
}
