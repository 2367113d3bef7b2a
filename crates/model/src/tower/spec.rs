//! Families of towers as data.

use crate::spec::{Activation, Norm, Presence};

/// What is added to a patch's vector for its place (`v.position_embd`).
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum PlaceTable {
    /// Nothing.
    None,
    /// A vector for each place of a square image. Images are of that size.
    Square,
    /// The same, but the square is stretched to the image: linearly between vectors, corners on corners.
    Stretched,
    /// The same, but each place takes one vector, the one that lies before it.
    Nearest,
    /// A vector for each column, and one for each row.
    Axes,
}

/// How heads are rotated. Half of a head's pairs turn by the row and half by the column, with the same frequencies in both
/// halves unless something else is said.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum TowerRope {
    /// Not at all.
    None,
    /// Rows come first. Pairs are (i, i + half).
    Halves,
    /// The same, but frequencies alternate: rows have the even ones, columns the odd ones. Pairs are (2i, 2i + 1).
    Alternating,
    /// Columns come first, and both count from 1. Pairs are (2i, 2i + 1).
    FromOne,
    /// Columns come first, and each half of a head is rotated for itself: pairs are (i, i + quarter).
    Quarters,
}

/// What the file's mean and deviation make of colors.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Colors {
    /// What the tower reads.
    AsRead,
    /// Numbers between 0 and 1, which the tower brings to -1 and 1.
    Centered,
}

/// Where the class stands in the table of places.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ClassPlace {
    /// Before all patches.
    First,
    /// Behind them.
    Last,
}

/// What is done to a head's queries, keys and values before they are rotated.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum HeadNorm {
    /// Nothing. Scores are divided by the root of a head's size.
    None,
    /// Queries and keys are normed by `attn_q_norm` and `attn_k_norm`, values without weights. Scores stay as they are.
    All,
}

/// How patches become positions of the text.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Merge {
    /// Each is one.
    Each,
    /// Squares of patches are averaged; `clip.vision.projector.scale_factor` is a square's side, or else this.
    Mean(usize),
    /// The same, times the root of the width; then what `v.std_bias` says is taken away, and the rest multiplied by
    /// `v.std_scale`.
    RootMean(usize),
    /// Squares of patches lie one behind the other in a longer vector, row by row.
    Shuffle(usize),
    /// The same, with `clip.vision.spatial_merge_size` as a square's side.
    Blocks,
    /// The same where the file has `mm.patch_merger`, but the square is innermost: (channels, rows, columns).
    Unfold,
    /// Learned queries attend to them: there are as many positions for each image.
    Queries,
}

/// A step from merged patches to embeddings.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum ProjectorStep {
    /// A norm by the root mean square, with the tower's epsilon.
    Rms(&'static str),
    /// The same without weights.
    PlainRms,
    /// A norm with a weight and a bias, with this epsilon.
    Layer(&'static str, f32),
    /// A matrix, and its bias if it has one.
    Linear(&'static str),
    /// A matrix that is stored by columns.
    Transposed(&'static str),
    /// An activation.
    Activate(Activation),
}

/// Whether an image's positions see each other in the text model, also those that come later.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Mutual {
    /// They do not.
    Never,
    /// They do.
    Always,
    /// They do in text models that have no embeddings for layers: Gemma 4's small ones have them.
    WithoutLayerInputs,
}

/// A family of towers.
#[derive(Copy, Clone, Debug)]
pub struct TowerSpec {
    /// `clip.projector_type`.
    pub name: &'static str,
    /// The norms of layers.
    pub norm: Norm,
    /// What colors are before they are read.
    pub colors: Colors,
    /// What tells a patch its place.
    pub table: PlaceTable,
    /// What else does.
    pub rope: TowerRope,
    /// The base of rotations.
    pub rope_base: f32,
    /// A vector which takes part in attention and goes no further.
    pub class: Presence,
    /// Where it stands in the table of places.
    pub class_place: ClassPlace,
    /// The norm before the layers.
    pub pre_norm: Presence,
    /// The norm after them. A family that has it and does not use it takes an earlier layer's result.
    pub post_norm: Presence,
    /// Norms of heads.
    pub head_norm: HeadNorm,
    /// The norm of each branch's result.
    pub branch_norm: Presence,
    /// What `clip.use_gelu` stands for.
    pub gelu: Activation,
    /// The activation where the file has neither that nor `clip.use_silu`.
    pub activation: Activation,
    /// Whether all layers but every `clip.vision.n_wa_pattern`th see windows of `clip.vision.window_size` pixels only.
    pub windows: bool,
    /// The norm of patches before they are merged.
    pub merge_norm: Option<&'static str>,
    /// How patches become positions.
    pub merge: Merge,
    /// From those to embeddings.
    pub projector: &'static [ProjectorStep],
    /// Whether an image's positions see each other in the text model.
    pub mutual: Mutual,
    /// Whether the text model's positions have the image's axes.
    pub axes: bool,
}

impl TowerSpec {
    /// The family of a name.
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        super::families::ALL.iter().find(|spec| spec.name == name)
    }

    /// The names of all families.
    pub fn names() -> impl Iterator<Item = &'static str> {
        super::families::ALL.iter().map(|spec| spec.name)
    }
}
