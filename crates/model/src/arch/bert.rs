//! BERT, RoBERTa and XLM-RoBERTa: learned positions, norms after the branches, a plain GELU network.

use crate::spec::{
    Activation, ArchSpec, Experts, Ffn, Fusion, Norm, Position, Presence, Role, Window,
};

pub(super) const SPEC: ArchSpec = ArchSpec {
    name: "bert",
    role: Role::Encoder,
    norm: Norm::LayerBias,
    embd_norm: Presence::Always,
    attn_norm: Presence::Never,
    ffn_norm: Presence::Never,
    qkv: Fusion::AsFound,
    position: Position::Learned,
    window: Window::Never,
    ffn: Ffn::Plain,
    activation: Activation::GeluErf,
    experts: Experts::Never,
    ..ArchSpec::LLAMA
};
