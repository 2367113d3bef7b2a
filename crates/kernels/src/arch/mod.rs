//! The backends: what each instruction set does for one [`crate::lanes::Lanes`] operation.

pub(crate) mod scalar;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86_64;
