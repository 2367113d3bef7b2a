//! Phi-3: llama with fused projections.

use crate::spec::{ArchSpec, Experts, Ffn, Fusion, Position, Presence};

pub(super) const SPEC: ArchSpec = ArchSpec {
    name: "phi3",
    qkv: Fusion::Fused,
    qkv_bias: Presence::Never,
    attn_output_bias: Presence::Never,
    ffn: Ffn::Gated(Fusion::Fused),
    ffn_bias: Presence::Never,
    position: Position::RopeHalfSplit,
    experts: Experts::Never,
    ..ArchSpec::LLAMA
};
