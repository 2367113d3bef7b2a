//! Gemma: scaled embeddings and a GELU gate. The ones that its norms add to their weights are in the file.

use crate::spec::{Activation, ArchSpec, Experts, Position, Presence, Scale};

pub(super) const SPEC: ArchSpec = ArchSpec {
    name: "gemma",
    qkv_bias: Presence::Never,
    attn_output_bias: Presence::Never,
    ffn_bias: Presence::Never,
    position: Position::RopeHalfSplit,
    activation: Activation::GeluTanh,
    experts: Experts::Never,
    embedding_scale: Scale::SqrtWidth,
    ..ArchSpec::LLAMA
};
