//! Towers: from an image's pixels to embeddings that a language model reads in place of tokens.
//!
//! A tower is a vision transformer (<https://arxiv.org/abs/2010.11929>) and a projector, in a GGUF file of its own
//! (`general.architecture` is `clip`, and `clip.projector_type` names the family). A family is a [`TowerSpec`]; sizes
//! and scales come from the file. Attention and matrices are those of the text encoders, and the numerics contract
//! holds: the same pixels give the same bits on any number of workers and any instruction set.

mod clamped;
mod config;
mod deepstack;
mod families;
mod joined;
mod layers;
mod pass;
mod patches;
mod places;
mod projector;
mod resampler;
mod spec;
mod weights;

pub use config::TowerConfig;
pub use joined::Tiling;
pub use pass::TowerPatches;
pub use spec::{
    ClassPlace, Colors, HeadNorm, Merge, Mutual, PlaceTable, ProjectorStep, TowerRope, TowerSpec,
};
pub use weights::Tower;

use crate::embedded::Grid;
use alloc::vec::Vec;

/// An image, or a tile of one, as a tower reads it.
#[derive(Copy, Clone, Debug)]
pub struct TowerImage<'a> {
    /// (3, height, width): red, green and blue, normalized.
    pub pixels: &'a [f32],
    /// In pixels.
    pub height: usize,
    /// In pixels.
    pub width: usize,
}

/// What a tower makes of an image.
#[derive(Clone, Debug, PartialEq)]
pub struct TowerRows {
    /// (positions, width of the text model), or (positions, 1 + layers, width of the text model) where the text model's first
    /// layers are given something too.
    pub rows: Vec<f32>,
    /// How the positions lie in the image; learned queries stand in one row.
    pub grid: Grid,
}

/// Why an image cannot be embedded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum TowerError {
    #[error("an image of {width}×{height} pixels is not made of whole patches of {patch}")]
    Patches {
        width: usize,
        height: usize,
        patch: usize,
    },
    #[error(
        "an image of {width}×{height} pixels does not fit the tower, which reads {size}×{size}"
    )]
    Size {
        width: usize,
        height: usize,
        size: usize,
    },
    #[error("an image of {width}×{height} pixels has more than {side} patches on a side")]
    Side {
        width: usize,
        height: usize,
        side: usize,
    },
    #[error("the image has {found} numbers; {expected} are three for each pixel")]
    Pixels { found: usize, expected: usize },
    #[error(
        "the image has {found} tiles; {expected} alike are those of its grid and the whole image"
    )]
    Tiles { found: usize, expected: usize },
}
