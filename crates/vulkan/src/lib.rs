//! The executor for GPUs of any maker, through Vulkan 1.3: the same bits as on the processors.
//!
//! The passes, pages and weights are those of `strata-gpu`; here are a device's memory, its queue, and the kernels
//! (`kernels/*.comp`), compiled ahead to SPIR-V in which no two operations on floats may be joined. Kernels read memory by
//! address, as CUDA's do, and take the same structs. The loader is looked for when the program runs: without one there are no
//! [`devices`], and nothing else changes.
//!
//! Vulkan leaves much of arithmetic open, so a device shows first which of its operations are exact (`exactness.rs`); fused
//! products that are not are computed with 64-bit floats or in integers, quotients and roots in integers, and a device that
//! rounds sums otherwise or loses small numbers is refused. Then it computes a tiny model like any other GPU.
#![deny(missing_docs)]

mod device;
mod exactness;
mod fma;
mod instance;
mod matmul;
mod memory;
mod modules;
mod queue;

use strata_gpu::{Backend, DeviceError};

pub use exactness::Exactness;
pub use instance::{devices, free_memory};

/// Opens a device, by its number.
pub fn backend(device: usize) -> Result<Box<dyn Backend>, DeviceError> {
    Ok(Box::new(device::Device::open(device, None)?))
}

/// The same, and operations count as exact only where `at_most` says so too: for tests.
#[doc(hidden)]
pub fn backend_at_most(
    device: usize,
    at_most: Option<Exactness>,
) -> Result<(Box<dyn Backend>, Exactness), DeviceError> {
    let device = device::Device::open(device, at_most)?;
    let exactness = device.exactness();
    Ok((Box::new(device), exactness))
}
