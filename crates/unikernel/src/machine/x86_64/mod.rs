//! PCs and virtual machines with x86-64 processors.

pub mod acpi;
pub mod calendar;
pub mod descriptors;
pub mod features;
pub mod frequency;
pub mod paging;

#[cfg(target_arch = "x86_64")]
pub mod cpu;
#[cfg(target_arch = "x86_64")]
pub mod interrupts;
#[cfg(target_arch = "x86_64")]
mod io_apic;
#[cfg(target_arch = "x86_64")]
pub mod local_apic;
#[cfg(target_arch = "x86_64")]
pub(crate) mod platform;
#[cfg(target_arch = "x86_64")]
pub mod power;
#[cfg(target_arch = "x86_64")]
pub mod processors;
#[cfg(target_arch = "x86_64")]
pub mod serial_port;

#[cfg(target_arch = "x86_64")]
pub use local_apic as interrupt_controller;
