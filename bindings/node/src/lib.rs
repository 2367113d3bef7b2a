//! The native half of the Node package: models, streams and sessions over JSON texts. Nothing here waits on the event loop's
//! thread: a stream's waker calls back into it.

use napi::bindgen_prelude::{AsyncTask, Buffer, Either, Function, Task, Uint8Array};
use napi::threadsafe_function::{ThreadsafeFunction, ThreadsafeFunctionCallMode};
use napi::{Env, Result, Status};
use napi_derive::napi;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::{Wake, Waker};
use strata_bindings as core;
use strata_bindings::{ErrorKind, Json, JsonStream, Next, SharedSession};

/// An error as the JavaScript half reads it.
fn raise(error: core::Error) -> napi::Error {
    let fields = Json::object([
        ("code", error.code().into()),
        ("message", error.to_string().into()),
        ("hint", error.hint().map(str::to_owned).into()),
    ]);
    napi::Error::new(Status::GenericFailure, fields.text())
}

fn closed() -> napi::Error {
    raise(core::Error::new(ErrorKind::Closed, "the model was closed"))
}

/// Calls back with the number of a stream that has something to read. It does not keep the process alive.
type Callback = ThreadsafeFunction<u32, (), u32, Status, false, true>;

/// Who is told of streams, one for each thread of JavaScript.
#[napi]
pub struct Listener(Arc<Callback>);

#[napi]
impl Listener {
    /// A listener that calls a function.
    #[napi(constructor)]
    pub fn new(callback: Function<'_, u32, ()>) -> Result<Self> {
        let callback = callback.build_threadsafe_function().weak::<true>();
        Ok(Self(Arc::new(callback.build()?)))
    }
}

struct Listening {
    callback: Arc<Callback>,
    number: u32,
}

impl Wake for Listening {
    fn wake(self: Arc<Self>) {
        let mode = ThreadsafeFunctionCallMode::NonBlocking;
        self.callback.call(self.number, mode);
    }
}

/// A model in memory, until it is closed.
#[napi]
pub struct RawModel(Mutex<Option<core::Model>>);

impl RawModel {
    fn of(model: core::Model) -> Self {
        Self(Mutex::new(Some(model)))
    }

    fn model(&self) -> Result<core::Model> {
        let model = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        model.clone().ok_or_else(closed)
    }
}

#[napi]
impl RawModel {
    /// Asks what the server is asked at a path.
    #[napi]
    pub fn request(&self, path: String, body: Option<String>) -> Result<RawStream> {
        let body = body.unwrap_or_default();
        let asked = core::request(&self.model()?, &path, body.as_bytes());
        asked.map(RawStream::of).map_err(raise)
    }

    /// A conversation that goes on after its tool calls.
    #[napi]
    pub fn chat_tools(&self, body: String) -> Result<RawStream> {
        let asked = core::chat_with_tools(&self.model()?, body.as_bytes());
        asked.map(RawStream::of).map_err(raise)
    }

    /// What is known of the model.
    #[napi]
    pub fn info(&self) -> Result<String> {
        Ok(core::info(&self.model()?).text())
    }

    /// Its adapters.
    #[napi]
    pub fn adapters(&self) -> Result<String> {
        Ok(core::adapters(&self.model()?).text())
    }

    /// Sets the strengths of adapters.
    #[napi]
    pub fn set_adapters(&self, scales: String) -> Result<()> {
        core::set_adapters(&self.model()?, scales.as_bytes()).map_err(raise)
    }

    /// The tokens of a text.
    #[napi]
    pub fn tokenize(&self, text: String) -> Result<Vec<u32>> {
        self.model()?.tokenize(&text).map_err(raise)
    }

    /// The text of tokens.
    #[napi]
    pub fn detokenize(&self, tokens: Vec<u32>) -> Result<String> {
        self.model()?.detokenize(&tokens).map_err(raise)
    }

    /// An empty session.
    #[napi]
    pub fn session(&self) -> Result<RawSession> {
        let session = SharedSession::new(&self.model()?);
        session.map(RawSession).map_err(raise)
    }

    /// A session that was saved.
    #[napi]
    pub fn restore(&self, saved: Uint8Array) -> Result<AsyncTask<Restoring>> {
        Ok(AsyncTask::new(Restoring(self.model()?, saved.to_vec())))
    }

    /// Lets go of the model.
    #[napi]
    pub fn close(&self) -> Result<AsyncTask<Closing>> {
        let mut model = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(AsyncTask::new(Closing(model.take())))
    }
}

/// Documents that are taken with one call at most.
const AT_ONCE: usize = 64;

/// An answer on its way.
#[napi]
pub struct RawStream {
    stream: JsonStream,
    /// Tells the listener of this stream.
    waker: OnceLock<Waker>,
}

impl RawStream {
    fn of(stream: JsonStream) -> Self {
        Self {
            stream,
            waker: OnceLock::new(),
        }
    }
}

#[napi]
impl RawStream {
    /// The documents that are there; null after the last. If there are none, how many milliseconds to let some gather before
    /// one asks again, or 0. The listener is told, once, by this number, when to ask before that.
    #[napi]
    pub fn take(
        &self,
        listener: &Listener,
        number: u32,
    ) -> Result<Option<Either<Vec<String>, u32>>> {
        let mut documents = Vec::new();
        while documents.len() < AT_ONCE {
            match self.stream.try_next() {
                Next::Document(text) => documents.push(text),
                Next::Pending => break,
                _ if !documents.is_empty() => break,
                Next::End => return Ok(None),
                Next::Failed(error) => return Err(raise(error)),
            }
        }
        if !documents.is_empty() {
            return Ok(Some(Either::A(documents)));
        }
        let waker = self.waker.get_or_init(|| {
            let callback = Arc::clone(&listener.0);
            Waker::from(Arc::new(Listening { callback, number }))
        });
        let pause = self.stream.pause().as_micros().div_ceil(1000) as u32;
        if pause > 0 {
            self.stream.wake_from_pause(waker);
        } else {
            self.stream.wake(waker);
        }
        Ok(Some(Either::B(pause)))
    }

    /// Cancels it.
    #[napi]
    pub fn cancel(&self) {
        self.stream.cancel();
    }

    /// Gives the result of a tool call.
    #[napi]
    pub fn tool_result(&self, id: String, text: String) -> Result<()> {
        self.stream.tool_result(&id, &text).map_err(raise)
    }

    /// The model of a load that has ended.
    #[napi]
    pub fn model(&self) -> Option<RawModel> {
        self.stream.take_model().map(RawModel::of)
    }
}

/// A text that grows over many requests.
#[napi]
pub struct RawSession(SharedSession);

#[napi]
impl RawSession {
    /// Holds later runs to constraints.
    #[napi]
    pub fn constrain(&self, constraints: String) -> Result<()> {
        self.0.constrain(constraints.as_bytes()).map_err(raise)
    }

    /// Appends to the text.
    #[napi]
    pub fn append(&self, text: String) -> Result<()> {
        self.0.append(&text).map_err(raise)
    }

    /// Continues the text.
    #[napi]
    pub fn run(&self, body: String) -> Result<RawStream> {
        self.0
            .run(body.as_bytes())
            .map(RawStream::of)
            .map_err(raise)
    }

    /// The text so far.
    #[napi]
    pub fn text(&self) -> String {
        self.0.text()
    }

    /// Another session with the same text.
    #[napi]
    pub fn fork(&self) -> RawSession {
        Self(self.0.fork())
    }

    /// The session as bytes.
    #[napi]
    pub fn save(&self) -> AsyncTask<Saving> {
        AsyncTask::new(Saving(self.0.clone()))
    }
}

/// Saves a session on another thread.
pub struct Saving(SharedSession);

impl Task for Saving {
    type Output = Vec<u8>;
    type JsValue = Buffer;

    fn compute(&mut self) -> Result<Self::Output> {
        self.0.save().map_err(raise)
    }

    fn resolve(&mut self, _: Env, bytes: Self::Output) -> Result<Self::JsValue> {
        Ok(bytes.into())
    }
}

/// Restores a session on another thread.
pub struct Restoring(core::Model, Vec<u8>);

impl Task for Restoring {
    type Output = SharedSession;
    type JsValue = RawSession;

    fn compute(&mut self) -> Result<Self::Output> {
        SharedSession::restore(&self.0, &self.1).map_err(raise)
    }

    fn resolve(&mut self, _: Env, session: Self::Output) -> Result<Self::JsValue> {
        Ok(RawSession(session))
    }
}

/// Lets go of a model on another thread: unloading takes a moment.
pub struct Closing(Option<core::Model>);

impl Task for Closing {
    type Output = ();
    type JsValue = ();

    fn compute(&mut self) -> Result<Self::Output> {
        drop(self.0.take());
        Ok(())
    }

    fn resolve(&mut self, _: Env, (): ()) -> Result<()> {
        Ok(())
    }
}

/// Plans on another thread: it reads the model's file.
pub struct Planning(String, String);

impl Task for Planning {
    type Output = String;
    type JsValue = String;

    fn compute(&mut self) -> Result<Self::Output> {
        let plan = core::plan(&self.0, self.1.as_bytes()).map_err(raise)?;
        Ok(plan.text())
    }

    fn resolve(&mut self, _: Env, plan: String) -> Result<String> {
        Ok(plan)
    }
}

/// What a model would take.
#[napi]
pub fn plan(model: String, options: String) -> AsyncTask<Planning> {
    AsyncTask::new(Planning(model, options))
}

/// Opens a model; the stream tells how far it is.
#[napi]
pub fn load(model: String, options: String) -> Result<RawStream> {
    let loading = core::load(&model, options.as_bytes());
    loading.map(RawStream::of).map_err(raise)
}

/// What this build can do.
#[napi]
pub fn features() -> Vec<String> {
    core::FEATURES.iter().map(|&name| name.into()).collect()
}
