//! x86-64: 256-bit and 512-bit registers, each with and without the dot-product instructions.

pub(crate) mod cpuid;
pub(crate) mod ymm;
pub(crate) mod zmm;

/// Marks a backend that multiplies bytes with `vpmaddubsw`, in pairs of 16-bit sums.
#[derive(Copy, Clone)]
pub(crate) struct Maddubs;

/// Marks a backend that multiplies bytes with `vpdpbusd`.
#[derive(Copy, Clone)]
pub(crate) struct Vnni;
