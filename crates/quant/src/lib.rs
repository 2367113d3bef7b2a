//! The block formats of GGUF tensors.
#![no_std]
#![forbid(unsafe_code)]
