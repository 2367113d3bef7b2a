//! The book's programs, small enough to read whole. [`decoder`] is the first, and the oracle that the engine is
//! tested against.
#![forbid(unsafe_code)]

mod checkpoint;
pub mod decoder;
