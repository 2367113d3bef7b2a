//! Families of towers as data.

use crate::spec::{Activation, Norm, Presence};

/// How a tower knows where a patch is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum TowerPosition {
    /// A vector for each place of a square image, added to the patches.
    Learned,
    /// Heads are rotated: the first half of a head's pairs by the row, the second by the column, with the same frequencies
    /// in both halves. Pairs are (i, i + half).
    RopeHalves,
    /// The same, but frequencies alternate: rows have the even ones, columns the odd ones. Pairs are (2i, 2i + 1).
    RopeAlternating,
}

/// How patches become positions of the text.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Merge {
    /// Each is one.
    Each,
    /// Squares of patches are averaged; `clip.vision.projector.scale_factor` is a square's side, or else this.
    Mean(usize),
    /// Squares of patches lie one behind the other in a longer vector, row by row.
    Shuffle(usize),
    /// The same, with `clip.vision.spatial_merge_size` as a square's side.
    Blocks,
    /// The same where the file has `mm.patch_merger`, but the square is innermost: (channels, rows, columns).
    Unfold,
}

/// A step from merged patches to embeddings.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum ProjectorStep {
    /// A norm by the root mean square, with the tower's epsilon.
    Rms(&'static str),
    /// A norm with a weight and a bias, with this epsilon.
    Layer(&'static str, f32),
    /// A matrix, and its bias if it has one.
    Linear(&'static str),
    /// A matrix that is stored by columns.
    Transposed(&'static str),
    /// An activation.
    Activate(Activation),
}

/// A family of towers.
#[derive(Copy, Clone, Debug)]
pub struct TowerSpec {
    /// `clip.projector_type`.
    pub name: &'static str,
    /// The norms of layers.
    pub norm: Norm,
    /// How it knows where a patch is.
    pub position: TowerPosition,
    /// A vector before all patches, which takes part in attention and goes no further.
    pub class: Presence,
    /// The norm before the layers.
    pub pre_norm: Presence,
    /// The norm after them. A family that has it and does not use it takes an earlier layer's result.
    pub post_norm: Presence,
    /// What `clip.use_gelu` stands for.
    pub gelu: Activation,
    /// Whether all layers but every `clip.vision.n_wa_pattern`th see windows of `clip.vision.window_size` pixels only.
    pub windows: bool,
    /// The norm of patches before they are merged.
    pub merge_norm: Option<&'static str>,
    /// How patches become positions.
    pub merge: Merge,
    /// From those to embeddings.
    pub projector: &'static [ProjectorStep],
    /// Whether an image's positions see each other in the text model.
    pub mutual: bool,
    /// Whether the text model's positions have the image's axes.
    pub axes: bool,
}

use ProjectorStep::{Activate, Layer, Linear, Rms, Transposed};

const GELU: ProjectorStep = Activate(Activation::GeluErf);

/// LLaVA 1.5 and 1.6 (<https://arxiv.org/abs/2310.03744>): CLIP without its last layer. Files have the layers that are
/// used, and no other.
const LLAVA: TowerSpec = TowerSpec {
    name: "mlp",
    norm: Norm::LayerBias,
    position: TowerPosition::Learned,
    class: Presence::IfPresent,
    pre_norm: Presence::IfPresent,
    post_norm: Presence::Never,
    gelu: Activation::GeluErf,
    windows: false,
    merge_norm: None,
    merge: Merge::Each,
    projector: &[Linear("mm.0"), GELU, Linear("mm.2")],
    mutual: false,
    axes: false,
};

/// Gemma 3 (<https://arxiv.org/abs/2503.19786>): SigLIP, whose patches are averaged.
const GEMMA3: TowerSpec = TowerSpec {
    name: "gemma3",
    class: Presence::Never,
    pre_norm: Presence::Never,
    post_norm: Presence::Always,
    gelu: Activation::GeluTanh,
    merge: Merge::Mean(4),
    projector: &[Rms("mm.soft_emb_norm"), Transposed("mm.input_projection")],
    mutual: true,
    ..LLAVA
};

/// Idefics 3 and SmolVLM (<https://arxiv.org/abs/2408.12637>): SigLIP, whose patches are shuffled together.
const IDEFICS3: TowerSpec = TowerSpec {
    name: "idefics3",
    merge: Merge::Shuffle(2),
    projector: &[Linear("mm.model.fc")],
    mutual: false,
    ..GEMMA3
};

/// InternVL (<https://arxiv.org/abs/2404.16821>): a ViT whose branches are scaled.
const INTERNVL: TowerSpec = TowerSpec {
    name: "internvl",
    class: Presence::Always,
    pre_norm: Presence::Never,
    post_norm: Presence::IfPresent,
    merge: Merge::Shuffle(2),
    projector: &[Layer("mm.0", 1e-5), Linear("mm.1"), GELU, Linear("mm.3")],
    ..LLAVA
};

/// Qwen2-VL (<https://arxiv.org/abs/2409.12191>): rotated heads, images of any size.
const QWEN2VL: TowerSpec = TowerSpec {
    name: "qwen2vl_merger",
    position: TowerPosition::RopeHalves,
    class: Presence::Never,
    pre_norm: Presence::Never,
    post_norm: Presence::Always,
    merge: Merge::Blocks,
    axes: true,
    ..LLAVA
};

/// Qwen2.5-VL (<https://arxiv.org/abs/2502.13923>): windows in most layers.
const QWEN25VL: TowerSpec = TowerSpec {
    name: "qwen2.5vl_merger",
    norm: Norm::Rms,
    windows: true,
    ..QWEN2VL
};

/// Pixtral (<https://arxiv.org/abs/2410.07073>) and Mistral Small 3: rotated heads, images of any size.
const PIXTRAL: TowerSpec = TowerSpec {
    name: "pixtral",
    norm: Norm::Rms,
    position: TowerPosition::RopeAlternating,
    class: Presence::Never,
    pre_norm: Presence::Always,
    merge_norm: Some("mm.input_norm"),
    merge: Merge::Unfold,
    projector: &[Linear("mm.1"), GELU, Linear("mm.2")],
    ..LLAVA
};

/// All families.
pub(super) static ALL: &[TowerSpec] = &[
    LLAVA, GEMMA3, IDEFICS3, INTERNVL, QWEN2VL, QWEN25VL, PIXTRAL,
];

impl TowerSpec {
    /// The family of a name.
    pub(super) fn find(name: &str) -> Option<&'static Self> {
        ALL.iter().find(|spec| spec.name == name)
    }

    /// The names of all families.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ALL.iter().map(|spec| spec.name)
    }
}
