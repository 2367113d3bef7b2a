//! The handle to a model.

use crate::error::Error;
use crate::events::Events;
use crate::load::{GrammarCompiler, Limit};
use crate::open::{self, Listeners, Runtime, limit};
use crate::options::Options;
use crate::parts::LoadReport;
use crate::peers::PeerState;
use crate::plan::{self, Plan};
use crate::request::Request;
use crate::session::Session;
use crate::worker::{RequestHandle, Worker};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use strata_chat::{
    AnswerConstraint, AnswerStream, Arrival, Fault, Generate, Message, ModelFacts, ModelProfile,
    Prepared, Prompt, RequestContext, prepare,
};
use strata_engine::{ClientId, Counters, Engine};
use strata_template::jinja::DateTime;
use strata_tokenizer::{DecodeOptions, EncodeOptions};

/// A model in memory, ready to be asked, from any number of threads at once.
///
/// Clones are handles to the same model; requests, answers and sessions hold one too. When the last handle is dropped the
/// model is unloaded, and the drop returns once its memory is free.
#[derive(Clone)]
pub struct Model(Arc<Inner>);

struct Inner {
    worker: Worker,
    compiler: Arc<GrammarCompiler>,
    profile: Arc<ModelProfile>,
    facts: ModelFacts,
    load: LoadReport,
    requests: AtomicU64,
}

/// Who asks, and when, for those who serve several clients.
#[derive(Copy, Clone, Debug, Default)]
pub struct Caller {
    /// Clients find only what they computed themselves in the cache.
    pub client: u64,
    /// When the request came, on the clock that its events are timed with.
    pub arrival: Arrival,
    /// Where that clock began; now if not given.
    pub clock: Option<Instant>,
}

/// When a request came, its name, and a seed where it gives none.
pub(crate) struct Stamp {
    since: Duration,
    id: String,
    pub(crate) seed: u64,
}

impl Stamp {
    fn context(&self) -> RequestContext<'_> {
        RequestContext {
            now: Some(DateTime::from_unix(self.since.as_secs() as i64)),
            seed: self.seed,
            id: &self.id,
        }
    }
}

impl Model {
    pub(crate) fn new(
        worker: Worker,
        compiler: Arc<GrammarCompiler>,
        profile: Arc<ModelProfile>,
        facts: ModelFacts,
        load: LoadReport,
    ) -> Self {
        Self(Arc::new(Inner {
            worker,
            compiler,
            profile,
            facts,
            load,
            requests: AtomicU64::new(0),
        }))
    }

    /// Opens a model: a GGUF file, a Hugging Face folder, the name of a model in the store, or `tale`, which is built in. What
    /// it takes is planned first; where there is not enough memory it is refused before anything is loaded.
    pub fn open(model: impl AsRef<Path>, options: Options) -> Result<Self, Error> {
        let runtime = Runtime::new(options.threads)?;
        Self::open_on(&runtime, model, options, Listeners::default())
    }

    /// Opens a model, with `progress` told of bytes loaded and bytes in all. It cancels with [`ControlFlow::Break`].
    pub fn open_with_progress(
        model: impl AsRef<Path>,
        options: Options,
        mut progress: impl FnMut(usize, usize) -> ControlFlow<()>,
    ) -> Result<Self, Error> {
        let runtime = Runtime::new(options.threads)?;
        let listeners = Listeners {
            progress: Some(&mut progress),
            ..Listeners::default()
        };
        Self::open_on(&runtime, model, options, listeners)
    }

    /// Opens a model on a runtime that it shares with others. [`Options::threads`] does not count here.
    pub fn open_on(
        runtime: &Runtime,
        model: impl AsRef<Path>,
        options: Options,
        listeners: Listeners<'_>,
    ) -> Result<Self, Error> {
        open::open(model.as_ref(), &options, runtime, listeners)
    }

    /// Says how much memory a model would take, without loading it.
    pub fn plan(model: impl AsRef<Path>, options: &Options) -> Result<Plan, Error> {
        plan::plan(model.as_ref(), options, limit(options)?)
    }

    /// Says how much memory a model would take, against so many bytes instead of what this machine has.
    pub fn plan_within(
        model: impl AsRef<Path>,
        options: &Options,
        bytes: u64,
    ) -> Result<Plan, Error> {
        plan::plan(model.as_ref(), options, Limit::of(bytes))
    }

    /// Looks at a model's file without loading or planning it: what it is, and what requests would get of it.
    pub fn inspect(model: impl AsRef<Path>, options: &Options) -> Result<ModelFacts, Error> {
        plan::inspect(model.as_ref(), options)
    }

    /// A request to answer a conversation, through the model's chat template.
    pub fn chat(&self, messages: impl IntoIterator<Item = Message>) -> Request {
        let prompt = Prompt::Chat(messages.into_iter().collect());
        Request::new(self.clone(), Generate::new("", prompt))
    }

    /// A request to continue a text as it is, without a template.
    pub fn complete(&self, text: impl Into<String>) -> Request {
        Request::new(self.clone(), Generate::new("", Prompt::text(text)))
    }

    /// Starts a request in the form that every door shares and gives its events. Dropping them cancels it.
    pub fn generate(&self, request: &Generate) -> Result<Events, Error> {
        let prepared = self.prepare(request, self.stamp().context())?;
        Ok(self.start(request, prepared, Caller::default()))
    }

    /// What tells a request that comes now from all others.
    pub(crate) fn stamp(&self) -> Stamp {
        let number = self.0.requests.fetch_add(1, Ordering::Relaxed) + 1;
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let since = since.unwrap_or_default();
        Stamp {
            since,
            id: format!("{:x}-{number}", since.as_nanos()),
            seed: (since.as_nanos() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number,
        }
    }

    /// Makes a request ready: renders and tokenizes its prompts, compiles its constraint. May take a while.
    pub fn prepare(
        &self,
        request: &Generate,
        context: RequestContext<'_>,
    ) -> Result<Prepared, Fault> {
        let mut prepared = match &request.template {
            None => prepare(request, &self.0.profile, context)?,
            Some(source) => {
                let profile = self.0.profile.for_template(source);
                if let Some(Err(error)) = &profile.template {
                    let problem = format_args!("the request's template: {error}");
                    return Err(Fault::bad_request(problem));
                }
                prepare(request, &profile, context)?
            }
        };
        if prepared.constraint != AnswerConstraint::Free {
            let constraint = self.compile(&prepared.constraint)?;
            for request in &mut prepared.requests {
                request.constraint = Some(constraint.clone());
            }
        }
        Ok(prepared)
    }

    /// Compiles what constrains answers. May take a while.
    pub(crate) fn compile(
        &self,
        constraint: &AnswerConstraint,
    ) -> Result<Box<dyn strata_engine::Constraint>, Fault> {
        self.0.compiler.compile(constraint)
    }

    /// Hands a request that is ready to the engine. Never waits.
    pub fn start(&self, request: &Generate, prepared: Prepared, caller: Caller) -> Events {
        let (stream, requests) =
            AnswerStream::new(request, prepared, &self.0.profile, caller.arrival);
        let runs = requests.into_iter().map(|mut one| {
            one.client = ClientId(caller.client);
            self.submit(one, &request.adapters)
        });
        Events::new(runs.collect(), stream, caller.clock)
    }

    /// Hands a request to the engine in the engine's own form, with adapters by number and strength.
    pub fn submit(
        &self,
        request: strata_engine::Request,
        adapters: &[(usize, f32)],
    ) -> RequestHandle {
        self.0.worker.submit(request, adapters)
    }

    /// Like [`submit`](Self::submit); the engine takes it in the step after the one that gave `before` its first token.
    pub fn submit_after(
        &self,
        before: Option<&RequestHandle>,
        request: strata_engine::Request,
    ) -> RequestHandle {
        self.0.worker.submit_after(before, request, &[])
    }

    /// Tokenizes a text, with the tokens that the model wants around one. Control tokens in it are read as plain text.
    pub fn tokenize(&self, text: &str) -> Vec<u32> {
        let options = EncodeOptions {
            add_special: true,
            parse_special: false,
        };
        self.0.profile.tokenizer.encode(text, options)
    }

    /// Turns tokens into text. Control tokens are left out.
    pub fn detokenize(&self, tokens: &[u32]) -> String {
        let options = DecodeOptions::default();
        self.0.profile.tokenizer.decode(tokens, options)
    }

    /// Renders the chat template: what the model is given for a conversation.
    pub fn render(&self, messages: impl IntoIterator<Item = Message>) -> Result<String, Error> {
        let prompt = Prompt::Chat(messages.into_iter().collect());
        let prepared = self.prepare(&Generate::new("", prompt), self.stamp().context())?;
        Ok(prepared.rendered().text)
    }

    /// An empty session: a text that grows over many runs and can be saved, restored and forked.
    pub fn session(&self) -> Session {
        Session::new(self.clone())
    }

    /// What is known of the model.
    pub fn facts(&self) -> &ModelFacts {
        &self.0.facts
    }

    /// What requests see of the model.
    pub fn profile(&self) -> &Arc<ModelProfile> {
        &self.0.profile
    }

    /// Tokens of prompt and answer together, at most.
    pub fn context(&self) -> usize {
        self.0.profile.context
    }

    /// How long it took to load.
    pub fn load_time(&self) -> Duration {
        self.0.load.time
    }

    /// How it was loaded.
    pub fn load_report(&self) -> &LoadReport {
        &self.0.load
    }

    /// How the machines stand that have some of its layers, in the order of these.
    pub fn peers(&self) -> Vec<PeerState> {
        self.0.load.peers.now()
    }

    /// The engine's numbers, as of its latest step.
    pub fn counters(&self) -> Counters {
        self.0.worker.counters()
    }

    /// The engine's thread, for servers.
    pub fn worker(&self) -> &Worker {
        &self.0.worker
    }

    /// Does something to the engine between two steps, and waits for it.
    pub(crate) fn with_engine<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Engine) -> T + Send + 'static,
    ) -> Result<T, Error> {
        self.0.worker.act_blocking(act).ok_or_else(Error::closed)
    }
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Model").field(&self.0.facts.name).finish()
    }
}
