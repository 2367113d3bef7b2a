//! Regular expressions: their graph, the reader of their usual notation, and what follows from them.

mod alphabet;
mod emptiness;
mod expr;
mod json_string;
mod pattern;

pub(crate) use alphabet::Alphabet;
pub(crate) use emptiness::Emptiness;
pub(crate) use expr::{Arena, ByteSet, ENDLESS, Expr, Node};
pub(crate) use pattern::Reading;
