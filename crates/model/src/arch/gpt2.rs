//! GPT-2: learned positions, layer norms, biases everywhere.

use crate::spec::{Activation, ArchSpec, Experts, Ffn, Fusion, Norm, Position, Presence, Window};

pub(super) const SPEC: ArchSpec = ArchSpec {
    name: "gpt2",
    norm: Norm::LayerBias,
    qkv: Fusion::Fused,
    qkv_bias: Presence::Always,
    attn_output_bias: Presence::Always,
    position: Position::Learned,
    window: Window::Never,
    ffn: Ffn::Plain,
    ffn_bias: Presence::Always,
    activation: Activation::GeluTanh,
    experts: Experts::Never,
    ..ArchSpec::LLAMA
};
