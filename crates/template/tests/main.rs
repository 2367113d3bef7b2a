//! All tests of this crate from outside that need no process of their own: one program links faster than many.

mod cases;
mod fixtures;
mod go;
mod mutants;
mod oracle;
