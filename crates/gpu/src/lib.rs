//! A model on a GPU, whatever drives it: what `strata-cuda` and `strata-vulkan` share.
//!
//! A [`GpuExecutor`] uploads panels as the processors have them, keeps pages of keys and values, and computes a batch as a
//! fixed sequence of kernels. Layers may be on several GPUs, and the first ones on the processors: then the residual stream
//! goes from one to the next, f32 as it is, and page tables are those of several machines. It knows neither a driver nor a shading language: a [`Backend`] has memory and kernels, and its
//! [`Multiplier`] chooses the kernel for a matrix. Kernels take the structs of [`args`]; what they compute is the numerics
//! contract, which a device must prove on a tiny model before it gets another.
#![expect(
    missing_docs,
    reason = "the structs are those of the kernels, whose sources say what the fields are"
)]

mod adapters;
pub mod args;
mod attention;
mod backend;
mod batch;
mod buffers;
mod error;
mod executor;
mod experts;
mod launch;
mod memory;
mod multiplier;
mod pages;
mod pass;
mod proof;
mod standby;
mod stretch;
mod weights;

pub use backend::{Address, Backend, DeviceFacts, HostBuffer, Kernel, Recording, Shape};
pub use error::DeviceError;
pub use executor::{GpuExecutor, GpuOptions, GpuPart};
pub use launch::launch;
pub use memory::{DeviceNeeds, DeviceShare};
pub use multiplier::{Input, Multiplier, UNIT, act_bytes};
pub use proof::prove;
pub use standby::{LoadOther, Standby};
pub use weights::{ExpertMatrices, Matrix};
