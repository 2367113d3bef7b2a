//! A model on a GPU, whatever drives it: what `strata-cuda` and `strata-vulkan` share.
//!
//! A [`GpuExecutor`] uploads panels as the processors have them, keeps pages of keys and values, and computes a batch as a
//! fixed sequence of kernels. It knows neither a driver nor a shading language: a [`Backend`] has memory and kernels, and its
//! [`Multiplier`] chooses the kernel for a matrix. Kernels take the structs of [`args`]; what they compute is the numerics
//! contract, which a device must prove on a tiny model before it gets another.
#![expect(
    missing_docs,
    reason = "the structs are those of the kernels, whose sources say what the fields are"
)]

pub mod args;
mod backend;
mod batch;
mod buffers;
mod error;
mod executor;
mod experts;
mod launch;
mod multiplier;
mod pages;
mod pass;
mod proof;
mod weights;

pub use backend::{Address, Backend, DeviceFacts, HostBuffer, Kernel, Recording, Shape};
pub use error::DeviceError;
pub use executor::{GpuExecutor, GpuOptions};
pub use launch::launch;
pub use multiplier::{Input, Multiplier, UNIT, act_bytes};
pub use proof::prove;
pub use weights::{ExpertMatrices, Matrix};
