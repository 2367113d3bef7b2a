//! Sessions: a text that grows over many requests, can be forked, and outlives the process.

use crate::error::{Error, ErrorKind};
use crate::model::Model;
use crate::worker::Heard;
use strata_chat::{AnswerConstraint, Constraints, Format, Sampling, prompt};
use strata_engine::{EventKind, Request, RestoreError, Session as Saved};
use strata_tokenizer::EncodeOptions;

/// A text that grows over many runs. With an encoder-decoder what stands there before the first run is the source, and what
/// comes after it the answer. It holds its tokens; what was computed of them stays in the model's cache for as long as
/// there is room, and is computed again if there is not.
#[derive(Clone)]
pub struct Session {
    model: Model,
    tokens: Vec<u32>,
    constraints: Constraints,
}

/// A place in a session's text to [come back](Session::return_to) to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint(usize);

impl Session {
    pub(crate) fn new(model: Model) -> Self {
        Self {
            model,
            tokens: Vec::new(),
            constraints: Constraints::default(),
        }
    }

    /// Holds all later runs to constraints: what they may take, what they may write, where nothing of them may go.
    #[must_use]
    pub fn constrained(mut self, constraints: Constraints) -> Self {
        self.constraints = constraints;
        self
    }

    /// The constraints of its runs.
    pub fn constraints(&self) -> &Constraints {
        &self.constraints
    }

    /// The place where the text ends now.
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint(self.tokens.len())
    }

    /// Forgets what came after a checkpoint of this session, or of one that it is a [fork](Self::fork) of.
    pub fn return_to(&mut self, checkpoint: Checkpoint) {
        self.tokens.truncate(checkpoint.0);
    }

    /// Appends to the text. Control tokens in it are read as such.
    pub fn append(&mut self, text: &str) {
        let options = EncodeOptions {
            add_special: false,
            parse_special: true,
        };
        let tokenizer = &self.model.profile().tokenizer;
        let mut tokens = tokenizer.encode(text, options);
        if self.tokens.is_empty() {
            tokens = prompt::begin(tokenizer, tokens);
        }
        self.tokens.extend(tokens);
    }

    /// Appends tokens to the text: an answer that was generated elsewhere.
    pub fn append_tokens(&mut self, tokens: &[u32]) {
        self.tokens.extend(tokens);
    }

    /// The text so far. Control tokens are left out.
    pub fn text(&self) -> String {
        self.model.detokenize(&self.tokens)
    }

    /// The text so far, as tokens.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Continues the text by `max_tokens` at most, appends what was generated, and returns it. What `sampling` does not say
    /// is left to the model. Where it fails the text stays as it was.
    pub fn run(&mut self, max_tokens: usize, sampling: &Sampling) -> Result<String, Error> {
        let profile = self.model.profile();
        let mut prompt = self.tokens.clone();
        profile.end_source(&mut prompt, true);
        let mut request = Request {
            prompt: prompt.clone(),
            max_tokens: Some(max_tokens),
            sampling: profile.sampling_settings(sampling, self.model.stamp().seed),
            speculation: profile.speculation,
            ..Request::default()
        };
        self.constraints.apply(&mut request);
        if self.constraints.format != Format::Text {
            let constraint = AnswerConstraint::Format(self.constraints.format.clone());
            request.constraint = Some(self.model.compile(&constraint)?);
        }
        let mut running = self.model.submit(request, &[]);
        let (mut tokens, mut text) = (Vec::new(), String::new());
        loop {
            let event = match running.next_blocking().ok_or_else(Error::closed)? {
                Heard::Refused(error) => return Err(error.into()),
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
                EventKind::Failed(error) => return Err(error.into()),
                _ => {}
            }
        }
        running.end();
        self.tokens = prompt;
        self.tokens.extend(tokens);
        Ok(text)
    }

    /// Another session with the same text. Both share what was computed of it.
    #[must_use]
    pub fn fork(&self) -> Self {
        self.clone()
    }

    /// Writes the session down, with what the cache holds of it. A model that was opened with
    /// [`Options::sessions`](crate::Options::sessions) goes on from there without computing the text again; without it
    /// only the text is restored, and nothing keeps another model from reading it. One that must
    /// [never be on a disk](strata_engine::Privacy::never_to_disk) is refused: nobody knows where the bytes go.
    pub fn save(&self) -> Result<Vec<u8>, Error> {
        if self.constraints.privacy.never_to_disk {
            let problem = "the session must never be on a disk, so it cannot be saved";
            return Err(Error::new(ErrorKind::InvalidArgument, problem));
        }
        let saved = Saved::open(Request {
            prompt: self.tokens.clone(),
            privacy: self.constraints.privacy,
            ..Request::default()
        });
        self.model.with_engine(move |engine| saved.save(engine))
    }

    /// Reads a session that was [saved](Self::save) with the same model, perhaps by another process. The bytes need not be
    /// trusted.
    pub fn restore(model: &Model, bytes: Vec<u8>) -> Result<Self, Error> {
        let restored =
            model.with_engine(move |engine| Saved::restore(engine, Request::default(), &bytes))?;
        Ok(Self {
            model: model.clone(),
            tokens: restored?.tokens().to_vec(),
            constraints: Constraints::default(),
        })
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = f.debug_struct("Session");
        shown.field("model", &self.model);
        shown.field("tokens", &self.tokens().len());
        shown.finish()
    }
}

impl From<RestoreError> for Error {
    fn from(error: RestoreError) -> Self {
        let kind = match error {
            RestoreError::TooLong { .. } => ErrorKind::ContextExceeded,
            _ => ErrorKind::InvalidArgument,
        };
        Self::new(kind, error)
    }
}
