//! The machine with no operating system under the engine.
//!
//! Everything here but entry code compiles and is tested on the host: parsers read bytes, tables are built in memory,
//! drivers talk to registers through traits. What only a bare machine can do (ports, control registers, interrupts) is
//! in modules that exist for their architecture alone: [`machine`] has a folder for each, with the same names in both.
//!
//! # The program
//!
//! The bootable program is `crates/unikernel/boot`: entry code, what a C library would have supplied, and `main`. It is
//! a workspace of its own, because it is built with other flags and another profile (position-independent, no red zone,
//! frame pointers, aborting panics, its own linker script) and has a panic handler that would clash with that of std.
//! `cargo xtask unikernel` builds it; a plain `cargo build --workspace` never sees it.
//!
//! It is built for a target of Linux. `x86_64-unknown-none` is soft-float and may not use AVX2, while such a target's core
//! library is hard-float and position-independent. On x86-64 that library uses the red zone below the stack pointer; on
//! both architectures every interrupt and exception runs on a stack of its own ([`machine::interrupts`]).
//!
//! # From power-on to `main`
//!
//! 1. The firmware or the hypervisor enters by PVH ([`boot::pvh`]), as a loader of Linux on AArch64 (`boot::board`) or as
//!    an EFI application ([`boot::uefi`]); the entry code relocates the image to where it lies and makes a
//!    [`boot::BootInfo`]. On x86-64 the image then appears at an address that is drawn (`boot::placement`).
//! 2. [`machine::Machine::start`] brings up the tables of exceptions, page tables (nothing both writable and executable,
//!    page zero and the pages under stacks unmapped), the heap, time, the other processors.
//! 3. The program runs on the boot processor; the others wait for work ([`machine::workers`]).
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod attest;
pub mod boot;
pub mod console;
pub mod drivers;
pub mod machine;
#[cfg(feature = "engine")]
pub mod model;
#[cfg(feature = "engine")]
pub mod network;
#[cfg(feature = "engine")]
pub mod prompt;
#[cfg(feature = "engine")]
pub mod serve;
#[cfg(all(
    feature = "engine",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
pub mod shell;
pub mod storage;
