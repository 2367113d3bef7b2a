//! The tools of a request, and whether they must be called.

use crate::fault::Fault;
use crate::json::{Json, JsonPath};
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

/// The tools of a request.
#[derive(Clone, Debug, PartialEq)]
pub struct Tools {
    /// The tools.
    pub list: Vec<Tool>,
    /// Whether the model must call them.
    pub choice: ToolChoice,
    /// Whether an answer may call several.
    pub parallel: bool,
}

impl Default for Tools {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            choice: ToolChoice::Auto,
            parallel: true,
        }
    }
}

impl Tools {
    /// Checks that tools have distinct names and that the choice names existing tools. The paths are those of the two
    /// fields in the request.
    pub fn check(&self, tools: &JsonPath, choice: &JsonPath) -> Result<(), Fault> {
        let mut names = BTreeSet::new();
        if let Some(twice) = self.list.iter().find(|tool| !names.insert(&tool.name)) {
            let problem = format_args!("{:?} is there twice", twice.name);
            return Err(Fault::field(tools, problem));
        }
        let wanted = match &self.choice {
            ToolChoice::Auto | ToolChoice::None => return Ok(()),
            ToolChoice::Required if names.is_empty() => {
                return Err(Fault::field(choice, format_args!("needs tools to call")));
            }
            ToolChoice::Required => return Ok(()),
            ToolChoice::Named(name) => core::slice::from_ref(name),
            ToolChoice::Allowed { names, .. } if names.is_empty() => {
                return Err(Fault::field(choice, format_args!("allows no tool")));
            }
            ToolChoice::Allowed { names, .. } => names,
        };
        match wanted.iter().find(|name| !names.contains(name)) {
            None => Ok(()),
            Some(name) => Err(Fault::field(
                choice,
                format_args!("there is no tool named {name:?}"),
            )),
        }
    }
}

/// A tool the model can call.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// A JSON schema of the arguments; `Null` if there are none.
    pub parameters: Json,
    /// Whether arguments must match the schema even if the model is free to call the tool.
    pub strict: bool,
}

/// Whether the model must call tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// It must not, though it sees them.
    None,
    /// It must call at least one.
    Required,
    /// It must call this one.
    Named(String),
    /// It may call only these.
    Allowed {
        /// The tools' names.
        names: Vec<String>,
        /// Whether it must call one.
        required: bool,
    },
}
