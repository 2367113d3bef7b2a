//! The parts of a parsed Go template.

use super::functions::Function;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A template with those that it defines.
#[derive(Clone, Debug, Default)]
pub(super) struct Ast {
    pub(super) root: Vec<Node>,
    pub(super) defined: BTreeMap<String, Vec<Node>>,
}

#[derive(Clone, Debug)]
pub(super) enum Node {
    Text(Arc<str>),
    /// Prints its value, unless it declares or sets a variable.
    Action(Pipeline),
    If(Branch),
    With(Branch),
    Range(Branch),
    Template {
        line: u32,
        name: String,
        data: Option<Pipeline>,
    },
    Break,
    Continue,
}

#[derive(Clone, Debug)]
pub(super) struct Branch {
    pub(super) pipeline: Pipeline,
    pub(super) then: Vec<Node>,
    pub(super) otherwise: Vec<Node>,
}

/// Commands, each of which is given the value of the one before it.
#[derive(Clone, Debug)]
pub(super) struct Pipeline {
    pub(super) line: u32,
    /// What is done with the variables.
    pub(super) setting: Setting,
    pub(super) variables: Vec<Arc<str>>,
    pub(super) commands: Vec<Vec<Operand>>,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Setting {
    Declare,
    Assign,
}

#[derive(Clone, Debug)]
pub(super) enum Operand {
    Dot,
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Arc<str>),
    Function(Function),
    /// Fields of the dot.
    Field(Vec<String>),
    Variable(Arc<str>, Vec<String>),
    Pipeline(Box<Pipeline>),
    /// Fields of a pipeline in parentheses.
    Chain(Box<Pipeline>, Vec<String>),
}
