//! What an answer must look like, as a request says it.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// What the whole answer must match.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Grammar {
    /// Any JSON object.
    JsonObject,
    /// A JSON value that validates against this schema.
    JsonSchema(String),
    /// A text that this regular expression matches from its first to its last character, in the syntax of Rust's `regex`.
    Regex(String),
    /// A grammar in Lark's syntax as `llguidance` reads it; its rule `start` is the answer.
    Lark(String),
    /// A grammar in llama.cpp's syntax; its rule `root` is the answer.
    Gbnf(String),
    /// One of these texts.
    Choice(Vec<String>),
    /// Calls of tools, perhaps with text in front of them.
    ToolCalls(ToolCalls),
}

/// Which calls of tools an answer may or must have.
///
/// A call is spelled `{"name": "…", "arguments": {…}}` between the markers that the model was taught.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ToolCalls {
    /// The tools that may be called; at least one. To make the model call a certain tool, name only that one.
    pub tools: Vec<Tool>,
    /// The texts around the calls.
    pub markers: CallMarkers,
    /// What the object that names the tool calls its arguments: `arguments` or `parameters`.
    pub arguments_key: String,
    /// Whether there must be a call.
    pub calls: Calls,
    /// How many calls there may be.
    pub count: CallCount,
    /// What may come before the first call.
    pub preamble: Preamble,
}

/// A tool that can be called.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// The JSON schema of its arguments.
    pub parameters: String,
}

/// The texts around calls. The texts of control tokens in them stand for the tokens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CallMarkers {
    /// Before the first call; not empty unless a call is required and nothing comes before it.
    pub begin: String,
    /// Between two calls.
    pub between: String,
    /// After the last call.
    pub end: String,
}

impl CallMarkers {
    /// Markers that stand around each call, with a line for each of the three: Qwen, Hermes.
    pub fn tagged(open: &str, close: &str) -> Self {
        CallMarkers {
            begin: format!("{open}\n"),
            between: format!("\n{close}\n{open}\n"),
            end: format!("\n{close}"),
        }
    }
}

/// Whether an answer must call a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Calls {
    /// It may be text alone (`tool_choice: auto`).
    Optional,
    /// It ends with a call (`tool_choice: required`, or a named tool).
    Required,
}

/// How many calls an answer may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallCount {
    /// One at most.
    One,
    /// Any number.
    Many,
}

/// What may come before the first call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Preamble {
    /// Text, as a model that thinks first writes it.
    Text,
    /// Nothing.
    Nothing,
}

impl Grammar {
    /// What kind of grammar it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Grammar::JsonObject => "JSON object",
            Grammar::JsonSchema(_) => "JSON schema",
            Grammar::Regex(_) => "regular expression",
            Grammar::Lark(_) => "Lark grammar",
            Grammar::Gbnf(_) => "GBNF grammar",
            Grammar::Choice(_) => "choice",
            Grammar::ToolCalls(_) => "tool calls",
        }
    }

    /// How many bytes the request spent on it.
    pub fn source_bytes(&self) -> usize {
        let sum = |lengths: &mut dyn Iterator<Item = usize>| {
            lengths.fold(0, |sum: usize, len| sum.saturating_add(len))
        };
        match self {
            Grammar::JsonObject => 0,
            Grammar::JsonSchema(text)
            | Grammar::Regex(text)
            | Grammar::Lark(text)
            | Grammar::Gbnf(text) => text.len(),
            Grammar::Choice(texts) => sum(&mut texts.iter().map(String::len)),
            Grammar::ToolCalls(calls) => {
                let markers = &calls.markers;
                let tools = calls.tools.iter();
                sum(&mut tools
                    .map(|tool| tool.name.len().saturating_add(tool.parameters.len()))
                    .chain([&markers.begin, &markers.between, &markers.end].map(String::len))
                    .chain([calls.arguments_key.len()]))
            }
        }
    }
}
