//! What an answer must look like, and which tokens may come next in one that does.
//!
//! A [`Grammar`] comes from a stranger. What cannot be enforced is an error that names it, never left out; source,
//! nesting, repetitions and work are bounded. `strata-constrain` checks grammars with what is here, and has `llguidance`
//! match them; a machine without an operating system matches them with [`Compiler`]. Both allow the same tokens.
//!
//! # How it works
//!
//! A grammar becomes lexemes, which are regular expressions ([`regex`]), and rules over them. The lexer ([`lexer`]) is one
//! automaton for all lexemes, made as it is walked; the parser ([`parser`]) is Earley's, and takes a step for each lexeme.
//! The vocabulary is a tree of bytes ([`trie`]): what a lexer's state allows within a lexeme is found once, and only
//! tokens with which one ends are asked of the parser.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod closed;
mod compiler;
mod error;
pub mod gbnf;
mod grammar;
mod json;
mod layout;
mod lexer;
mod limits;
mod matcher;
mod parser;
pub mod patterns;
mod regex;
mod rules;
pub mod schema;
mod source;
mod trie;
mod vocabulary;

pub use compiler::Compiler;
pub use error::{CompileError, VocabularyError};
pub use grammar::{CallCount, CallMarkers, Calls, Grammar, Preamble, Tool, ToolCalls};
pub use layout::{LINES, Layout, ONE_LINE};
pub use limits::Limits;
pub use matcher::Matcher;
pub use source::{MarkerPart, cut_marker};
pub use vocabulary::Words;
