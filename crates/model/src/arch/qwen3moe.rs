//! Qwen3 with experts.

use super::qwen3;
use crate::spec::{ArchSpec, Experts, Routing};

pub(super) const SPEC: ArchSpec = ArchSpec {
    name: "qwen3moe",
    experts: Experts::Always(Routing::MIXTRAL),
    ..qwen3::SPEC
};
