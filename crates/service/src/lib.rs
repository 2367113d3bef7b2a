//! From a dialect's request to the engine's, and from the engine's events back.
//!
//! `wire` knows what clients say, the engine knows tokens. Between them stand the chat template, the tools, and the
//! model's habit of thinking aloud: they are here, once for all servers.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod card;
pub mod metrics;
pub mod prompt;
mod request;
mod sampling;
mod speaker;
mod splitter;
mod talk;
pub mod tools;
mod words;

pub use card::Card;
pub use request::{Circumstances, Prepared, prepare};
pub use speaker::{Speaker, Spoken};
pub use splitter::{Piece, SplitOptions, Splitter, ThinkingMarks};
pub use talk::{Arrival, Talk, Times, refusal};
pub use tools::grammar::{Calls, Shape};
pub use words::unknown_model;
