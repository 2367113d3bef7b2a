//! From audio files to what a speech model reads.
//!
//! [`decode`] reads WAV, FLAC, MP3 and Ogg Vorbis into one channel of 16,000 samples a second, and takes no memory that
//! its [`Limits`] do not allow. [`LogMel`] makes the spectrogram that Whisper was trained on. Both run their sums in one
//! order with functions of their own, so that the same file gives the same bits on every machine.
//!
//! The decoders need the standard library, and so does this crate.
#![forbid(unsafe_code)]

mod decode;
mod filters;
mod fourier;
mod mel;
mod resample;
mod wav;

pub use decode::{DecodeError, Format, Limits, decode};
pub use mel::{HOP, LogMel, Spectrogram};
pub use resample::Resampler;

/// Samples a second, everywhere behind [`decode`].
pub const RATE: usize = 16_000;
