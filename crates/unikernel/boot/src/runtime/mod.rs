//! What a C library and an unwinder would have supplied: moving memory, and names that the linker asks for.
//!
//! In assembly, so that the compiler cannot turn a loop into a call of itself.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;
