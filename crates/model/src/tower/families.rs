//! The families of towers.

use super::spec::{
    ClassPlace, Colors, HeadNorm, Merge, Mutual, PlaceTable, ProjectorStep, TowerRope, TowerSpec,
};
use crate::spec::{Activation, Norm, Presence};
use ProjectorStep::{Activate, Layer, Linear, PlainRms, Rms, Transposed};

const GELU: ProjectorStep = Activate(Activation::GeluErf);

/// LLaVA 1.5 and 1.6 (<https://arxiv.org/abs/2310.03744>): CLIP without its last layer. Files have the layers that are
/// used, and no other.
const LLAVA: TowerSpec = TowerSpec {
    name: "mlp",
    norm: Norm::LayerBias,
    colors: Colors::AsRead,
    table: PlaceTable::Square,
    rope: TowerRope::None,
    rope_base: 10_000.0,
    class: Presence::IfPresent,
    class_place: ClassPlace::First,
    pre_norm: Presence::IfPresent,
    post_norm: Presence::Never,
    head_norm: HeadNorm::None,
    branch_norm: Presence::Never,
    gelu: Activation::GeluErf,
    activation: Activation::GeluQuick,
    windows: false,
    merge_norm: None,
    merge: Merge::Each,
    projector: &[Linear("mm.0"), GELU, Linear("mm.2")],
    mutual: Mutual::Never,
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
    mutual: Mutual::Always,
    ..LLAVA
};

/// Gemma 4: a tower much like the text model, for images of any size.
const GEMMA4: TowerSpec = TowerSpec {
    name: "gemma4v",
    norm: Norm::Rms,
    colors: Colors::Centered,
    table: PlaceTable::Axes,
    rope: TowerRope::Quarters,
    rope_base: 100.0,
    class: Presence::Never,
    pre_norm: Presence::Never,
    head_norm: HeadNorm::All,
    branch_norm: Presence::Always,
    gelu: Activation::GeluTanh,
    activation: Activation::GeluTanh,
    merge: Merge::RootMean(3),
    projector: &[PlainRms, Linear("mm.input_projection")],
    mutual: Mutual::WithoutLayerInputs,
    ..LLAVA
};

/// Idefics 3 and SmolVLM (<https://arxiv.org/abs/2408.12637>): SigLIP, whose patches are shuffled together.
const IDEFICS3: TowerSpec = TowerSpec {
    name: "idefics3",
    merge: Merge::Shuffle(2),
    projector: &[Linear("mm.model.fc")],
    mutual: Mutual::Never,
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
    table: PlaceTable::None,
    rope: TowerRope::Halves,
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

/// Qwen3-VL (<https://arxiv.org/abs/2511.21631>) and Qwen3.5: places from a table too, and results of layers in between that
/// go into the text model's first layers (`v.deepstack.N`).
const QWEN3VL: TowerSpec = TowerSpec {
    name: "qwen3vl_merger",
    table: PlaceTable::Stretched,
    gelu: Activation::GeluTanh,
    ..QWEN2VL
};

/// Pixtral (<https://arxiv.org/abs/2410.07073>) and Mistral Small 3: rotated heads, images of any size.
const PIXTRAL: TowerSpec = TowerSpec {
    name: "pixtral",
    norm: Norm::Rms,
    table: PlaceTable::None,
    rope: TowerRope::Alternating,
    class: Presence::Never,
    pre_norm: Presence::Always,
    merge_norm: Some("mm.input_norm"),
    merge: Merge::Unfold,
    projector: &[Linear("mm.1"), GELU, Linear("mm.2")],
    ..LLAVA
};

/// Llama 4: rotated heads beside a table, patches shuffled together.
const LLAMA4: TowerSpec = TowerSpec {
    name: "llama4",
    rope: TowerRope::FromOne,
    class: Presence::Always,
    class_place: ClassPlace::Last,
    pre_norm: Presence::Always,
    post_norm: Presence::Always,
    merge: Merge::Shuffle(2),
    projector: &[
        Linear("mm.model.mlp.1"),
        GELU,
        Linear("mm.model.mlp.2"),
        GELU,
        Linear("mm.model.fc"),
    ],
    ..LLAVA
};

/// MiniCPM-V (<https://arxiv.org/abs/2408.01800>): SigLIP for images of any size, and queries that attend to it.
const MINICPMV: TowerSpec = TowerSpec {
    name: "resampler",
    table: PlaceTable::Nearest,
    class: Presence::Never,
    pre_norm: Presence::Never,
    post_norm: Presence::Always,
    gelu: Activation::GeluTanh,
    merge: Merge::Queries,
    projector: &[],
    ..LLAVA
};

/// All families.
pub(super) static ALL: &[TowerSpec] = &[
    LLAVA, GEMMA3, GEMMA4, IDEFICS3, INTERNVL, QWEN2VL, QWEN25VL, QWEN3VL, PIXTRAL, LLAMA4,
    MINICPMV,
];
