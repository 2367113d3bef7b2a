//! Answers that match a grammar.
//!
//! A [`Compiler`] is made once for a model's tokenizer. It turns a [`Grammar`] into a [`Matcher`], which is the engine's
//! [`Constraint`](strata_engine::Constraint): it says which tokens may come next. The matching itself is `llguidance`'s.
//!
//! Grammars come from strangers. What cannot be enforced is an error that names it, never left out; source, nesting,
//! repetitions, time and memory are bounded ([`Limits`]).
#![forbid(unsafe_code)]

mod cache;
mod closed;
mod compiler;
mod error;
mod gbnf;
mod grammar;
mod lark;
mod layout;
mod limits;
mod matcher;
mod queue;
mod schema;
mod source;
mod vocabulary;
mod watchdog;

pub use compiler::Compiler;
pub use error::{CompileError, VocabularyError};
pub use grammar::{CallCount, CallMarkers, Calls, Grammar, Preamble, Tool, ToolCalls};
pub use limits::Limits;
pub use matcher::Matcher;
