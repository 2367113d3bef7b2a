//! The C interface: its header, programs in C that use it, and their stress.

mod adapters;
mod header;
mod programs;
