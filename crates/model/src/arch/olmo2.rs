//! OLMo 2: norms only after the branches, and on queries and keys as whole vectors.

use crate::spec::{ArchSpec, Experts, Position, Presence, QkNorm};

pub(super) const SPEC: ArchSpec = ArchSpec {
    name: "olmo2",
    attn_norm: Presence::Never,
    post_attn_norm: Presence::Always,
    ffn_norm: Presence::Never,
    post_ffn_norm: Presence::Always,
    qk_norm: QkNorm::Whole,
    qkv_bias: Presence::Never,
    attn_output_bias: Presence::Never,
    ffn_bias: Presence::Never,
    position: Position::RopeHalfSplit,
    experts: Experts::Never,
    ..ArchSpec::LLAMA
};
