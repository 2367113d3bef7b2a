//! Command R7B and A: Command-R with windows in three layers of four, which alone are rotated.

use super::command_r;
use crate::spec::{
    ArchSpec, ExpertGate, Experts, Nope, Norm, Presence, QkNorm, Routing, SharedJoin, Variant,
    Window, WindowRope,
};

pub(super) const SPEC: ArchSpec = ArchSpec {
    name: "cohere2",
    qk_norm: QkNorm::None,
    window: Window::AllButEvery(4),
    nope: Nope::FullLayers,
    ..command_r::SPEC
};

/// The same with experts, and the mean of what they and the shared one find; the leading dense layers are rotated too.
pub(super) const MOE: ArchSpec = ArchSpec {
    variant: Some(Variant::RmsNorms(&MOE_RMS)),
    norm: SPEC.norm,
    ..MOE_RMS
};

const MOE_RMS: ArchSpec = ArchSpec {
    name: "cohere2moe",
    norm: Norm::Rms,
    nope: Nope::FullLayersWithExperts,
    window_rope: WindowRope::Based,
    experts: Experts::Always(Routing {
        gate: ExpertGate::Sigmoid,
        renormalize: false,
        shared: Presence::IfPresent,
        join: SharedJoin::Mean,
        ..Routing::MIXTRAL
    }),
    ..SPEC
};
