//! Command R7B and A: Command-R with windows in three layers of four, which alone are rotated.

use super::command_r;
use crate::spec::{ArchSpec, Nope, QkNorm, Window};

pub(super) const SPEC: ArchSpec = ArchSpec {
    name: "cohere2",
    qk_norm: QkNorm::None,
    window: Window::AllButEvery(4),
    nope: Nope::FullLayers,
    ..command_r::SPEC
};
