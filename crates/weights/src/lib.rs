//! Weight files as checked directories of named tensors.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
pub mod gguf;
