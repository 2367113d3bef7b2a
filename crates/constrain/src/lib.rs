//! Answers that match a grammar.
//!
//! A [`Compiler`] is made once for a model's tokenizer. It turns a [`Grammar`] into a [`Matcher`], which is the engine's
//! [`Constraint`](strata_engine::Constraint): it says which tokens may come next. The matching itself is `llguidance`'s.
//!
//! Grammars come from strangers. What cannot be enforced is an error that names it, never left out; source, nesting,
//! repetitions, time and memory are bounded ([`Limits`]).
#![forbid(unsafe_code)]

mod cache;
mod compiler;
mod error;
mod gbnf;
mod lark;
mod limits;
mod matcher;
mod queue;
mod source;
mod vocabulary;
mod watchdog;

pub use compiler::Compiler;
pub use matcher::Matcher;
pub use strata_grammar::{
    CallCount, CallMarkers, Calls, CompileError, Grammar, Limits, Preamble, Tool, ToolCalls,
    VocabularyError,
};
