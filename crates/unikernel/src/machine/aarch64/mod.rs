//! Machines with AArch64 processors: QEMU's `virt`, Raspberry Pis, others that a device tree tells of.

pub mod bcm2836;
pub mod features;
pub mod gic;
pub mod paging;

#[cfg(target_arch = "aarch64")]
pub mod calendar;
#[cfg(target_arch = "aarch64")]
pub mod cpu;
#[cfg(target_arch = "aarch64")]
pub mod frequency;
#[cfg(target_arch = "aarch64")]
pub mod interrupt_controller;
#[cfg(target_arch = "aarch64")]
pub mod interrupts;
#[cfg(target_arch = "aarch64")]
pub(crate) mod platform;
#[cfg(target_arch = "aarch64")]
pub mod power;
#[cfg(target_arch = "aarch64")]
pub mod processors;
#[cfg(target_arch = "aarch64")]
pub mod serial_port;
