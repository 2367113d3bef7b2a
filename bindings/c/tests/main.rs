//! The C interface: its header, and adapters for the tests of all languages. Programs in C are run by
//! `cargo xtask test-bindings c`.

mod adapters;
mod dart;
mod header;
