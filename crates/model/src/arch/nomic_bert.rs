//! Nomic BERT: BERT with rotary positions and a network gated by SiLU.

use super::bert;
use crate::spec::{Activation, ArchSpec, Ffn, Fusion, Position};

pub(super) const SPEC: ArchSpec = ArchSpec {
    name: "nomic-bert",
    position: Position::RopeHalfSplit,
    ffn: Ffn::Gated(Fusion::Separate),
    activation: Activation::Silu,
    ..bert::SPEC
};
