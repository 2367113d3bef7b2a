//! The executor for NVIDIA GPUs: the same bits as on the processors.
//!
//! Panels are uploaded as the processors have them, byte for byte, and the kernels (`kernels/*.cu`) do the float
//! operations of the numerics contract in its order; integers inside a block are exact in any order. The driver is loaded
//! when the program runs: without one there are no [`devices`], and nothing else changes. A GPU whose bits differ on a tiny
//! model with the same types is refused when a model is opened on it.
//!
//! The same kernel sources are built for a CPU, a fiber for each thread, and compared with the Rust kernels in tests.
#![deny(missing_docs)]

mod driver;
#[cfg(all(test, unix))]
#[path = "../tests/emulation.rs"]
mod emulation;
#[cfg(unix)]
mod emulator;
mod gpu;
mod matmul;
mod modules;

use strata_gpu::{Backend, DeviceError};

pub use gpu::devices;

/// Opens a GPU, by its number.
pub fn backend(device: usize) -> Result<Box<dyn Backend>, DeviceError> {
    Ok(Box::new(gpu::Gpu::open(device)?))
}

/// The emulation of a GPU of some compute capability: for tests.
#[cfg(unix)]
#[doc(hidden)]
pub fn emulated(
    library: &std::path::Path,
    capability: (i32, i32),
) -> Result<Box<dyn Backend>, DeviceError> {
    Ok(Box::new(emulator::Emulator::open(library, capability)?))
}
