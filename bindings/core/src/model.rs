//! A model as languages hold it: one that writes, or one that hears.

use strata::{Error, ErrorKind, Transcriber};

/// A model in memory. Clones are handles to the same one.
#[derive(Clone)]
pub struct Model(Kind);

#[derive(Clone)]
enum Kind {
    Text(strata::Model),
    Speech(Transcriber),
}

impl Model {
    pub(crate) fn of_text(model: strata::Model) -> Self {
        Self(Kind::Text(model))
    }

    pub(crate) fn of_speech(model: Transcriber) -> Self {
        Self(Kind::Speech(model))
    }

    /// The model that writes.
    pub fn text(&self) -> Result<&strata::Model, Error> {
        match &self.0 {
            Kind::Text(model) => Ok(model),
            Kind::Speech(model) => {
                let what = format!("{} transcribes speech: it does nothing else", model.name());
                Err(Error::new(ErrorKind::Unsupported, what))
            }
        }
    }

    /// The model that hears.
    pub fn speech(&self) -> Result<&Transcriber, Error> {
        match &self.0 {
            Kind::Speech(model) => Ok(model),
            Kind::Text(model) => {
                let what = format!("{} cannot transcribe", model.facts().name);
                let error = Error::new(ErrorKind::Unsupported, what);
                Err(error.with_hint("open a Whisper model"))
            }
        }
    }

    /// The tokens of a text, with those that the model wants around one.
    pub fn tokenize(&self, text: &str) -> Result<Vec<u32>, Error> {
        Ok(self.text()?.tokenize(text))
    }

    /// The text of tokens, without control tokens.
    pub fn detokenize(&self, tokens: &[u32]) -> Result<String, Error> {
        Ok(self.text()?.detokenize(tokens))
    }
}
