//! From a name to a model at work: found, checked, planned, loaded.

use crate::ears::TowerEars;
use crate::error::{Error, ErrorKind};
use crate::load::{
    self, AdapterFile, CheckedModel, Limit, Lists, Machine, MemoryPlan, ModelFile, Needs,
    TokenizerUse, WeightChoice,
};
use crate::model::Model;
use crate::options::Options;
use crate::parts::{LoadReport, Parts};
use crate::peers::{self, PeerStates, refuse_others};
use crate::projector::{self, ProjectorFile};
use crate::sight::TowerSight;
use crate::size::Size;
use crate::worker::{LoadedAdapter, Monitor};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use strata_chat::json::Json;
use strata_chat::{Ears, ModelFacts, ModelProfile, Sight};
use strata_engine::{Engine, EngineOptions, ModelDigest};
use strata_host::{MonotonicClock, PageFiles};
use strata_model::spec::Role;
use strata_model::{Executor, PAGE, Stretch};
use strata_platform::Pool;

/// Tokens of a prompt whose log-probabilities are computed together.
const SCORING: usize = 32;

/// The part of the memory left that pages may take beyond the plan: one in so many.
const EXTRA_SHARE: u64 = 4;

/// Whole contexts that pages are added for at most. More requests than that share them: few are that long.
pub(crate) const MOST_CONTEXTS: usize = 16;

/// What several models share: the worker threads, and whose turn it is to compute. Clones lead to the same one.
#[derive(Clone)]
pub struct Runtime {
    pub(crate) machine: Arc<Machine>,
    pub(crate) clock: Arc<MonotonicClock>,
    /// Bytes of pages that open models have beyond their plans.
    extra: Arc<AtomicU64>,
}

impl Runtime {
    /// Starts `threads` workers, or one for each processor.
    pub fn new(threads: Option<usize>) -> Result<Self, Error> {
        Ok(Self {
            machine: Arc::new(Machine::new(threads)?),
            clock: Arc::default(),
            extra: Arc::default(),
        })
    }

    /// The workers and the kernels.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }
}

/// Who is told while a model is opened, and when it ends.
#[derive(Default)]
pub struct Listeners<'a> {
    /// Hears of bytes loaded and bytes in all; [`ControlFlow::Break`] cancels.
    pub progress: Option<&'a mut dyn FnMut(usize, usize) -> ControlFlow<()>>,
    /// Is told what the engine does.
    pub monitor: Option<Box<dyn Monitor>>,
    /// Is called when the model is gone.
    pub ended: Option<Box<dyn FnOnce() + Send>>,
}

impl Options {
    /// The memory that may be used, if it was limited.
    pub(crate) fn weight_choice(&self) -> Result<WeightChoice, Error> {
        let memory = match &self.memory {
            None => None,
            Some(Ok(Size(bytes))) => Some(*bytes),
            Some(Err(problem)) => return Err(Error::new(ErrorKind::InvalidArgument, problem)),
        };
        Ok(WeightChoice {
            stream: self.stream,
            memory,
        })
    }

    /// Checks a model's file, for the context that was asked for.
    pub(crate) fn check<'f>(
        &self,
        file: &'f ModelFile,
        tokenizer_use: TokenizerUse,
    ) -> Result<CheckedModel<'f>, Error> {
        self.check_part(file, tokenizer_use, None)
    }

    /// The same, where this machine has only a part of the model's layers.
    pub(crate) fn check_part<'f>(
        &self,
        file: &'f ModelFile,
        tokenizer_use: TokenizerUse,
        part: Option<Stretch>,
    ) -> Result<CheckedModel<'f>, Error> {
        let context = match (self.context, self.most_context) {
            (None, Some(most)) => file.own_context()?.map(|own| own.min(most)),
            (context, _) => context,
        };
        if context == Some(0) {
            let what = "a context of 0 tokens has no room for a prompt";
            return Err(Error::new(ErrorKind::InvalidArgument, what));
        }
        CheckedModel::of_part(file, context, tokenizer_use, (part, self.nextn()?))
    }

    fn engine(&self, checked: &CheckedModel<'_>) -> EngineOptions {
        checked.engine_options(EngineOptions {
            batch: match checked.role() {
                Role::Decoder => self.batch,
                // A text is never cut: the longest must fit.
                Role::Encoder => self.batch.max(checked.context),
            },
            requests: self.requests,
            scoring: SCORING,
            max_draft: self.draft_length(),
            ..EngineOptions::default()
        })
    }

    /// What a model takes that is opened so.
    pub(crate) fn needs(&self, checked: &CheckedModel<'_>, workers: usize) -> Needs {
        Needs::of_engine(&self.engine(checked), self.kv, workers)
    }
}

/// Opens a model on a runtime.
pub(crate) fn open(
    path: &Path,
    options: &Options,
    runtime: &Runtime,
    mut listeners: Listeners<'_>,
) -> Result<Model, Error> {
    let choice = options.weight_choice()?;
    let mut progress = |done, all| match &mut listeners.progress {
        Some(progress) => progress(done, all),
        None => ControlFlow::Continue(()),
    };
    let mut canceled = false;
    let file = ModelFile::open_as(path, options.quantize, &mut |done, all| {
        canceled = canceled || progress(done, all).is_break();
    })?;
    let file = file.allowing(options.untested);
    if canceled {
        return Err(Error::new(ErrorKind::Canceled, "the load was canceled"));
    }
    let machine = &runtime.machine;
    let checked = options.check(&file, TokenizerUse::Required)?;
    checked.check_kv(options.kv)?;
    if options.peers.is_some() {
        refuse_others(&file, options)?;
    }
    let Senses {
        sight,
        ears,
        description: perceiving,
    } = senses(&file, &checked, options, machine)?;
    let raised;
    let options = match &sight {
        // An image whose positions see each other is computed in one batch, beside what others decode.
        Some(sight) if sight.mutual() => {
            let needed = sight.config().positions() + options.requests;
            raised = options.clone().batch(options.batch.max(needed));
            &raised
        }
        _ => options,
    };
    let mut needs = options.needs(&checked, machine.pool.workers());
    let engine_options = options.engine(&checked);
    let mut profile = checked.profile()?;
    profile.speculation = options.speculation();
    profile.sight = sight.map(|sight| Arc::new(sight) as Arc<dyn Sight>);
    profile.ears = ears.map(|ears| Arc::new(ears) as Arc<dyn Ears>);
    let facts = facts(&file, &checked, Some(&profile), options)?;
    let draft = match &options.draft {
        Some(path) => Some(load_draft(path, options, &mut needs, runtime)?),
        None => None,
    };
    let device = crate::device::open(
        &file,
        options,
        (needs, &engine_options),
        runtime,
        &mut progress,
    )?;
    let mut extra = 0;
    let mut states = PeerStates::default();
    let (loaded, executor, mut description) = match (device, &options.peers) {
        (Some(opened), _) => {
            extra = opened.extra;
            (opened.loaded, opened.executor, opened.description)
        }
        (None, Some(peers)) => {
            let (whole, asked) = ((&file, &checked), (options, peers));
            let opened = peers::open(whole, asked, (needs, choice), machine, &mut progress)?;
            states = opened.states;
            (opened.loaded, opened.executor, opened.description)
        }
        (None, None) => {
            extra = add_pages(&mut needs, &checked, &engine_options, choice, runtime);
            let (loaded, storage) = checked.load_any(needs, choice, machine, &mut progress)?;
            let mut description = loaded.description("weights", &storage);
            let tuning = machine.tune(&loaded.model).to_string();
            if !tuning.is_empty() {
                description += &format!("\n{tuning}");
            }
            let executor = machine.executor(&loaded.model, storage, engine_options.limits());
            let executor: Box<dyn Executor> = Box::new(executor);
            (loaded, executor, description)
        }
    };
    profile.labels = loaded.model.labels();
    let profile = Arc::new(profile);
    if let Some((draft, storage)) = &draft {
        description += &format!("\n{}", draft.description("draft weights", storage));
    }
    description += &perceiving;
    let load = LoadReport {
        time: loaded.load_time,
        description,
        streamed_bytes: executor.memory().streamed as u64,
        extra_bytes: extra,
        peers: states,
    };
    let tokenizer = Arc::clone(&profile.tokenizer);
    let mut engine =
        Engine::new(executor, tokenizer, engine_options)
            .with_clock(Arc::<MonotonicClock>::clone(&runtime.clock));
    if options.cache.is_some() || options.sessions {
        let digest = ModelDigest(load::sha256(&file.parse()?));
        engine = match &options.cache {
            None => engine.with_digest(digest),
            Some((folder, limit)) => {
                let files = PageFiles::open(folder, *limit);
                let files = files.map_err(|error| Error::io(folder.display(), &error))?;
                engine.with_store(Box::new(files), digest)
            }
        };
    }
    if let Some((draft, storage)) = draft {
        let executor = machine.executor(&draft.model, storage, engine_options.limits());
        engine = engine
            .with_draft_model(Box::new(executor), draft.tokenizer()?)
            .map_err(|error| {
                Error::new(ErrorKind::InvalidArgument, error)
                    .with_hint("a draft model is a smaller model of the same family")
            })?;
    }
    let own = file.preset().filter(|_| options.adapters.is_empty());
    let own = own.map_or(&[][..], |preset| &preset.adapters);
    let own = own.iter().map(|path| AdapterFile {
        path: path.clone(),
        scale: 1.0,
    });
    let adapters = own
        .chain(options.adapters.iter().cloned())
        .map(|file| {
            Ok(LoadedAdapter {
                path: file.path.display().to_string(),
                adapter: Arc::new(file.load(&loaded.model)?),
                scale: file.scale,
            })
        })
        .collect::<Result<_, Error>>()?;
    let settling = Arc::clone(machine);
    let parts = Parts {
        engine,
        profile,
        facts,
        adapters,
        turns: Arc::clone(machine.turns()),
        settle: Box::new(move || settling.settle()),
        load,
    };
    let (extras, ended) = (Arc::clone(&runtime.extra), listeners.ended.take());
    extras.fetch_add(extra, Ordering::Relaxed);
    listeners.ended = Some(Box::new(move || {
        extras.fetch_sub(extra, Ordering::Relaxed);
        if let Some(ended) = ended {
            ended();
        }
    }));
    Model::from_parts(parts, listeners)
}

/// What a model perceives with, and lines about it.
#[derive(Default)]
struct Senses {
    sight: Option<TowerSight>,
    ears: Option<TowerEars>,
    description: String,
}

/// What is in the model's projector, if there is one. One that was found beside the model and does not belong to it is left
/// alone.
fn senses(
    file: &ModelFile,
    checked: &CheckedModel<'_>,
    options: &Options,
    machine: &Arc<Machine>,
) -> Result<Senses, Error> {
    let asked = options.projector.as_deref();
    let elsewhere = checked.role() == Role::Encoder || options.peers.is_some();
    if elsewhere && asked.is_none() {
        return Ok(Senses::default());
    }
    let Some(path) = projector::find(file, asked) else {
        return Ok(Senses::default());
    };
    let loaded = ProjectorFile::open(&path, machine)
        .and_then(|projector| towers(&projector, checked, options, machine));
    match loaded {
        Err(error) if asked.is_none() && file.preset().is_none() => Ok(Senses {
            description: format!("\nno images or audio: {error}"),
            ..Senses::default()
        }),
        loaded => loaded,
    }
}

/// Loads the towers of a projector's file.
fn towers(
    file: &ProjectorFile,
    checked: &CheckedModel<'_>,
    options: &Options,
    machine: &Arc<Machine>,
) -> Result<Senses, Error> {
    let mut senses = Senses::default();
    let config = checked.blueprint.config();
    let digested = options.cache.is_some();
    let mut describe = |what: &str, family: &str, bytes: usize| {
        let (path, size) = (file.path().display(), bytes >> 20);
        senses.description += &format!("\n{what} through {path} ({family}, {size} MiB)");
    };
    let (sees, hears) = file.has()?;
    if hears {
        let model = (config, checked.context);
        let ears = TowerEars::load(file, model, machine, digested)?;
        describe("audio", ears.config().family, ears.bytes());
        senses.ears = Some(ears);
    }
    if sees {
        let sight = TowerSight::load(file, config, machine, digested)?;
        describe("images", sight.config().family, sight.bytes());
        senses.sight = Some(sight);
    }
    Ok(senses)
}

/// Adds pages to those that the plan asks for, so that as many requests as may run side by side find room: within a
/// share of the memory that is left, for it is not only ours. Gives their bytes.
pub(crate) fn add_pages(
    needs: &mut Needs,
    checked: &CheckedModel<'_>,
    options: &EngineOptions,
    choice: WeightChoice,
    runtime: &Runtime,
) -> u64 {
    let planned = *needs;
    let spare = MemoryPlan::new(&checked.blueprint, planned, choice.limit()).spare();
    let spare = spare.saturating_sub(runtime.extra.load(Ordering::Relaxed)) / EXTRA_SHARE;
    let page = checked.blueprint.kv_bytes(planned.kv, PAGE, 0) as u64;
    let pages = spare.checked_div(page).unwrap_or(0) as usize;
    let contexts = options.requests.min(MOST_CONTEXTS);
    let wanted = options.context.saturating_mul(contexts);
    let most = planned.positions.saturating_add(pages.saturating_mul(PAGE));
    needs.positions = wanted.min(most).max(planned.positions);
    let grown = needs.kv_bytes(&checked.blueprint);
    grown - planned.kv_bytes(&checked.blueprint)
}

/// Loads the draft model, all of it into memory, and adds to `needs` what else it will take.
fn load_draft(
    path: &Path,
    options: &Options,
    needs: &mut Needs,
    runtime: &Runtime,
) -> Result<(load::LoadedModel, strata_model::PageStorage), Error> {
    let file = ModelFile::open(path)?;
    let checked = CheckedModel::new(&file, Some(needs.positions), TokenizerUse::Required)?;
    let workspace = checked.blueprint.workspace_bytes(
        needs.limits,
        needs.workers,
        strata_model::Placement::Packed,
    );
    let choice = WeightChoice {
        stream: crate::Stream::Never,
        memory: options.weight_choice()?.memory,
    };
    let proceed = &mut |_, _| ControlFlow::Continue(());
    let (loaded, storage) = checked.load(*needs, choice, &runtime.machine, proceed)?;
    // Keys and values have no memory yet: nobody has touched them.
    needs.beside += (workspace + storage.bytes()) as u64;
    Ok((loaded, storage))
}

/// What is known of a model; without a profile not what it can do. One of the store has its name there, and what its
/// Modelfile says.
pub(crate) fn facts(
    file: &ModelFile,
    checked: &CheckedModel<'_>,
    profile: Option<&ModelProfile>,
    options: &Options,
) -> Result<ModelFacts, Error> {
    let name = name(file.path());
    let facts = load::facts(&name, file.path(), &file.parse()?, Lists::Short);
    let mut facts = checked.facts(facts, profile, options.engine(checked).requests);
    facts.template = checked.template().map(|text| text.source().to_owned());
    if let Some(bytes) = file.built_in_bytes() {
        facts.bytes = bytes.len() as u64;
    }
    let Some(preset) = file.preset().cloned() else {
        return Ok(facts);
    };
    Ok(ModelFacts {
        name: preset.name,
        digest: preset.digest,
        bytes: preset.bytes,
        modified: preset.modified,
        system: preset.system,
        settings: layered(preset.written, facts.settings),
        messages: preset.messages,
        licenses: if preset.licenses.is_empty() {
            facts.licenses
        } else {
            preset.licenses
        },
        modelfile: preset.modelfile,
        ..facts
    })
}

/// A Modelfile's parameters, and those of the model's file that it does not set.
fn layered(mut over: Vec<(String, Json)>, under: Vec<(String, Json)>) -> Vec<(String, Json)> {
    for (name, value) in under {
        if !over.iter().any(|(known, _)| *known == name) {
            over.push((name, value));
        }
    }
    over
}

/// What a model is called: `tale`, or its file's name without the ending and the number of its part.
fn name(path: &Path) -> String {
    if load::is_built_in(path) {
        return load::BUILT_IN.into();
    }
    let stem = path.file_stem().unwrap_or(path.as_os_str());
    let stem = stem.to_string_lossy();
    match stem.rsplit_once("-00001-of-") {
        Some((whole, _)) => whole.into(),
        None => stem.into_owned(),
    }
}

/// The memory that models may take in all.
pub(crate) fn limit(options: &Options) -> Result<Limit, Error> {
    Ok(options.weight_choice()?.limit())
}

impl Options {
    /// Bytes of memory that models opened so may take in all.
    pub fn memory_limit(&self) -> Result<u64, Error> {
        Ok(limit(self)?.bytes)
    }
}
