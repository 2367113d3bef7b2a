//! Chat templates: an interpreter for the Jinja that published models use.
//!
//! It renders what Python's `jinja2` renders when it is set up as Hugging Face `transformers` does (an immutable
//! sandbox, `trim_blocks`, `lstrip_blocks`, loop controls, `{% generation %}`, a plain `tojson`, `raise_exception` and
//! `strftime_now`), byte for byte. Templates and messages come from strangers, so source, steps, nesting, memory and
//! output are all bounded by [`Limits`]: memory is charged before it is allocated.
//!
//! ```
//! use strata_template::jinja::{RenderOptions, Template, Value};
//!
//! let template = Template::parse("{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}")?;
//! let message = Value::map([("role", "user".into()), ("content", "Hi".into())]);
//! let context = Value::map([("messages", Value::list([message]))]);
//! assert_eq!(template.render(&context, &RenderOptions::default())?, "<user>Hi");
//! # Ok::<(), strata_template::jinja::TemplateError>(())
//! ```
mod arguments;
mod ast;
mod error;
mod eval;
mod filters;
mod format;
mod lexer;
mod limits;
mod methods;
mod parser;
mod predicates;
mod value;

pub use error::{LimitKind, Missing, SyntaxFault, TemplateError, TypeFault};
pub use format::DateTime;
pub use limits::Limits;
pub use value::{
    Closure, Cycler, Function, Joiner, List, Map, Method, Once, Range, Str, Undefined, Value,
    ViewKind,
};

use alloc::string::String;

/// A parsed template, ready to render any number of times.
#[derive(Debug)]
pub struct Template {
    ast: ast::Ast,
}

/// How to render.
#[derive(Clone, Copy, Debug, Default)]
pub struct RenderOptions {
    /// What the render may use.
    pub limits: Limits,
    /// The local time that `strftime_now` formats; without one the function is undefined.
    pub now: Option<DateTime>,
}

impl Template {
    /// Parses a template within the default limits.
    pub fn parse(source: &str) -> Result<Template, TemplateError> {
        Template::parse_with(source, &Limits::default())
    }

    /// Parses a template within `limits`: of them, `source_bytes` and `depth` count here.
    pub fn parse_with(source: &str, limits: &Limits) -> Result<Template, TemplateError> {
        let ast = parser::parse(source, limits)?;
        Ok(Template { ast })
    }

    /// Renders with the variables of `context`, a map.
    pub fn render(
        &self,
        context: &Value,
        options: &RenderOptions,
    ) -> Result<String, TemplateError> {
        eval::render(&self.ast, context, options)
    }
}
