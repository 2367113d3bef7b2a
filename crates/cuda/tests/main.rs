//! The GPU's executor against the processors', bit for bit: its kernels emulated on a CPU.

#[cfg(unix)]
#[path = "../../gpu/tests/compare.rs"]
mod compare;
#[cfg(unix)]
mod emulation;
#[cfg(unix)]
mod forward;
#[cfg(unix)]
#[path = "../../gpu/tests/lent.rs"]
mod lent;
#[cfg(unix)]
mod sources;
#[cfg(unix)]
#[path = "../../gpu/tests/split.rs"]
mod split;
