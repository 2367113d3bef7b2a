//! Qwen2: llama with biases on queries, keys and values.

use crate::spec::{ArchSpec, Experts, Position, Presence};

pub(super) const SPEC: ArchSpec = ArchSpec {
    name: "qwen2",
    qkv_bias: Presence::Always,
    attn_output_bias: Presence::Never,
    ffn_bias: Presence::Never,
    position: Position::RopeHalfSplit,
    experts: Experts::Never,
    ..ArchSpec::LLAMA
};
