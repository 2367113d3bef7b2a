//! Whisper's sizes, from the metadata under `whisper`.

use crate::error::LoadError;
use alloc::format;
use strata_weights::Metadata;

/// No size is larger.
const MAX_SIZE: u32 = 1 << 20;

/// Whisper's sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WhisperConfig {
    /// Tokens.
    pub vocabulary: usize,
    /// The width of states.
    pub width: usize,
    /// Bands of a spectrogram.
    pub bands: usize,
    /// Positions of a window: half its frames.
    pub audio_positions: usize,
    /// Layers of the encoder.
    pub encoder_layers: usize,
    /// Heads of the encoder.
    pub encoder_heads: usize,
    /// The inner width of the encoder's feed-forward networks.
    pub encoder_ffn: usize,
    /// Positions of a text.
    pub text_positions: usize,
    /// Layers of the decoder.
    pub decoder_layers: usize,
    /// Heads of the decoder.
    pub decoder_heads: usize,
    /// The inner width of the decoder's feed-forward networks.
    pub decoder_ffn: usize,
}

impl WhisperConfig {
    /// The epsilon of all norms.
    pub(super) const EPSILON: f32 = 1e-5;

    /// Reads the metadata; the vocabulary is that of the embedding.
    pub(super) fn new(metadata: &Metadata<'_>, vocabulary: usize) -> Result<Self, LoadError> {
        let arch = metadata.str("general.architecture")?.unwrap_or_default();
        if arch != "whisper" {
            return Err(LoadError::NotSpeech { arch: arch.into() });
        }
        let size = |name: &str| {
            let key = format!("whisper.{name}");
            match metadata.u32(&key)? {
                Some(size) if (1..=MAX_SIZE).contains(&size) => Ok(size as usize),
                Some(size) => Err(LoadError::BadValue {
                    key,
                    value: f64::from(size),
                    needs: "between 1 and 1048576",
                }),
                None => Err(LoadError::MissingKey { key }),
            }
        };
        let config = Self {
            vocabulary,
            width: size("embedding_length")?,
            bands: size("encoder.mel_bands")?,
            audio_positions: size("encoder.context_length")?,
            encoder_layers: size("encoder.block_count")?,
            encoder_heads: size("encoder.attention.head_count")?,
            encoder_ffn: size("encoder.feed_forward_length")?,
            text_positions: size("decoder.context_length")?,
            decoder_layers: size("decoder.block_count")?,
            decoder_heads: size("decoder.attention.head_count")?,
            decoder_ffn: size("decoder.feed_forward_length")?,
        };
        for (part, heads) in [
            ("encoder", config.encoder_heads),
            ("decoder", config.decoder_heads),
        ] {
            if !config.width.is_multiple_of(heads) || !(config.width / heads).is_multiple_of(4) {
                return Err(LoadError::BadValue {
                    key: format!("whisper.{part}.attention.head_count"),
                    value: heads as f64,
                    needs: "so many that heads have a multiple of four dimensions",
                });
            }
        }
        Ok(config)
    }

    /// Frames of a window.
    pub fn frames(&self) -> usize {
        2 * self.audio_positions
    }
}
