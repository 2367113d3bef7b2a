//! The block formats of GGUF tensors.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod ggml_type;

pub use ggml_type::GgmlType;
