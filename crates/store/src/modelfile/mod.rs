//! Modelfiles: what a model is made of, as a text.
//!
//! A line is a command and its value. Values that go over several lines are in `"""`; `#` begins a comment at the
//! start of a line. `PARAMETER` may come several times, and so may `stop`.

mod parser;
#[cfg(test)]
mod tests;

use serde_json::{Map, Value};
use std::fmt::{self, Write};
use thiserror::Error;

/// Modelfiles that are longer are refused.
pub(crate) const LONGEST: usize = 16 << 20;

/// What a Modelfile says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Modelfile {
    /// `FROM`: names of models, or paths of files.
    pub from: Vec<String>,
    /// `PARAMETER`, by name; `stop` is a list.
    pub parameters: Map<String, Value>,
    /// `TEMPLATE`.
    pub template: Option<String>,
    /// `SYSTEM`.
    pub system: Option<String>,
    /// `ADAPTER`: paths of files.
    pub adapters: Vec<String>,
    /// `LICENSE`.
    pub licenses: Vec<String>,
    /// `MESSAGE`: role and text.
    pub messages: Vec<(Role, String)>,
    /// `REQUIRES`: a version of Ollama.
    pub requires: Option<String>,
}

/// Who says a message.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain words")]
pub enum Role {
    System,
    User,
    Assistant,
}

impl Role {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }

    /// The role of a word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::System, Self::User, Self::Assistant]
            .into_iter()
            .find(|role| role.name() == word)
    }
}

/// What is wrong with a Modelfile, and in which line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {fault}")]
pub struct ModelfileError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub fault: ModelfileFault,
}

/// What is wrong with a Modelfile.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ModelfileFault {
    /// A word that is no command.
    #[error(
        "{0:?} is not a command; those are FROM, PARAMETER, TEMPLATE, SYSTEM, ADAPTER, LICENSE, MESSAGE and REQUIRES"
    )]
    Command(String),
    /// A command without its value.
    #[error("{0} needs a value")]
    Value(&'static str),
    /// A value whose quotes do not end.
    #[error("the quotes do not end")]
    Quotes,
    /// A parameter that nothing knows.
    #[error("there is no parameter {0:?}")]
    Parameter(String),
    /// A parameter whose value is of another type.
    #[error("{name} should be {expected}, not {value:?}")]
    Type {
        /// The parameter.
        name: &'static str,
        /// What it should be.
        expected: &'static str,
        /// What it is.
        value: String,
    },
    /// A message of nobody.
    #[error("a message is by system, user or assistant, not by {0:?}")]
    Role(String),
    /// There is nothing to make the model of.
    #[error("there is no FROM")]
    NoFrom,
    /// It is too long.
    #[error("it has more than {LONGEST} bytes")]
    Long,
}

/// The type of a parameter.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Kind {
    Integer,
    Float,
    Truth,
    Texts,
}

/// The parameters that Ollama knows.
const PARAMETERS: [(&str, Kind); 26] = [
    ("num_keep", Kind::Integer),
    ("seed", Kind::Integer),
    ("num_predict", Kind::Integer),
    ("top_k", Kind::Integer),
    ("top_p", Kind::Float),
    ("min_p", Kind::Float),
    ("tfs_z", Kind::Float),
    ("typical_p", Kind::Float),
    ("repeat_last_n", Kind::Integer),
    ("temperature", Kind::Float),
    ("repeat_penalty", Kind::Float),
    ("presence_penalty", Kind::Float),
    ("frequency_penalty", Kind::Float),
    ("mirostat", Kind::Integer),
    ("mirostat_tau", Kind::Float),
    ("mirostat_eta", Kind::Float),
    ("penalize_newline", Kind::Truth),
    ("stop", Kind::Texts),
    ("num_ctx", Kind::Integer),
    ("num_batch", Kind::Integer),
    ("num_gpu", Kind::Integer),
    ("main_gpu", Kind::Integer),
    ("num_thread", Kind::Integer),
    ("use_mmap", Kind::Truth),
    ("low_vram", Kind::Truth),
    ("numa", Kind::Truth),
];

impl fmt::Display for Modelfile {
    /// Writes a Modelfile that reads back as the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for from in &self.from {
            writeln!(f, "FROM {}", quoted(from))?;
        }
        for adapter in &self.adapters {
            writeln!(f, "ADAPTER {}", quoted(adapter))?;
        }
        if let Some(template) = &self.template {
            writeln!(f, "TEMPLATE {}", quoted(template))?;
        }
        if let Some(system) = &self.system {
            writeln!(f, "SYSTEM {}", quoted(system))?;
        }
        for (name, value) in &self.parameters {
            match value {
                Value::Array(values) => {
                    for value in values {
                        writeln!(f, "PARAMETER {name} {}", shown(value))?;
                    }
                }
                value => writeln!(f, "PARAMETER {name} {}", shown(value))?,
            }
        }
        for license in &self.licenses {
            writeln!(f, "LICENSE {}", quoted(license))?;
        }
        for (role, text) in &self.messages {
            writeln!(f, "MESSAGE {} {}", role.name(), quoted(text))?;
        }
        if let Some(requires) = &self.requires {
            writeln!(f, "REQUIRES {}", quoted(requires))?;
        }
        Ok(())
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        value => {
            let mut out = String::new();
            crate::go_json::value(&mut out, value);
            out
        }
    }
}

/// A value with the quotes that it needs. There is no escape in this language: `"""` holds anything but itself.
fn quoted(text: &str) -> String {
    let plain = !text.is_empty()
        && text.trim() == text
        && !text.starts_with(['"', '#'])
        && !text.contains(['\n', '\r']);
    let mut out = String::new();
    let _ = if plain {
        write!(out, "{text}")
    } else if text.contains(['"', '\n', '\r']) {
        write!(out, "\"\"\"{text}\"\"\"")
    } else {
        write!(out, "\"{text}\"")
    };
    out
}
