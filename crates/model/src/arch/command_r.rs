//! Command-R: parallel branches over one layer norm without bias; the 104B has head norms.

use crate::spec::{ArchSpec, Experts, Norm, Presence, QkNorm, Residual, Scale, Window};

pub(super) const SPEC: ArchSpec = ArchSpec {
    name: "command-r",
    norm: Norm::Layer,
    ffn_norm: Presence::Never,
    residual: Residual::Parallel,
    qk_norm: QkNorm::PerHeadOwnIfPresent,
    qkv_bias: Presence::IfPresent,
    ffn_bias: Presence::Never,
    window: Window::Never,
    experts: Experts::Never,
    logit_scale: Scale::Multiply,
    ..ArchSpec::LLAMA
};
