//! The programs of the book in `learn/book`, small enough to read whole.
//!
//! [`decoder`] is the one that the others lead to, and the oracle that the engine is tested against. The chapters
//! include these files by the anchors in their comments, so what the book shows is what the tests run.
#![forbid(unsafe_code)]

pub mod blocks;
pub mod bpe;
pub mod bytes;
mod checkpoint;
pub mod chunks;
pub mod decoder;
pub mod demos;
pub mod exercises;
pub mod experts;
pub mod gguf;
pub mod half;
pub mod lanes;
mod loader;
pub mod narrow;
pub mod pages;
pub mod paging;
pub mod patches;
pub mod pictures;
pub mod prefix_tree;
pub mod ring;
pub mod sampling;
pub mod scheduler;
pub mod short_conv;
pub mod solutions;
pub mod steering;
mod svg;
pub mod template;
pub mod text;
pub mod wall;
pub mod workers;
