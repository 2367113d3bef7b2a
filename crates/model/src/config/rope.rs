//! Rotary positions in the metadata.

use super::MAX_SIZE;
use super::keys::Keys;
use crate::error::LoadError;
use crate::spec::{ArchSpec, RopeAxes, WindowRope, YarnRange};
use alloc::vec::Vec;

/// Rotary positions.
#[derive(Clone, Debug, PartialEq)]
pub struct RopeConfig {
    /// How many of a head's dimensions turn.
    pub dimensions: usize,
    /// The frequencies' base.
    pub base: f32,
    /// Whether the factors that the file may have as tensors divide the frequencies.
    pub factors: bool,
    /// Stretching for long contexts.
    pub scaling: RopeScaling,
    /// What cosines and sines are multiplied by.
    pub magnitude: f32,
    /// Positions that the unscaled frequencies were trained for.
    pub original_context: usize,
    /// How many pairs turn by each axis of a position; none where there is only one.
    pub sections: Option<[usize; 3]>,
    /// Which pairs those are.
    pub axes: RopeAxes,
}

impl RopeConfig {
    /// The axis that each pair turns by; empty where positions have only one.
    pub(crate) fn axes(&self) -> Vec<u8> {
        let Some(sections) = self.sections else {
            return Vec::new();
        };
        if self.axes == RopeAxes::Interleaved {
            let axis = |pair: usize| match pair % 3 {
                axis @ 1.. if pair < 3 * sections[axis] => axis as u8,
                _ => 0,
            };
            return (0..self.dimensions / 2).map(axis).collect();
        }
        let axes = (0u8..).zip(sections);
        axes.flat_map(|(axis, pairs)| core::iter::repeat_n(axis, pairs))
            .collect()
    }
}

/// How frequencies are stretched for long contexts.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// All by one factor.
    Linear {
        /// The factor.
        factor: f32,
    },
    /// Low frequencies by a factor, high ones not at all, those between partly.
    Yarn {
        /// The factor.
        factor: f32,
        /// Rotations over the original context above which a frequency stays.
        beta_fast: f32,
        /// Rotations below which it is stretched in full.
        beta_slow: f32,
        /// Whether the pairs between are bounded by whole ones.
        range: YarnRange,
    },
}

/// The RoPE of a layer with heads of this size.
pub(super) fn rope(
    keys: &Keys<'_, '_>,
    spec: &ArchSpec,
    head_size: usize,
    context: usize,
    sliding: bool,
) -> Result<RopeConfig, LoadError> {
    let mut dimensions = keys.size("rope.dimension_count", MAX_SIZE)?;
    if sliding && let Some(own) = keys.size("rope.dimension_count_swa", MAX_SIZE)? {
        dimensions = Some(own);
    }
    let dimensions = dimensions.unwrap_or(head_size);
    if dimensions > head_size || dimensions % 2 != 0 {
        return Err(LoadError::BadValue {
            key: keys.key("rope.dimension_count"),
            value: dimensions as f64,
            needs: "even and at most the head's size",
        });
    }
    let mut base = keys.positive("rope.freq_base")?.unwrap_or(10_000.0);
    if sliding && spec.window_rope == WindowRope::Based {
        base = keys.positive("rope.freq_base_swa")?.unwrap_or(base);
    }
    // Hunyuan's stretching of the base for long contexts.
    if let Some(alpha) = keys.above_zero("rope.scaling.alpha")? {
        let exponent = dimensions as f32 / (dimensions as f32 - 2.0);
        base *= libm::powf(alpha, exponent);
    }
    let original_context = keys
        .size("rope.scaling.original_context_length", u32::MAX)?
        .unwrap_or(context);
    if sliding && let WindowRope::Unscaled { base: default } = spec.window_rope {
        return Ok(RopeConfig {
            dimensions,
            base: keys
                .positive("rope.freq_base_swa")?
                .unwrap_or(default.unwrap_or(base)),
            factors: false,
            scaling: RopeScaling::None,
            magnitude: 1.0,
            original_context,
            sections: None,
            axes: RopeAxes::One,
        });
    }
    let scaling = scaling(keys, spec.yarn_range)?;
    let stretch = match scaling {
        // Attention over a stretched context is sharpened a little (YaRN, equation 22).
        RopeScaling::Yarn { factor, .. } if factor > 1.0 => 1.0 + 0.1 * libm::logf(factor),
        _ => 1.0,
    };
    Ok(RopeConfig {
        dimensions,
        base,
        factors: true,
        scaling,
        magnitude: stretch * keys.positive("rope.scaling.attn_factor")?.unwrap_or(1.0),
        original_context,
        sections: sections(keys, spec.rope_axes, dimensions / 2)?,
        axes: spec.rope_axes,
    })
}

/// How many pairs turn by each axis.
fn sections(
    keys: &Keys<'_, '_>,
    axes: RopeAxes,
    pairs: usize,
) -> Result<Option<[usize; 3]>, LoadError> {
    let key = keys.key("rope.dimension_sections");
    let found = match axes {
        RopeAxes::One => None,
        RopeAxes::Sections | RopeAxes::Interleaved => keys.metadata.array(&key)?,
    };
    let Some(found) = found else {
        return Ok(None);
    };
    let mut sizes = found.integers().into_iter().flatten();
    let mut next = || sizes.next().and_then(|size| usize::try_from(size).ok());
    let sections = [next(), next(), next()].map(|size| size.unwrap_or(usize::MAX));
    let sum = sections
        .iter()
        .fold(0usize, |sum, size| sum.saturating_add(*size));
    if sum != pairs {
        return Err(LoadError::BadValue {
            key,
            value: sum as f64,
            needs: "three sizes that sum up to the pairs of a head",
        });
    }
    Ok(Some(sections))
}

fn scaling(keys: &Keys<'_, '_>, range: YarnRange) -> Result<RopeScaling, LoadError> {
    let factor = keys.positive("rope.scaling.factor")?;
    let kind_key = keys.key("rope.scaling.type");
    Ok(match (keys.metadata.str(&kind_key)?, factor) {
        (None | Some("none"), None) | (Some("longrope"), _) | (Some("none"), _) => {
            RopeScaling::None
        }
        (None | Some("linear"), Some(factor)) => RopeScaling::Linear { factor },
        (Some("yarn"), Some(factor)) => RopeScaling::Yarn {
            factor,
            beta_fast: keys
                .positive("rope.scaling.yarn_beta_fast")?
                .unwrap_or(32.0),
            beta_slow: keys.positive("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
            range,
        },
        (Some("linear" | "yarn"), None) => {
            return Err(LoadError::MissingKey {
                key: keys.key("rope.scaling.factor"),
            });
        }
        (Some(kind), _) => {
            return Err(LoadError::RopeScaling { kind: kind.into() });
        }
    })
}
