//! The machine: processors, memory, time, power.
//!
//! What differs between architectures is in a folder for each, in files with the same names and types; the modules of
//! the one that is compiled for are this one's. What needs no privileged instruction is tested on every host.

#[cfg(any(target_arch = "aarch64", test))]
pub mod aarch64;
pub mod backtrace;
pub mod entropy;
pub mod heap;
pub mod last_words;
pub mod lock;
pub mod page_table;
pub mod time;
pub mod watchdog;
pub mod workers;
#[cfg(any(target_arch = "x86_64", test))]
pub mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64 as arch;
#[cfg(target_arch = "x86_64")]
use x86_64 as arch;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub use arch::{
    calendar, cpu, features, interrupt_controller, interrupts, power, processors, serial_port,
};
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use arch::{frequency, paging, platform};

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub mod address_space;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub mod crash;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod start;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub mod window;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub use start::Machine;

/// Whether a machine with PCI can have virtio devices that no bus tells of.
pub const VIRTIO_BESIDE_PCI: bool = cfg!(target_arch = "aarch64");

#[cfg(target_arch = "aarch64")]
pub use aarch64::paging::activate_first as first_translation;
