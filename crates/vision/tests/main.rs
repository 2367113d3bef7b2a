//! All tests of this crate from outside.

mod decoding;
mod hostile;
mod recipes;
mod vectors;
