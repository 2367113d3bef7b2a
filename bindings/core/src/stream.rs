//! A stream of JSON documents: the answer to a request, or the progress of a load.

use crate::model::{Model, TextModel};
use crate::pace::Pace;
use crate::request::work;
use crate::signal::{Hurry, Signal};
use crate::source::Source;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use strata::{Error, ErrorKind};

/// A wait so long is one without end: later moments may not exist on the clock.
const ENDLESS: Duration = Duration::from_secs(1 << 32);

/// Documents that are taken in before one is given: canceling waits no longer than this takes.
const AT_ONCE: usize = 16;

/// What comes next of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// A JSON document.
    Document(String),
    /// Nothing yet.
    Pending,
    /// Nothing more.
    End,
    /// It failed or was canceled; nothing follows.
    Failed(Error),
}

/// A stream of JSON documents. Clones lead to the same stream; dropping the last one cancels its request.
#[derive(Clone)]
pub struct JsonStream(Arc<Owner>);

/// The handles of a stream, all together. What works for it has the [`Shared`] half alone.
struct Owner(Arc<Shared>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

pub(crate) struct Shared {
    state: Mutex<State>,
    signal: Arc<Signal>,
    canceled: AtomicBool,
    /// Kept as long as the stream, so that a model that its owner has dropped still answers.
    model: Option<TextModel>,
}

pub(crate) struct State {
    source: Source,
    documents: VecDeque<String>,
    pace: Pace,
    failure: Option<Error>,
    /// What a load has loaded.
    loaded: Option<Model>,
}

impl JsonStream {
    /// A stream that some other thread will give its [source](Shared::begin).
    pub(crate) fn new(model: Option<TextModel>) -> Self {
        Self(Arc::new(Owner(Arc::new(Shared {
            state: Mutex::new(State {
                source: Source::Awaited,
                documents: VecDeque::new(),
                pace: Pace::default(),
                failure: None,
                loaded: None,
            }),
            signal: Arc::default(),
            canceled: AtomicBool::new(false),
            model,
        }))))
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.0.0)
    }

    /// What comes next. Waits for it for `time` at most, or without limit.
    pub fn next(&self, time: Option<Duration>) -> Next {
        let end = time.filter(|time| *time < ENDLESS);
        let end = end.map(|time| Instant::now() + time);
        loop {
            match self.try_next() {
                Next::Pending if self.wait(end) => {}
                next => return next,
            }
        }
    }

    /// Waits until it is worth while to look again. False if `end` comes first.
    fn wait(&self, end: Option<Instant>) -> bool {
        let pause = self.pause();
        if pause.is_zero() {
            return self.0.0.signal.wait(end);
        }
        let now = Instant::now();
        let (moment, end) = (now + pause, end.unwrap_or(now + pause));
        self.0.0.signal.doze(moment.min(end));
        now < end
    }

    /// How long to let documents gather before one waits to be woken: not at all, or, where they come so fast that waking
    /// somebody for each would keep the engine from computing, some milliseconds.
    pub fn pause(&self) -> Duration {
        self.0.0.pause()
    }

    /// Wakes a task that makes a [pause](Self::pause) where the answer ends before that.
    pub fn wake_from_pause(&self, task: &Waker) {
        self.0.0.signal.wake_dozing(task);
    }

    /// What comes next, if it is there already.
    pub fn try_next(&self) -> Next {
        self.0.0.try_next()
    }

    /// What comes next, or a promise to wake the task.
    pub fn poll_next(&self, context: &mut Context<'_>) -> Poll<Next> {
        match self.try_next() {
            Next::Pending => {
                self.0.0.signal.wake_task(context.waker());
                Poll::Pending
            }
            next => Poll::Ready(next),
        }
    }

    /// Wakes a task, once, when there is something to read.
    pub fn wake(&self, task: &Waker) {
        self.0.0.signal.wake_task(task);
    }

    /// A file descriptor for event loops: while it can be read, [`try_next`](Self::try_next) is worth a call. It is the
    /// stream's own and must be neither read nor closed. Windows has none, which is an error.
    pub fn descriptor(&self) -> Result<i32, Error> {
        let made = self.0.0.signal.descriptor();
        made.map_err(|error| Error::io("the stream's pipe", &error))
    }

    /// Cancels what the stream waits for, at any time, from any thread; it fails with [`ErrorKind::Canceled`]. One that has
    /// ended stays as it is.
    pub fn cancel(&self) {
        self.0.0.cancel();
    }

    /// Gives the result of a tool call that the stream has told of. With the last one the conversation goes on.
    pub fn tool_result(&self, id: &str, text: &str) -> Result<(), Error> {
        let shared = &self.0.0;
        let mut state = shared.state();
        let Source::Calls(rounds) = &mut state.source else {
            let what = "the stream waits for no result";
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        };
        if !rounds.result(id, text)? {
            return Ok(());
        }
        let Source::Calls(rounds) = std::mem::replace(&mut state.source, Source::Awaited) else {
            return Ok(());
        };
        drop(state);
        match &shared.model {
            Some(model) => work(model, self, move |model| rounds.go_on(model)),
            None => Ok(()),
        }
    }

    /// The model of a [load](crate::load) that has ended, once.
    pub fn take_model(&self) -> Option<Model> {
        self.0.0.state().loaded.take()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody wants the rest.
    pub(crate) fn is_canceled(&self) -> bool {
        self.canceled.load(Ordering::Relaxed)
    }

    /// Gives the stream what its documents come from, unless it was canceled.
    pub(crate) fn begin(&self, source: Source) {
        let mut state = self.state();
        if matches!(state.source, Source::Awaited) {
            state.source = source;
            drop(state);
            self.signal.set();
        }
    }

    /// Adds a document, in place of the one before if that has not been read.
    pub(crate) fn replace(&self, document: String) {
        let mut state = self.state();
        if matches!(state.source, Source::Awaited) {
            state.documents.clear();
            state.documents.push_back(document);
            drop(state);
            self.signal.set();
        }
    }

    /// Adds a document to those that wait.
    pub(crate) fn add(&self, document: String) {
        let mut state = self.state();
        if matches!(state.source, Source::Awaited) {
            state.documents.push_back(document);
            drop(state);
            self.signal.set();
        }
    }

    /// Ends the stream.
    pub(crate) fn end(&self, outcome: Result<Ending, Error>) {
        let mut state = self.state();
        if !matches!(state.source, Source::Awaited) {
            return;
        }
        state.source = Source::Over;
        match outcome {
            Ok(Ending::Document(text)) => state.documents.push_back(text),
            Ok(Ending::Model(model)) => state.loaded = Some(model),
            Ok(Ending::Told) => {}
            Err(error) => state.failure = Some(error),
        }
        drop(state);
        self.signal.set();
    }

    fn cancel(&self) {
        self.canceled.store(true, Ordering::Relaxed);
        let mut state = self.state();
        if matches!(state.source, Source::Over) {
            return;
        }
        let source = std::mem::replace(&mut state.source, Source::Over);
        state.documents.clear();
        let what = "the request was canceled";
        state.failure = Some(Error::new(ErrorKind::Canceled, what));
        drop(state);
        drop(source);
        self.signal.hurry();
    }

    fn pause(&self) -> Duration {
        let mut state = self.state();
        let pause = state.pace.pause(Instant::now());
        if pause.is_zero() {
            return pause;
        }
        // What was in a hurry before has been seen; what is from now on ends the pause.
        self.signal.calm();
        let waker = Waker::from(Arc::new(Hurry(Arc::clone(&self.signal))));
        if state.source.goes_on(&mut Context::from_waker(&waker)) {
            pause
        } else {
            Duration::ZERO
        }
    }

    fn try_next(&self) -> Next {
        let mut state = self.state();
        let State {
            source,
            documents,
            pace,
            failure,
            ..
        } = &mut *state;
        if documents.is_empty() {
            self.signal.clear();
            let waker = Waker::from(Arc::clone(&self.signal));
            let mut context = Context::from_waker(&waker);
            // What has happened already is taken in at once, so that the signal is set only where there is more.
            while documents.len() < AT_ONCE
                && !matches!(source, Source::Over)
                && let Poll::Ready(polled) = source.poll(&mut context, documents)
            {
                if let Err(error) = polled {
                    *failure = Some(error);
                }
            }
            if !documents.is_empty() {
                pace.gave(documents.len(), Instant::now());
            }
        }
        let next = match (documents.pop_front(), &*source, &*failure) {
            (Some(document), ..) => Next::Document(document),
            (None, Source::Over, Some(error)) => Next::Failed(error.clone()),
            (None, Source::Over, None) => Next::End,
            _ => Next::Pending,
        };
        if !documents.is_empty() || matches!(source, Source::Over) {
            self.signal.set();
        }
        next
    }
}

/// How a stream without events ends.
pub(crate) enum Ending {
    Document(String),
    Model(Model),
    /// All documents were added before.
    Told,
}

impl fmt::Debug for JsonStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonStream").finish_non_exhaustive()
    }
}
