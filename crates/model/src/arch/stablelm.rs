//! StableLM: layer norms, partial rotary positions; the 12B has head norms and parallel branches.

use crate::spec::{ArchSpec, Experts, Norm, Position, Presence, QkNorm, Residual, Window};

pub(super) const SPEC: ArchSpec = ArchSpec {
    name: "stablelm",
    norm: Norm::LayerBias,
    ffn_norm: Presence::IfPresent,
    residual: Residual::ParallelWithoutFfnNorm,
    qk_norm: QkNorm::PerHeadOwnIfPresent,
    attn_output_bias: Presence::Never,
    position: Position::RopeHalfSplit,
    window: Window::Never,
    ffn_bias: Presence::Never,
    experts: Experts::Never,
    ..ArchSpec::LLAMA
};
