//! Launching a kernel with its arguments.
#![allow(unsafe_code)]

use crate::args::Arguments;
use crate::backend::{Backend, Kernel, Shape};
use crate::error::DeviceError;

/// Launches a kernel that takes `A`. The addresses in it are those of memory that the executor has taken for them.
pub fn launch<A: Arguments>(
    backend: &dyn Backend,
    kernel: Kernel,
    shape: Shape,
    arguments: &A,
) -> Result<(), DeviceError> {
    if shape.grid.contains(&0) {
        return Ok(());
    }
    // SAFETY: `Arguments` are the structs that kernels take; callers pair them with their kernels, and their buffers are
    // sized by the plan for the largest batch, which `forward` checks.
    unsafe {
        backend.launch(
            kernel,
            shape,
            std::ptr::from_ref(arguments).cast(),
            size_of::<A>(),
        )
    }
}
