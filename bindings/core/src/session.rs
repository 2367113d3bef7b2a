//! Sessions that several threads can hold: a text that grows over many requests.

use crate::request::{generate, read, stamp, work};
use crate::stream::JsonStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use strata::chat_types::Event;
use strata::{Error, ErrorKind, Json, Model, Prompt, PromptPart, Session};
use strata_wire::call::Call;

/// A session. Clones lead to the same one.
#[derive(Clone)]
pub struct SharedSession {
    model: Model,
    state: Arc<Mutex<State>>,
}

struct State {
    session: Session,
    /// Whether a run is on its way.
    runs: bool,
}

impl SharedSession {
    /// An empty session.
    pub fn new(model: &crate::Model) -> Result<Self, Error> {
        let model = model.text()?;
        Ok(Self::of(model, model.session()))
    }

    /// Reads a session that was [saved](Self::save) with the same model. The bytes need not be trusted.
    pub fn restore(model: &crate::Model, bytes: &[u8]) -> Result<Self, Error> {
        let model = model.text()?;
        let session = Session::restore(model, bytes.to_vec())?;
        Ok(Self::of(model, session))
    }

    fn of(model: &Model, session: Session) -> Self {
        Self {
            model: model.clone(),
            state: Arc::new(Mutex::new(State {
                session,
                runs: false,
            })),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of a session that does not run.
    fn at_rest(&self) -> Result<MutexGuard<'_, State>, Error> {
        let state = self.state();
        if state.runs {
            let what = "the session is running: read its stream to the end, or cancel it";
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        Ok(state)
    }

    /// Appends to the text. Control tokens in it are read as such.
    pub fn append(&self, text: &str) -> Result<(), Error> {
        self.at_rest()?.session.append(text);
        Ok(())
    }

    /// The text so far. Control tokens are left out.
    pub fn text(&self) -> String {
        self.state().session.text()
    }

    /// The number of tokens so far.
    pub fn tokens(&self) -> usize {
        self.state().session.tokens().len()
    }

    /// Continues the text, as a body of `/v1/completions` without its prompt says. What was generated is appended when the
    /// stream has been read to its end; where it fails or is canceled the text stays as it was.
    pub fn run(&self, body: &[u8]) -> Result<JsonStream, Error> {
        let mut fields = match body {
            [] => Json::object([]),
            body => Json::parse(body)?,
        };
        if ["prompt", "suffix", "echo", "n", "best_of"]
            .iter()
            .any(|name| fields.get(name).is_some())
        {
            let what =
                "a session has one prompt, its text: leave prompt, suffix, echo, n and best_of out";
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        fields.push("prompt", "");
        let mut bytes = Vec::new();
        fields.write(&mut bytes);
        let stamp = stamp();
        let Call::Generate(mut request, writer) = read("/v1/completions", &bytes, &stamp)? else {
            return Err(Error::new(ErrorKind::Internal, "no completion"));
        };
        let mut state = self.at_rest()?;
        let tokens = state.session.tokens().to_vec();
        request.prompts = vec![Prompt::Raw(vec![PromptPart::Tokens(tokens)])];
        request.tokens = true;
        request.bos = false;
        state.runs = true;
        drop(state);
        let run = SessionRun {
            session: self.clone(),
            tokens: Vec::new(),
        };
        let stream = JsonStream::new(Some(self.model.clone()));
        work(&self.model, &stream, move |model| {
            generate(model, *request, writer, &stamp, Some(run))
        })?;
        Ok(stream)
    }

    /// Another session with the same text.
    pub fn fork(&self) -> Self {
        Self::of(&self.model, self.state().session.fork())
    }

    /// The session with what the cache holds of it, as bytes.
    pub fn save(&self) -> Result<Vec<u8>, Error> {
        let session = self.state().session.clone();
        session.save()
    }
}

/// A run of a session: gathers what is generated. Dropping it ends the run.
pub(crate) struct SessionRun {
    session: SharedSession,
    tokens: Vec<u32>,
}

impl SessionRun {
    pub(crate) fn hear(&mut self, event: &Event) {
        if let Event::Token { token, .. } = event {
            self.tokens.push(*token);
        }
    }

    /// Appends what was generated.
    pub(crate) fn complete(mut self) {
        let tokens = std::mem::take(&mut self.tokens);
        self.session.state().session.append_tokens(&tokens);
    }
}

impl Drop for SessionRun {
    fn drop(&mut self) {
        self.session.state().runs = false;
    }
}
