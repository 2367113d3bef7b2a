//! What can be wrong with a grammar.

use alloc::string::String;
use core::time::Duration;
use thiserror::Error;

/// Why a grammar cannot be used. Nothing in a grammar is ever left out instead.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CompileError {
    /// The source is too long.
    #[error("the grammar has {bytes} bytes; at most {limit} are allowed")]
    TooLong {
        /// The bytes of the source.
        bytes: usize,
        /// How many there may be.
        limit: usize,
    },
    /// Brackets are nested too deeply.
    #[error("the grammar is nested more than {limit} deep at {place}")]
    TooDeep {
        /// Where the limit was passed.
        place: String,
        /// How deep it may be.
        limit: usize,
    },
    /// A repetition is too large.
    #[error("{count} repetitions at {place}; at most {limit} are allowed")]
    TooManyRepeats {
        /// Where they are asked for.
        place: String,
        /// How many are asked for.
        count: u64,
        /// How many there may be.
        limit: u64,
    },
    /// Compiling took too long.
    #[error("the grammar is not compiled after {limit:?}")]
    TooSlow {
        /// How long it may take.
        limit: Duration,
    },
    /// Compiling takes too much.
    #[error("the {kind} takes more than {limit} steps to compile")]
    TooComplex {
        /// The kind of grammar.
        kind: &'static str,
        /// How many steps it may take.
        limit: u64,
    },
    /// There is no compiler for the language here.
    #[error(
        "this machine reads no {kind}: use a JSON schema, a regular expression, GBNF or choices"
    )]
    Unknown {
        /// The kind of grammar.
        kind: &'static str,
    },
    /// Other grammars are being compiled and take their time.
    #[error("{running} other grammars are being compiled; try again later")]
    Busy {
        /// How many.
        running: usize,
    },
    /// The schema is no JSON.
    #[error("the JSON schema is not JSON: {reason} at line {line}, column {column}")]
    NotJson {
        /// What the parser says.
        reason: String,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
    },
    /// The schema asks for something that cannot be enforced.
    #[error("the JSON schema at {place} uses {keyword:?}, which is not supported: {reason}")]
    Unsupported {
        /// Where, as a JSON pointer.
        place: String,
        /// The keyword.
        keyword: String,
        /// Why not.
        reason: &'static str,
    },
    /// The source breaks the rules of its language.
    #[error("the {kind} is wrong at line {line}, column {column}: {reason}")]
    Syntax {
        /// The kind of grammar.
        kind: &'static str,
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
        /// What is wrong.
        reason: &'static str,
    },
    /// A rule is used that is not defined.
    #[error("the {kind} does not define the rule {name:?}")]
    UnknownRule {
        /// The kind of grammar.
        kind: &'static str,
        /// The rule.
        name: String,
    },
    /// A rule is defined twice.
    #[error("the {kind} defines the rule {name:?} twice")]
    DuplicateRule {
        /// The kind of grammar.
        kind: &'static str,
        /// The rule.
        name: String,
    },
    /// A rule goes on for ever.
    #[error("the {kind} has no text that satisfies the rule {name:?} and ends")]
    Endless {
        /// The kind of grammar.
        kind: &'static str,
        /// The rule.
        name: String,
    },
    /// A rule goes on for too long.
    #[error(
        "every text that satisfies the {kind}'s rule {name:?} has more than {limit} characters"
    )]
    LongText {
        /// The kind of grammar.
        kind: &'static str,
        /// The rule.
        name: String,
        /// How many there may be.
        limit: u64,
    },
    /// Something that must have content has none.
    #[error("{what} must not be empty")]
    Empty {
        /// What is empty.
        what: &'static str,
    },
    /// The compiler refuses it.
    #[error("the {kind} cannot be compiled: {reason}")]
    Refused {
        /// The kind of grammar.
        kind: &'static str,
        /// What the compiler says.
        reason: String,
    },
    /// The compiler failed; nothing else is affected.
    #[error("compiling the {kind} failed: {reason}")]
    Panicked {
        /// The kind of grammar.
        kind: &'static str,
        /// What the panic said.
        reason: String,
    },
}

/// Why a vocabulary cannot be used for constraints.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum VocabularyError {
    /// It has too many tokens or none.
    #[error("a vocabulary of {tokens} tokens cannot be constrained")]
    Size {
        /// How many tokens there are.
        tokens: usize,
    },
    /// The tree of tokens cannot be built.
    #[error("the tree of tokens cannot be built: {reason}")]
    Tree {
        /// What the builder says.
        reason: String,
    },
}
