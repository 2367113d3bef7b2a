//! The kernels from outside. There are no tests inside: the crate takes long to compile, and would be compiled twice.

mod attention;
mod gated;
mod isa;
mod job;
mod layout;
mod matmul;
mod state;
mod support;
mod tile;
mod vector;
mod whole;
