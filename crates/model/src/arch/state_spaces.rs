//! Families whose layers have states: Mamba, Mamba 2, the gated delta rule, alone or with attention.

use super::llama_like::{DENSE, HALF_SPLIT};
use super::{gemma, granite, qwen2moe};
use crate::spec::{
    Activation, ArchSpec, AttnGate, Branches, ExpertGate, Experts, Ffn, Nextn, Nope, NormNames,
    Position, Presence, QkNorm, Recurrence, RecurrentLayers, Residual, RopeAxes, Routing, Scale,
    SharedKeys,
};

pub(super) const MAMBA: ArchSpec = ArchSpec {
    name: "mamba",
    branches: Branches::MixerAlone,
    recurrence: Recurrence::Mamba,
    recurrent_layers: RecurrentLayers::All,
    ..DENSE
};

pub(super) const MAMBA2: ArchSpec = ArchSpec {
    name: "mamba2",
    recurrence: Recurrence::Mamba2,
    ..MAMBA
};

/// Jamba: Mamba and attention without positions, dense networks and experts.
pub(super) const JAMBA: ArchSpec = ArchSpec {
    name: "jamba",
    recurrence: Recurrence::Mamba,
    position: Position::None,
    qkv_bias: Presence::Never,
    attn_output_bias: Presence::Never,
    ffn_bias: Presence::Never,
    experts: Experts::IfCounted(Routing {
        renormalize: false,
        ..Routing::MIXTRAL
    }),
    ..DENSE
};

/// Granite 4: Mamba 2 and attention, which is rotated in some models.
pub(super) const GRANITEHYBRID: ArchSpec = ArchSpec {
    name: "granitehybrid",
    recurrence: Recurrence::Mamba2,
    nope: Nope::UnlessFinetuned,
    experts: Experts::IfCounted(Routing {
        shared: Presence::IfPresent,
        ..Routing::MIXTRAL
    }),
    ..granite::SPEC
};

/// Falcon-H1: Mamba 2 and attention side by side in each layer.
pub(super) const FALCON_H1: ArchSpec = ArchSpec {
    name: "falcon-h1",
    recurrence: Recurrence::Mamba2,
    recurrent_layers: RecurrentLayers::BesideAttention,
    ..HALF_SPLIT
};

/// Nemotron-H: each layer is Mamba 2, attention without positions, or a network.
pub(super) const NEMOTRON_H: ArchSpec = ArchSpec {
    name: "nemotron_h",
    branches: Branches::One,
    recurrence: Recurrence::Mamba2,
    position: Position::None,
    ffn: Ffn::Plain,
    activation: Activation::ReluSquared,
    ..DENSE
};

/// Nemotron 3: experts without gates.
pub(super) const NEMOTRON_H_MOE: ArchSpec = ArchSpec {
    name: "nemotron_h_moe",
    experts: Experts::IfCounted(Routing {
        gate: ExpertGate::Sigmoid,
        renormalize: true,
        shared: Presence::IfPresent,
        ..Routing::MIXTRAL
    }),
    ..NEMOTRON_H
};

/// Qwen3-Next: the gated delta rule in three layers of four, gated attention in the fourth.
pub(super) const QWEN3NEXT: ArchSpec = ArchSpec {
    name: "qwen3next",
    norm_names: NormNames {
        ffn: "post_attention_norm",
        ..ArchSpec::LLAMA.norm_names
    },
    recurrence: Recurrence::DeltaNet(SharedKeys::Neighbours),
    recurrent_layers: RecurrentLayers::AllButEvery(4),
    qk_norm: QkNorm::PerHead,
    qkv_bias: Presence::Never,
    attn_output_bias: Presence::Never,
    attn_gate: AttnGate::WithQueries,
    experts: Experts::Always(Routing {
        shared: Presence::Always,
        ..Routing::MIXTRAL
    }),
    nextn: Nextn::Normed,
    ..qwen2moe::SPEC
};

/// Qwen3.5 with experts: value heads share keys in another order. Axes of positions are one in text.
pub(super) const QWEN35MOE: ArchSpec = ArchSpec {
    name: "qwen35moe",
    rope_axes: RopeAxes::Interleaved,
    recurrence: Recurrence::DeltaNet(SharedKeys::Striding),
    ..QWEN3NEXT
};

/// Qwen3.5, dense.
pub(super) const QWEN35: ArchSpec = ArchSpec {
    name: "qwen35",
    experts: Experts::Never,
    ..QWEN35MOE
};

/// RecurrentGemma, whose name is ours: linear recurrent units, and attention over windows in every third layer.
pub(super) const RECURRENT_GEMMA: ArchSpec = ArchSpec {
    name: "recurrent-gemma",
    recurrence: Recurrence::RgLru,
    attn_output_bias: Presence::Always,
    ffn_bias: Presence::Always,
    embedding_scale: Scale::Multiply,
    ..gemma::SPEC
};

/// MiniMax-01: lightning attention in seven layers of eight, attention in the eighth; experts.
pub(super) const MINIMAX_01: ArchSpec = ArchSpec {
    name: "minimax-01",
    residual: Residual::Normed,
    residual_scale: Scale::One,
    recurrence: Recurrence::Lightning,
    recurrent_layers: RecurrentLayers::AllButEvery(8),
    qkv_bias: Presence::Never,
    attn_output_bias: Presence::Never,
    experts: Experts::Always(Routing::MIXTRAL),
    ..HALF_SPLIT
};
