//! A chat template as text, before it is parsed.

use crate::error::{Error, ErrorKind};
use strata_template::go::GoTemplate;
use strata_template::jinja::Template;

/// A chat template and its language.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplateText {
    /// Of Hugging Face, in the model's file.
    Jinja(String),
    /// Of Ollama, in a Modelfile.
    Go(String),
}

impl TemplateText {
    /// A Modelfile's template. Go's language is Ollama's, but nothing keeps people from writing the other there.
    pub fn of_modelfile(source: String) -> Self {
        if source.contains("{%") {
            Self::Jinja(source)
        } else {
            Self::Go(source)
        }
    }

    /// Parses it, so that a mistake is found before somebody chats.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |error: &dyn core::fmt::Display| {
            let sentence = format_args!("the template cannot be used: {error}");
            Error::new(ErrorKind::InvalidArgument, sentence)
        };
        match self {
            Self::Jinja(source) => Template::parse(source).map(drop).map_err(|e| wrong(&e)),
            Self::Go(source) => GoTemplate::parse(source).map(drop).map_err(|e| wrong(&e)),
        }
    }

    /// Its text.
    pub fn source(&self) -> &str {
        match self {
            Self::Jinja(source) | Self::Go(source) => source,
        }
    }
}
