//! StarCoder2: layer norms, biases everywhere, a plain GELU network.

use crate::spec::{Activation, ArchSpec, Experts, Ffn, Norm, Position, Presence};

pub(super) const SPEC: ArchSpec = ArchSpec {
    name: "starcoder2",
    norm: Norm::LayerBias,
    qkv_bias: Presence::Always,
    attn_output_bias: Presence::Always,
    position: Position::RopeHalfSplit,
    ffn: Ffn::Plain,
    ffn_bias: Presence::Always,
    activation: Activation::GeluTanh,
    experts: Experts::Never,
    ..ArchSpec::LLAMA
};
