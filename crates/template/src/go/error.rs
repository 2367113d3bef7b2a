//! What can go wrong while a Go template is parsed or run, as data.

use crate::jinja::LimitKind;
use alloc::string::String;
use thiserror::Error;

/// Why a Go template could not be parsed or run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {fault}")]
pub struct GoError {
    /// Where, from 1, in the template's source.
    pub line: u32,
    /// What.
    pub fault: GoFault,
}

/// What is wrong with a Go template, or with what it does.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GoFault {
    /// `{{` without its end.
    #[error("an action is not closed")]
    OpenAction,
    /// A comment without its end, or with something after it.
    #[error("a comment is not closed")]
    OpenComment,
    /// A quote without its end.
    #[error("a string is not closed")]
    OpenString,
    /// An escape that stands for no character.
    #[error("a string has an escape that stands for no character")]
    Escape,
    /// A number that is none, or that does not fit 64 bits.
    #[error("{0:?} is not a number that can be used")]
    Number(String),
    /// A character that begins nothing.
    #[error("unexpected character {0:?}")]
    Character(char),
    /// Something in the place of something else.
    #[error("expected {expected}, found {found}")]
    Expected {
        /// What belongs here.
        expected: &'static str,
        /// What stands here.
        found: String,
    },
    /// A function that is not one of those that templates have here.
    #[error("there is no function {0:?}")]
    Function(String),
    /// A variable that was not declared.
    #[error("there is no variable {0:?}")]
    Variable(String),
    /// A template that is not defined.
    #[error("there is no template {0:?}")]
    Template(String),
    /// Arguments to what is no function.
    #[error("what is no function was given arguments")]
    NotAFunction,
    /// Too few or too many arguments.
    #[error("{function} was given {found} arguments")]
    Arguments {
        /// The function.
        function: &'static str,
        /// How many.
        found: usize,
    },
    /// A value of a type that cannot do what was asked of it.
    #[error("{of} cannot be used for {operation}")]
    Type {
        /// The value's type.
        of: &'static str,
        /// What was asked of it.
        operation: &'static str,
    },
    /// A field of what has none.
    #[error("{of} has no field {name:?}")]
    Field {
        /// The value's type.
        of: &'static str,
        /// The field.
        name: String,
    },
    /// Values that cannot be compared.
    #[error("{left} cannot be compared with {right}")]
    Comparison {
        /// One type.
        left: &'static str,
        /// The other.
        right: &'static str,
    },
    /// An index past the end.
    #[error("{index} is out of the range of {len}")]
    Index {
        /// The index.
        index: i64,
        /// How many there are.
        len: usize,
    },
    /// The template wanted more than its limits give.
    #[error("the template exceeds its limit of {1} {0}")]
    Limit(LimitKind, u64),
}

/// What a step of the work gives.
pub(super) type Run<T> = Result<T, GoFault>;

/// Blames a line.
pub(super) trait OnLine<T> {
    fn on(self, line: u32) -> Result<T, GoError>;
}

impl<T> OnLine<T> for Run<T> {
    fn on(self, line: u32) -> Result<T, GoError> {
        self.map_err(|fault| GoError { line, fault })
    }
}
