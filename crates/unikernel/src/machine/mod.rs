//! The machine: processors, memory, time, power.

pub mod acpi;
pub mod backtrace;
pub mod calendar;
pub mod descriptors;
pub mod entropy;
pub mod features;
pub mod heap;
pub mod last_words;
pub mod lock;
pub mod page_table;
pub mod time;
pub mod watchdog;
pub mod workers;

#[cfg(target_arch = "x86_64")]
pub mod address_space;
#[cfg(target_arch = "x86_64")]
pub mod cpu;
#[cfg(target_arch = "x86_64")]
pub mod crash;
#[cfg(target_arch = "x86_64")]
pub mod interrupts;
#[cfg(target_arch = "x86_64")]
mod io_apic;
#[cfg(target_arch = "x86_64")]
pub mod local_apic;
#[cfg(target_arch = "x86_64")]
pub mod power;
#[cfg(target_arch = "x86_64")]
pub mod processors;
#[cfg(target_arch = "x86_64")]
mod start;
#[cfg(target_arch = "x86_64")]
pub mod window;
#[cfg(target_arch = "x86_64")]
pub use start::Machine;
