//! Sessions: a text that grows over many requests, can be forked, and outlives the process.

use crate::error::{Error, ErrorKind};
use crate::model::Model;
use crate::worker::Heard;
use strata_chat::{Sampling, refusal};
use strata_engine::{EventKind, Request, Session as Tokens};
use strata_tokenizer::EncodeOptions;

/// A text and how it goes on. What was computed of it stays in the model's cache for as long as there is room.
#[derive(Clone)]
pub struct Session {
    model: Model,
    text: Tokens,
}

impl Session {
    pub(crate) fn new(model: Model) -> Self {
        Self {
            model,
            text: Tokens::open(Request::default()),
        }
    }

    /// Adds to the text. Control tokens in it are read as such.
    pub fn append(&mut self, text: &str) {
        let options = EncodeOptions {
            add_special: self.text.tokens().is_empty(),
            parse_special: true,
        };
        let tokens = self.model.profile().tokenizer.encode(text, options);
        self.text.append(&tokens);
    }

    /// The text so far.
    pub fn text(&self) -> String {
        self.model.detokenize(self.text.tokens())
    }

    /// The text so far, as tokens.
    pub fn tokens(&self) -> &[u32] {
        self.text.tokens()
    }

    /// Lets the text go on for so many tokens at most, and appends what came.
    pub fn run(&mut self, max_tokens: usize, sampling: &Sampling) -> Result<String, Error> {
        let profile = self.model.profile();
        let mut request = self.text.request();
        request.max_tokens = Some(max_tokens);
        request.sampling = profile.sampling_settings(sampling, 0);
        let mut running = self.model.submit(request, &[]);
        let (mut tokens, mut text) = (Vec::new(), String::new());
        loop {
            let event = match running.next_blocking().ok_or_else(Error::closed)? {
                Heard::Refused(error) => return Err(refusal(&error).into()),
                Heard::Event(event) => event,
            };
            match event.kind {
                EventKind::Token {
                    token, text: new, ..
                } => {
                    tokens.push(token);
                    text.push_str(&new);
                }
                EventKind::Finished { text: rest, .. } => {
                    text.push_str(&rest);
                    break;
                }
                EventKind::Failed(error) => return Err(Error::new(ErrorKind::Internal, error)),
                _ => {}
            }
        }
        running.end();
        self.text.append(&tokens);
        Ok(text)
    }

    /// Another session with the same text, which shares what was computed of it.
    #[must_use]
    pub fn fork(&self) -> Self {
        self.clone()
    }

    /// Writes the session down, with what is in the cache of it. The model must have been opened with
    /// [`Options::sessions`](crate::Options::sessions), so that the bytes can be matched to its weights.
    pub fn save(&self) -> Result<Vec<u8>, Error> {
        let text = self.text.clone();
        self.model.with_engine(move |engine| text.save(engine))
    }

    /// Reads a session that was saved with the same model.
    pub fn restore(model: &Model, bytes: Vec<u8>) -> Result<Self, Error> {
        let restored =
            model.with_engine(move |engine| Tokens::restore(engine, Request::default(), &bytes))?;
        Ok(Self {
            model: model.clone(),
            text: restored?,
        })
    }
}
