//! AArch64: 128-bit registers, with and without the dot-product instructions.

pub(crate) mod id_registers;
pub(crate) mod neon;

/// Marks a backend that multiplies bytes with `smlal`, in 16-bit sums.
#[derive(Copy, Clone)]
pub(crate) struct Widen;

/// Marks a backend that multiplies bytes with `sdot`.
#[derive(Copy, Clone)]
pub(crate) struct Sdot;
