//! A chat template as text, before it is parsed.

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

    /// Its text.
    pub fn source(&self) -> &str {
        match self {
            Self::Jinja(source) | Self::Go(source) => source,
        }
    }
}
