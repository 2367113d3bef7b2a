//! Falcon: parallel branches over one norm (7B) or two (40B), no biases but the norms'.

use crate::spec::{
    Activation, ArchSpec, Experts, Ffn, Fusion, Norm, Position, Presence, Residual, Window,
};

pub(super) const SPEC: ArchSpec = ArchSpec {
    name: "falcon",
    norm: Norm::LayerBias,
    attn_norm_2: Presence::IfPresent,
    ffn_norm: Presence::Never,
    residual: Residual::Parallel,
    qkv: Fusion::Fused,
    qkv_bias: Presence::Never,
    attn_output_bias: Presence::Never,
    position: Position::RopeHalfSplit,
    window: Window::Never,
    ffn: Ffn::Plain,
    ffn_bias: Presence::Never,
    activation: Activation::GeluErf,
    experts: Experts::Never,
    ..ArchSpec::LLAMA
};
