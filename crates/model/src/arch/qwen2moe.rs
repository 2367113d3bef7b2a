//! Qwen2 with experts, one of which sees every token.

use super::qwen2;
use crate::spec::{ArchSpec, Experts, Presence, Routing};

pub(super) const SPEC: ArchSpec = ArchSpec {
    name: "qwen2moe",
    experts: Experts::Always(Routing {
        renormalize: false,
        shared: Presence::Always,
        ..Routing::MIXTRAL
    }),
    ..qwen2::SPEC
};
