//! Sessions that several threads can hold: a text that grows over many requests.

use crate::request::{generate, read, stamp, work};
use crate::stream::JsonStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use strata::chat_types::Event;
use strata::{Constraints, Error, ErrorKind, Json, Prompt, PromptPart, Session};
use strata_wire::call::Call;
use strata_wire::sessions::read_open;

/// A session. Clones lead to the same one.
#[derive(Clone)]
pub struct SharedSession {
    model: crate::Model,
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
        Ok(Self::of(model, model.text()?.session()))
    }

    /// Reads a session that was [saved](Self::save) with the same model. The bytes need not be trusted.
    pub fn restore(model: &crate::Model, bytes: &[u8]) -> Result<Self, Error> {
        let session = Session::restore(model.text()?, bytes.to_vec())?;
        Ok(Self::of(model, session))
    }

    fn of(model: &crate::Model, session: Session) -> Self {
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

    /// Holds all later runs to constraints, in place of those before: an object of `deadline_ms`, `first_token_ms`, `token_ms`,
    /// `memory` in bytes, `response_format` and the like, `never_to_disk`, `never_off_machine`. Forks have them too.
    pub fn constrain(&self, json: &[u8]) -> Result<(), Error> {
        let open = read_open(json)?;
        if open.model.is_some() {
            let what = "model: a session stays with the model that it was opened on";
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        if open.constraints.privacy.never_off_machine && !self.model.text()?.peers().is_empty() {
            let what = "never_off_machine: this model is computed on other machines too";
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        let mut state = self.at_rest()?;
        state.session = state.session.clone().constrained(open.constraints);
        Ok(())
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
        let model = self.model.text_model()?;
        let mut state = self.at_rest()?;
        let constraints = state.session.constraints().clone();
        constraints.shape(&mut request)?;
        let tokens = state.session.tokens().to_vec();
        request.prompts = vec![Prompt::Raw(vec![PromptPart::Tokens(tokens)])];
        request.tokens = true;
        request.bos = false;
        state.runs = true;
        drop(state);
        let run = SessionRun {
            session: self.clone(),
            constraints,
            tokens: Vec::new(),
        };
        let stream = JsonStream::new(Some(model.clone()));
        work(model, &stream, move |model| {
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
    constraints: Constraints,
    tokens: Vec<u32>,
}

impl SessionRun {
    /// What its requests are held to.
    pub(crate) fn constraints(&self) -> &Constraints {
        &self.constraints
    }

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
