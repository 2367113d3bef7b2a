//! The executor for NVIDIA GPUs: the same bits as on the processors.
//!
//! Panels are uploaded as the processors have them, byte for byte, and the kernels (`kernels/*.cu`) do the float
//! operations of the numerics contract in its order; integers inside a block are exact in any order. The driver is loaded
//! when the program runs: without one there are no [`devices`], and nothing else changes. A GPU whose bits differ on a tiny
//! model with the same types is refused when a model is opened on it.
//!
//! The same kernel sources are built for a CPU, a fiber for each thread, and compared with the Rust kernels in tests.
#![deny(missing_docs)]

mod args;
mod backend;
mod batch;
mod buffers;
mod driver;
#[cfg(all(test, unix))]
#[path = "../tests/emulation.rs"]
mod emulation;
#[cfg(unix)]
mod emulator;
mod error;
mod executor;
mod experts;
mod gpu;
mod launch;
mod matmul;
mod modules;
mod pages;
mod pass;
mod proof;
mod weights;

pub use backend::DeviceFacts;
pub use error::DeviceError;
pub use executor::{CudaExecutor, CudaOptions};
pub use gpu::devices;
