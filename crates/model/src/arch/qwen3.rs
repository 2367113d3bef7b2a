//! Qwen3: Qwen2 with a norm on each query and key head in place of the biases.

use super::qwen2;
use crate::spec::{ArchSpec, Presence, QkNorm};

pub(super) const SPEC: ArchSpec = ArchSpec {
    name: "qwen3",
    qk_norm: QkNorm::PerHead,
    qkv_bias: Presence::Never,
    ..qwen2::SPEC
};
