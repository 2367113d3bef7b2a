//! T5 (<https://arxiv.org/abs/1910.10683>): an encoder reads a source, and a decoder writes what it makes of it. Positions
//! are buckets of distances, scores are not scaled, and nothing has a bias.

use crate::spec::{
    Activation, ArchSpec, AttnScale, Experts, Ffn, Position, Presence, Role, Scale, Window,
};

/// The decoder, and the encoder that it reads with.
pub(super) const T5: ArchSpec = ArchSpec {
    name: "t5",
    role: Role::Decoder,
    part: "dec.",
    source: Some(&ENCODER),
    logit_scale: Scale::OverSqrtWidthIfTied,
    ..ENCODER
};

/// The encoder alone, which embeds texts.
pub(super) const T5ENCODER: ArchSpec = ArchSpec {
    name: "t5encoder",
    ..ENCODER
};

const ENCODER: ArchSpec = ArchSpec {
    name: "t5",
    role: Role::Encoder,
    part: "enc.",
    qkv_bias: Presence::Never,
    attn_output_bias: Presence::Never,
    position: Position::Buckets,
    window: Window::Never,
    attn_scale: AttnScale::One,
    ffn: Ffn::GatedOrRelu,
    ffn_bias: Presence::Never,
    activation: Activation::GeluTanh,
    experts: Experts::Never,
    residual_scale: Scale::One,
    ..ArchSpec::LLAMA
};
