//! A model as languages hold it: one that writes, or one that hears.

use std::ops::Deref;
use std::sync::Arc;
use strata::{Error, ErrorKind, Transcriber};
use strata_store::WebFiles;

/// A model in memory. Clones are handles to the same one.
#[derive(Clone)]
pub struct Model(Kind);

#[derive(Clone)]
enum Kind {
    Text(TextModel),
    Speech(Transcriber),
}

/// A model that writes, and what fetches the images that requests name by their addresses, if anything does.
#[derive(Clone)]
pub(crate) struct TextModel {
    model: strata::Model,
    pub(crate) web: Option<Arc<WebFiles>>,
}

impl Deref for TextModel {
    type Target = strata::Model;

    fn deref(&self) -> &strata::Model {
        &self.model
    }
}

impl Model {
    pub(crate) fn of_text(model: strata::Model, web: Option<Arc<WebFiles>>) -> Self {
        Self(Kind::Text(TextModel { model, web }))
    }

    pub(crate) fn of_speech(model: Transcriber) -> Self {
        Self(Kind::Speech(model))
    }

    /// The model that writes.
    pub fn text(&self) -> Result<&strata::Model, Error> {
        self.text_model().map(Deref::deref)
    }

    pub(crate) fn text_model(&self) -> Result<&TextModel, Error> {
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
                Err(error.with_hint("open a Whisper, Wav2Vec2 or HuBERT model"))
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
