//! Audio towers: from a spectrogram to embeddings that a language model reads in place of tokens.
//!
//! A tower is Whisper's encoder and a projector, in a GGUF file of its own (`general.architecture` is `clip`,
//! `clip.has_audio_encoder` is true, and `clip.projector_type` or `clip.audio.projector_type` names the family). A family
//! is an [`AudioTowerSpec`]; sizes come from the file. The numerics contract holds: the same frames give the same bits
//! on any number of workers and any instruction set.

mod config;
mod families;
mod pass;
mod spec;
mod weights;

pub use config::AudioTowerConfig;
pub use spec::{AudioMerge, AudioStep, AudioTowerSpec, Heed};
pub use weights::AudioTower;

/// Why a window of sound cannot be embedded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum AudioTowerError {
    #[error("the window has {found} numbers; {expected} are {frames} frames of {bands} bands")]
    Window {
        found: usize,
        expected: usize,
        frames: usize,
        bands: usize,
    },
    #[error("{sound} frames of sound do not fit a window of {frames}")]
    Sound { sound: usize, frames: usize },
}
