//! The backends: what each instruction set does for one [`crate::lanes::Lanes`] operation.

pub(crate) mod scalar;
// Not on targets without SSE registers, as bare-metal ones are by default: there a function cannot switch them on.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
pub(crate) mod x86_64;
