//! OLMo 2: norms only after the branches, and on queries and keys as whole vectors. OLMo 3 is the same with windows in
//! three of four layers, whose RoPE is not scaled.

use crate::spec::{ArchSpec, Experts, Position, Presence, QkNorm, Window, WindowRope};

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
    window: Window::AllButEvery(4),
    window_rope: WindowRope::Unscaled { base: None },
    experts: Experts::Never,
    ..ArchSpec::LLAMA
};
