//! Architectures as data, and the one decoder that runs them.
#![no_std]
#![forbid(unsafe_code)]
