//! What can go wrong while a template is parsed or rendered, as data.
use alloc::string::String;
use alloc::sync::Arc;
use thiserror::Error;

/// Why a template could not be parsed or rendered. `line` counts from 1 in the template's source.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// The source is not a template that this interpreter can run.
    #[error("line {line}: {fault}")]
    Syntax {
        /// Where.
        line: u32,
        /// What.
        fault: SyntaxFault,
    },
    /// The template called `raise_exception`.
    #[error("{message}")]
    Raised {
        /// Where the call is.
        line: u32,
        /// The template's own words.
        message: String,
    },
    /// An undefined value was used where a value is needed.
    #[error("line {line}: {missing}")]
    Undefined {
        /// Where.
        line: u32,
        /// Which value.
        missing: Missing,
    },
    /// An operation that does not fit its operands.
    #[error("line {line}: {fault}")]
    Type {
        /// Where.
        line: u32,
        /// What.
        fault: TypeFault,
    },
    /// The template wanted more than its limits give.
    #[error("line {line}: the template exceeds its limit of {limit} {which}")]
    Limit {
        /// Where it stopped.
        line: u32,
        /// Which limit.
        which: LimitKind,
        /// Its value.
        limit: u64,
    },
}

/// The limits of [`Limits`](super::Limits), by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LimitKind {
    /// Bytes of source.
    #[error("source bytes")]
    Source,
    /// Evaluation steps.
    #[error("steps")]
    Steps,
    /// Bytes of output.
    #[error("output bytes")]
    Output,
    /// Bytes of values alive at one moment.
    #[error("memory bytes")]
    Memory,
    /// Levels of nesting, in the source, in calls or in values.
    #[error("levels of nesting")]
    Depth,
}

/// What a parser found wrong.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum SyntaxFault {
    /// A character that starts no token.
    #[error("unexpected character {0:?}")]
    Character(char),
    /// A token in a place where another was needed.
    #[error("expected {expected}, found {found}")]
    Token {
        /// What the grammar wants here.
        expected: &'static str,
        /// What stands here.
        found: String,
    },
    /// A tag that does not exist, or not here.
    #[error("unknown or misplaced tag '{0}'")]
    Tag(String),
    /// A tag of Jinja that chat templates cannot use.
    #[error("the tag '{0}' is not supported in chat templates")]
    UnsupportedTag(String),
    /// `{#` without `#}`.
    #[error("missing end of comment tag")]
    OpenComment,
    /// `{% raw %}` without its end.
    #[error("missing end of raw directive")]
    OpenRaw,
    /// A quote that is never closed.
    #[error("a string literal is not closed")]
    OpenString,
    /// A closing bracket without its opening one.
    #[error("unexpected '{0}'")]
    Bracket(char),
    /// An escape sequence that stands for no character.
    #[error("a string literal has an escape that stands for no character")]
    Escape,
    /// A number that does not fit 64 bits.
    #[error("a number does not fit 64 bits")]
    Number,
    /// The left side of an assignment is not a name.
    #[error("this cannot be assigned to")]
    Target,
    /// `break` or `continue` without a loop around it.
    #[error("'{0}' outside of a loop")]
    OutsideLoop(&'static str),
    /// Arguments in an order that calls do not allow.
    #[error("invalid syntax for a call's arguments")]
    Arguments,
    /// A macro's parameter without a default after one that has it.
    #[error("a parameter without default follows one with a default")]
    Parameters,
    /// No such filter.
    #[error("no filter named '{0}'")]
    Filter(String),
    /// No such test.
    #[error("no test named '{0}'")]
    Test(String),
}

/// Why a value is undefined; its text is Jinja's.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum Missing {
    /// No variable of that name.
    #[error("'{0}' is undefined")]
    Name(Arc<str>),
    /// No attribute or string key of that name.
    #[error("'{owner}' has no attribute '{name}'")]
    Attribute {
        /// The kind of value that was asked.
        owner: &'static str,
        /// The name.
        name: Arc<str>,
    },
    /// No element at that index.
    #[error("{owner} has no element {index}")]
    Element {
        /// The kind of value that was asked.
        owner: &'static str,
        /// The index, as Python writes it.
        index: String,
    },
    /// An attribute that templates may not use, such as one that changes a list.
    #[error("access to attribute '{name}' of '{owner}' object is unsafe.")]
    Unsafe {
        /// The kind of value that was asked.
        owner: &'static str,
        /// The name.
        name: Arc<str>,
    },
    /// A macro's parameter that the call left out.
    #[error("parameter '{0}' was not provided")]
    Parameter(Arc<str>),
    /// An inline `if` that was false and has no `else`.
    #[error(
        "the inline if-expression on line {line} evaluated to false and no else section was defined."
    )]
    Else {
        /// The line of the `if`.
        line: u32,
    },
    /// Any other reason.
    #[error("{0}")]
    Because(&'static str),
}

/// An operation that does not fit its operands.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum TypeFault {
    /// An operator between values that do not have it.
    #[error("unsupported operand types for {op}: '{left}' and '{right}'")]
    Operands {
        /// The operator.
        op: &'static str,
        /// The left operand's type.
        left: &'static str,
        /// The right operand's type.
        right: &'static str,
    },
    /// A type that cannot do what was asked of it.
    #[error("'{of}' object is not {needed}")]
    Not {
        /// The type.
        of: &'static str,
        /// What it would have to be.
        needed: &'static str,
    },
    /// A wrong number of items to unpack.
    #[error("cannot unpack {found} values into {wanted} names")]
    Unpack {
        /// Names on the left.
        wanted: usize,
        /// Values on the right.
        found: usize,
    },
    /// Too many arguments.
    #[error("{function}() takes at most {most} arguments")]
    TooMany {
        /// The function.
        function: String,
        /// How many it takes.
        most: usize,
    },
    /// An argument that the function does not know.
    #[error("{function}() got an unexpected keyword argument '{name}'")]
    Keyword {
        /// The function.
        function: String,
        /// The argument.
        name: String,
    },
    /// An argument left out.
    #[error("{function}() is missing its argument '{name}'")]
    Argument {
        /// The function.
        function: String,
        /// The argument.
        name: &'static str,
    },
    /// An argument whose value the function cannot use.
    #[error("{function}: {problem}")]
    Value {
        /// The function.
        function: &'static str,
        /// What is wrong with the argument.
        problem: &'static str,
    },
    /// No such filter.
    #[error("no filter named '{0}'")]
    Filter(String),
    /// No such test.
    #[error("no test named '{0}'")]
    Test(String),
    /// An attribute was assigned on something else than a namespace.
    #[error("cannot assign attribute on non-namespace object")]
    NotNamespace,
    /// Division or modulo by zero.
    #[error("division by zero")]
    ZeroDivision,
    /// A result that does not fit 64 bits.
    #[error("the result does not fit 64 bits")]
    Overflow,
    /// Something that Python's Jinja has and this interpreter has not.
    #[error("{0} is not supported")]
    Unsupported(&'static str),
}

/// A failure inside the interpreter, before it knows its line.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    Raised(String),
    Undefined(Missing),
    Type(TypeFault),
    Limit(LimitKind, u64),
}

impl Fault {
    /// The public error for a fault at `line`.
    pub(crate) fn at(self, line: u32) -> TemplateError {
        match self {
            Fault::Raised(message) => TemplateError::Raised { line, message },
            Fault::Undefined(missing) => TemplateError::Undefined { line, missing },
            Fault::Type(fault) => TemplateError::Type { line, fault },
            Fault::Limit(which, limit) => TemplateError::Limit { line, which, limit },
        }
    }
}

impl From<TypeFault> for Fault {
    fn from(fault: TypeFault) -> Self {
        Fault::Type(fault)
    }
}

/// The result of everything that runs inside the interpreter.
pub(crate) type Run<T> = Result<T, Fault>;

/// `Err` for an argument with an unusable value.
pub(crate) fn bad_value<T>(function: &'static str, problem: &'static str) -> Run<T> {
    Err(TypeFault::Value { function, problem }.into())
}

/// `Err` for a value of a kind that cannot do what was asked.
pub(crate) fn not<T>(of: &'static str, needed: &'static str) -> Run<T> {
    Err(TypeFault::Not { of, needed }.into())
}
