//! Families with layer norms and, mostly, plain networks.

use super::gpt2;
use super::llama_like::{DENSE, HALF_SPLIT};
use crate::spec::{
    Activation, ArchSpec, AttnScale, Ffn, Fusion, Norm, Position, Presence, QkNorm, Residual,
};

/// StarCoder: GPT-2 with one key head.
pub(super) const STARCODER: ArchSpec = ArchSpec {
    name: "starcoder",
    ..gpt2::SPEC
};

/// OPT: ReLU. Its first two learned positions stand for nothing, and conversion leaves them out.
pub(super) const OPT: ArchSpec = ArchSpec {
    name: "opt",
    qkv: Fusion::Separate,
    activation: Activation::Relu,
    ..gpt2::SPEC
};

/// CodeShell: GPT-2 with rotary positions.
pub(super) const CODESHELL: ArchSpec = ArchSpec {
    name: "codeshell",
    qkv: Fusion::AsFound,
    position: Position::RopeHalfSplit,
    ..gpt2::SPEC
};

/// BLOOM: ALiBi, and a norm of the embedding.
pub(super) const BLOOM: ArchSpec = ArchSpec {
    name: "bloom",
    embd_norm: Presence::Always,
    position: Position::Alibi,
    ..gpt2::SPEC
};

/// MPT: ALiBi or learned positions, biases in some models, clamped queries, keys and values in others.
pub(super) const MPT: ArchSpec = ArchSpec {
    name: "mpt",
    norm: Norm::LayerBiasIfPresent,
    qk_norm: QkNorm::WholeIfPresent,
    qkv_bias: Presence::IfPresent,
    attn_output_bias: Presence::IfPresent,
    position: Position::AlibiOrLearned,
    ffn_bias: Presence::IfPresent,
    activation: Activation::GeluErf,
    ..gpt2::SPEC
};

/// Phi-1, 1.5 and 2: both branches see one norm; part of each head is rotated.
pub(super) const PHI2: ArchSpec = ArchSpec {
    name: "phi2",
    ffn_norm: Presence::Never,
    residual: Residual::Parallel,
    qkv: Fusion::AsFound,
    position: Position::RopeHalfSplit,
    output_bias: Presence::Always,
    ..gpt2::SPEC
};

/// GPT-J: Phi-2 with pairs of neighbours rotated, and no biases in attention.
pub(super) const GPTJ: ArchSpec = ArchSpec {
    name: "gptj",
    qkv: Fusion::Separate,
    qkv_bias: Presence::Never,
    attn_output_bias: Presence::Never,
    position: Position::RopeInterleaved,
    ..PHI2
};

/// Jais: ALiBi, a gated network, scores divided by the head's size.
pub(super) const JAIS: ArchSpec = ArchSpec {
    name: "jais",
    norm: Norm::LayerBias,
    qkv: Fusion::Fused,
    position: Position::Alibi,
    attn_scale: AttnScale::OverHeadSize,
    ..DENSE
};

/// Jais 2: ReLU², rotary positions.
pub(super) const JAIS2: ArchSpec = ArchSpec {
    name: "jais2",
    norm: Norm::LayerBias,
    ffn: Ffn::Plain,
    activation: Activation::ReluSquared,
    ..HALF_SPLIT
};

/// Nemotron: the same; the ones that its norms add to their weights are in the file.
pub(super) const NEMOTRON: ArchSpec = ArchSpec {
    name: "nemotron",
    ..JAIS2
};
