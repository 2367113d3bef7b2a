//! The tools of a request, and whether they must be called.

use crate::fault::Fault;
use crate::json::{Json, JsonPath};
use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;

/// Tools, and whether they must be called.
#[derive(Clone, Debug, PartialEq)]
pub struct Tools {
    /// The tools.
    pub list: Vec<Tool>,
    /// Whether they must be called.
    pub choice: ToolChoice,
    /// Whether several may be called in one answer.
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
    /// Checks that no two tools have one name, and that what must be called is there. The places are where the client
    /// wrote the tools and the choice.
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

/// A tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it does.
    pub description: Option<String>,
    /// A JSON schema of its arguments; `Null` if it takes none.
    pub parameters: Json,
    /// Its arguments must follow the schema even where the call is the model's free choice.
    pub strict: bool,
}

/// Whether tools must be called.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// As the model likes.
    #[default]
    Auto,
    /// No tool; they are still shown to the model.
    None,
    /// At least one.
    Required,
    /// This one.
    Named(String),
    /// Only these may be called, and one must be if `required`.
    Allowed {
        /// The tools' names.
        names: Vec<String>,
        /// Whether one must be called.
        required: bool,
    },
}
