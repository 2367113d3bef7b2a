//! The text models of families that also see: in text, the axes of their positions are one.

use super::{qwen2, qwen3, qwen3moe};
use crate::spec::{ArchSpec, Presence, RopeAxes};

pub(super) const QWEN2VL: ArchSpec = ArchSpec {
    name: "qwen2vl",
    output_bias: Presence::IfPresent,
    rope_axes: RopeAxes::Sections,
    ..qwen2::SPEC
};

pub(super) const QWEN3VL: ArchSpec = ArchSpec {
    name: "qwen3vl",
    rope_axes: RopeAxes::Interleaved,
    ..qwen3::SPEC
};

pub(super) const QWEN3VLMOE: ArchSpec = ArchSpec {
    name: "qwen3vlmoe",
    rope_axes: RopeAxes::Interleaved,
    ..qwen3moe::SPEC
};
