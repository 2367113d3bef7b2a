//! An audio tower's sizes, from the metadata under `clip.audio`.

use super::spec::{AudioMerge, AudioTowerSpec, Heed};
use crate::error::LoadError;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use strata_weights::Metadata;

/// No size is larger.
const MAX_SIZE: u32 = 1 << 20;

/// An audio tower's sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct AudioTowerConfig {
    /// The family.
    pub family: &'static str,
    /// Bands of a spectrogram.
    pub bands: usize,
    /// Positions of a window before they are merged: half its frames.
    pub positions: usize,
    /// The width of the encoder's states.
    pub width: usize,
    /// Layers.
    pub layers: usize,
    /// Heads.
    pub heads: usize,
    /// The inner width of feed-forward networks.
    pub ffn: usize,
    /// The epsilon of the encoder's norms.
    pub epsilon: f32,
    /// How many positions become one.
    pub merge: usize,
    /// The width of the text model.
    pub text_width: usize,
    pub(super) spec: &'static AudioTowerSpec,
}

impl AudioTowerConfig {
    /// Whether a file says that it has an audio tower.
    pub fn is_in(metadata: &Metadata<'_>) -> bool {
        matches!(metadata.bool("clip.has_audio_encoder"), Ok(Some(true)))
    }

    /// Reads the metadata; a window has so many positions as the file has vectors for.
    pub(super) fn new(metadata: &Metadata<'_>, positions: usize) -> Result<Self, LoadError> {
        let arch = metadata.str("general.architecture")?.unwrap_or_default();
        if arch != "clip" {
            return Err(LoadError::NotATower { arch: arch.into() });
        }
        let name = match metadata.str("clip.audio.projector_type")? {
            Some(name) => Some(name),
            None => metadata.str("clip.projector_type")?,
        };
        let key = "clip.projector_type";
        let name = name.ok_or_else(|| LoadError::MissingKey { key: key.into() })?;
        let spec = AudioTowerSpec::find(name).ok_or_else(|| {
            let known: Vec<&str> = AudioTowerSpec::names().collect();
            LoadError::Projector {
                name: name.into(),
                known: known.join(", "),
            }
        })?;
        let size = |name: &str| {
            let key = format!("clip.audio.{name}");
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
        let (width, heads) = (size("embedding_length")?, size("attention.head_count")?);
        if !width.is_multiple_of(heads) || !(width / heads).is_multiple_of(4) {
            return Err(LoadError::BadValue {
                key: "clip.audio.attention.head_count".into(),
                value: heads as f64,
                needs: "so many that heads have a multiple of four dimensions",
            });
        }
        let key = String::from("clip.audio.attention.layer_norm_epsilon");
        let epsilon = metadata.f32(&key)?.unwrap_or(1e-5);
        if !(epsilon.is_finite() && epsilon >= 0.0) {
            return Err(LoadError::BadValue {
                key,
                value: f64::from(epsilon),
                needs: "finite and not negative",
            });
        }
        let merge = match spec.merge {
            AudioMerge::Mean(count) => count,
            AudioMerge::Stack => size("projector.stack_factor")?,
        };
        if merge > positions {
            return Err(LoadError::BadValue {
                key: "clip.audio.projector.stack_factor".into(),
                value: merge as f64,
                needs: "at most as many as a window has positions",
            });
        }
        Ok(Self {
            family: spec.name,
            bands: size("num_mel_bins")?,
            positions,
            width,
            layers: size("block_count")?,
            heads,
            ffn: size("feed_forward_length")?,
            epsilon,
            merge,
            text_width: 0,
            spec,
        })
    }

    /// Frames of a window.
    pub fn frames(&self) -> usize {
        2 * self.positions
    }

    /// Positions of the encoder that are heeded where a window has so many frames of sound.
    pub(super) fn heeded(&self, sound: usize) -> usize {
        match self.spec.heed {
            Heed::Sound => sound.div_ceil(2),
            Heed::Window => self.positions,
        }
    }

    /// Positions of the text that a window takes with so many frames of sound.
    pub fn text_positions(&self, sound: usize) -> usize {
        let heeded = self.heeded(sound);
        match self.spec.merge {
            AudioMerge::Mean(count) => heeded / count,
            AudioMerge::Stack => heeded.div_ceil(self.merge),
        }
    }
}
