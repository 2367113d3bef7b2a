//! Whisper: from a spectrogram to text (<https://arxiv.org/abs/2212.04356>).
//!
//! An encoder reads a window of sound at once, through two convolutions and layers whose positions all see each other. A
//! decoder writes tokens, each of which sees those before it and the whole window. Files are GGUF with
//! `general.architecture` `whisper`; `docs/speech.md` has the keys and tensors. The numerics contract holds: the same
//! window and tokens give the same bits on any number of workers and any instruction set, however the tokens come.

mod config;
mod decoder;
mod encoder;
pub(crate) mod encoder_weights;
mod weights;

pub use config::WhisperConfig;
pub use decoder::{Alignment, WhisperState};
pub use encoder::Heard;
pub use weights::Whisper;

/// Why Whisper cannot read what it is given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum WhisperError {
    #[error("the window has {found} numbers; {expected} are {frames} frames of {bands} bands")]
    Window {
        found: usize,
        expected: usize,
        frames: usize,
        bands: usize,
    },
    #[error("token {token} is not in the vocabulary of {vocabulary}")]
    Token { token: u32, vocabulary: usize },
    #[error("position {position} is past the {positions} that the model has")]
    Position { position: usize, positions: usize },
    #[error("the state was made for another model")]
    ForeignState,
}
