//! Go templates: an interpreter for the `text/template` that models of Ollama's registry use.
//!
//! It prints what Go prints, with two differences: a value that is missing prints nothing (Go prints `<no value>`), and
//! lists and objects print as JSON, which is how the types print themselves that Ollama gives to its templates.
//! Templates and messages come from strangers, so source, steps, nesting, memory and output are bounded by the
//! [`Limits`] of the other template language. <https://pkg.go.dev/text/template>
//!
//! ```
//! use strata_template::go::{GoOptions, GoTemplate, GoValue};
//!
//! let template = GoTemplate::parse("{{ range .Messages }}<{{ .Role }}>{{ .Content }}{{ end }}")?;
//! let message = GoValue::map([("role", "user".into()), ("content", "Hi".into())]);
//! let data = GoValue::map([("Messages", GoValue::list([message]))]);
//! assert_eq!(template.render(&data, &GoOptions::default())?, "<user>Hi");
//! # Ok::<(), strata_template::go::GoError>(())
//! ```

mod ast;
mod chat;
mod error;
mod eval;
mod format;
mod functions;
mod lexer;
mod parser;
mod value;

pub use chat::{GoChat, GoMessage};
pub use error::{GoError, GoFault};
pub use value::{GoList, GoValue};

use crate::jinja::{DateTime, Limits};
use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use ast::{Ast, Node, Operand, Pipeline, Setting};
use eval::Interp;

/// A parsed template, ready to run any number of times.
#[derive(Debug)]
pub struct GoTemplate {
    ast: Ast,
    /// What it has up to the response, for templates that know no messages.
    to_response: Vec<Node>,
    fields: BTreeSet<String>,
}

/// How to run it.
#[derive(Clone, Copy, Debug, Default)]
pub struct GoOptions {
    /// What the run may use.
    pub limits: Limits,
    /// The local time, for `currentDate`.
    pub now: Option<DateTime>,
}

impl GoTemplate {
    /// Parses a template within the default limits.
    pub fn parse(source: &str) -> Result<Self, GoError> {
        let (mut ast, mut fields) = parser::parse(source, &Limits::default())?;
        // The first templates ended where the response begins.
        if !fields.contains("Messages") && !fields.contains("Response") {
            ast.root.push(Node::Action(response()));
            fields.insert("Response".to_string());
        }
        Ok(Self {
            to_response: chat::up_to_response(&ast.root),
            ast,
            fields,
        })
    }

    /// Whether the template reads a field of this name anywhere: `Messages`, `Tools`, `Suffix`, …
    pub fn reads(&self, field: &str) -> bool {
        self.fields.contains(field)
    }

    /// Runs the template on a value.
    pub fn render(&self, data: &GoValue, options: &GoOptions) -> Result<String, GoError> {
        let mut interp = Interp::new(&self.ast, options.limits, options.now);
        interp.run(&self.ast.root, data)?;
        Ok(interp.out)
    }
}

fn response() -> Pipeline {
    Pipeline {
        line: 1,
        setting: Setting::Declare,
        variables: Vec::new(),
        commands: [[Operand::Field(["Response".to_string()].into())].into()].into(),
    }
}
