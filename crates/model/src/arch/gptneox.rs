//! GPT-NeoX and Pythia: GPT-2 with partial rotary positions and, mostly, parallel branches.

use super::gpt2;
use crate::spec::{Activation, ArchSpec, Position, Residual};

pub(super) const SPEC: ArchSpec = ArchSpec {
    name: "gptneox",
    residual: Residual::Metadata,
    position: Position::RopeHalfSplit,
    activation: Activation::GeluErf,
    ..gpt2::SPEC
};
