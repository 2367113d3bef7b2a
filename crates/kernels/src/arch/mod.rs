//! The backends: what each instruction set does for one [`crate::lanes::Lanes`] operation.

// Not on targets without vector registers, nor where lanes lie the other way round.
#[cfg(all(
    target_arch = "aarch64",
    target_feature = "neon",
    target_endian = "little"
))]
pub(crate) mod aarch64;
// A module of WebAssembly that has vectors runs nowhere without them.
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
pub(crate) mod scalar;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
pub(crate) mod wasm32;
// Not on targets without SSE registers, as bare-metal ones are by default: there a function cannot switch them on.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
pub(crate) mod x86_64;
