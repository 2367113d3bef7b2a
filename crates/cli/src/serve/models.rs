//! The models that the command line names, for the server.

use super::facts::{Lists, facts, sha256};
use super::library::{self, LocalStore};
use crate::adapter_file::AdapterFile;
use crate::computing::ComputeArguments;
use crate::failure::{Failure, Kind};
use crate::loaded_model::{CheckedModel, Words};
use crate::machine::Machine;
use crate::memory_plan::{Limit, MemoryPlan, Needs};
use crate::model_file::{BUILT_IN, ModelFile};
use crate::preset::{Preset, TemplateText};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use strata_chat::{
    AnswerConstraint, CallGrammar, Fault, FaultKind, Format, ModelFacts, ModelProfile,
};
use strata_constrain::{self as grammar, CompileError, Compiler, VocabularyError};
use strata_engine::{Constraint, EngineOptions, ModelDigest};
use strata_host::{MonotonicClock, PageFiles};
use strata_model::Model;
use strata_model::spec::Role;
use strata_platform::{PageStore, Pool};
use strata_server::{Grammars, Library, LoadedAdapter, Models, Opened};
use strata_store::{Name, Store, StoreError, StoredModel};
use strata_tokenizer::Tokenizer;
use strata_wire::call::unknown_model;

/// Tokens of a prompt whose log-probabilities are computed together.
const SCORING: usize = 32;

type Prefixes = (Box<dyn PageStore>, ModelDigest);

/// Models in files, with what they are computed with.
pub(super) struct LocalModels {
    machine: Machine,
    clock: Arc<MonotonicClock>,
    compute: ComputeArguments,
    offer: Offer,
    list: Vec<(ModelFacts, PathBuf)>,
}

/// What clients get of the models.
pub(super) struct Offer {
    /// Positions, if not the model's own.
    pub(super) context: Option<usize>,
    /// Requests that run side by side.
    pub(super) requests: usize,
    /// Adapters of the first model.
    pub(super) adapters: Vec<AdapterFile>,
    /// A folder for computed prompts, and how large it may get.
    pub(super) cache: Option<(PathBuf, u64)>,
    /// Whether clients may save what was computed.
    pub(super) saves_slots: bool,
}

impl LocalModels {
    /// Looks at the files; one that is damaged is a failure now, not when somebody asks for it.
    pub(super) fn new(
        paths: &[PathBuf],
        compute: ComputeArguments,
        offer: Offer,
    ) -> Result<Self, Failure> {
        if let Some((folder, limit)) = &offer.cache {
            PageFiles::open(folder, *limit)
                .map_err(|error| Failure::io(folder.display(), &error))?;
        }
        let machine = compute.machine()?;
        let mut models = Self {
            machine,
            clock: Arc::default(),
            compute,
            offer,
            list: Vec::new(),
        };
        for path in paths {
            let file = ModelFile::open(path)?;
            let facts = models.facts(&name(path), &file)?;
            let name = &facts.name;
            if models.list.iter().any(|(facts, _)| facts.name == *name) {
                let sentence = format_args!("two models are called {name}");
                return Err(Failure::new(Kind::Usage, sentence));
            }
            models.list.push((facts, path.clone()));
        }
        Ok(models)
    }

    fn needs(&self, checked: &CheckedModel<'_>) -> Needs {
        Needs {
            // Requests share the context's pages: two full ones fit, or many short ones.
            positions: checked.context.saturating_mul(self.offer.requests.min(2)),
            kv: self.compute.kv.into(),
            limits: self.options(checked.context).limits(),
            workers: self.machine.pool.workers(),
            states: self.options(checked.context).states(),
            beside: 0,
        }
    }

    /// The adapters of a model: those of the command line, or else those of its Modelfile.
    fn adapters(
        &self,
        name: &str,
        preset: Option<&Preset>,
        model: &Model,
    ) -> Result<Vec<LoadedAdapter>, Fault> {
        let first = self
            .list
            .first()
            .is_some_and(|(facts, _)| facts.name == name);
        let given = self.offer.adapters.iter().filter(|_| first).cloned();
        let given: Vec<AdapterFile> = given.collect();
        // What is given takes the place of the model's own: a request can have one at a time.
        let preset = preset.filter(|_| given.is_empty());
        let own = preset.map_or(&[][..], |preset| &preset.adapters);
        let own = own.iter().map(|path| AdapterFile {
            path: path.clone(),
            scale: 1.0,
        });
        own.chain(given)
            .map(|file| {
                Ok(LoadedAdapter {
                    path: file.path.display().to_string(),
                    adapter: Arc::new(file.load(model).map_err(fault)?),
                    scale: file.scale,
                })
            })
            .collect()
    }

    /// What was computed is only good for the very same weights, so the whole file is hashed where something is kept.
    fn digest(&self, file: &ModelFile) -> Result<Option<ModelDigest>, Fault> {
        match self.offer.cache.is_some() || self.offer.saves_slots {
            true => Ok(Some(ModelDigest(sha256(&file.parse().map_err(fault)?)))),
            false => Ok(None),
        }
    }

    /// Where a model's computed prompts outlive the server.
    fn store(&self, digest: Option<ModelDigest>) -> Result<Option<Prefixes>, Fault> {
        let (Some((folder, limit)), Some(digest)) = (&self.offer.cache, digest) else {
            return Ok(None);
        };
        let files = PageFiles::open(folder, *limit);
        let files = files.map_err(|error| fault(Failure::io(folder.display(), &error)))?;
        Ok(Some((Box::new(files), digest)))
    }

    fn options(&self, context: usize) -> EngineOptions {
        EngineOptions {
            context,
            batch: self.compute.batch.into(),
            requests: self.offer.requests,
            scoring: SCORING,
            ..EngineOptions::default()
        }
    }

    /// The file of a model, or the name of one of the store, which is opened as well.
    fn path(&self, name: &str) -> PathBuf {
        let found = self.list.iter().find(|(facts, _)| facts.name == name);
        found.map_or_else(|| name.into(), |(_, path)| path.clone())
    }

    /// What is known of a model. One of the store has its name there, and what its Modelfile says.
    fn facts(&self, name: &str, file: &ModelFile) -> Result<ModelFacts, Failure> {
        let checked = CheckedModel::new(file, self.offer.context, Words::Required)?;
        let facts = facts(name, file.path(), &file.parse()?, Lists::Short);
        let facts = ModelFacts {
            capabilities: profile(&checked)?.capabilities(),
            context: checked.context,
            slots: self.offer.requests,
            template: checked.template().map(|text| text.source().to_owned()),
            ..facts
        };
        let Some(preset) = file.preset().cloned() else {
            return Ok(facts);
        };
        Ok(ModelFacts {
            name: preset.name,
            digest: preset.digest,
            bytes: preset.bytes,
            modified: preset.modified,
            system: preset.system,
            settings: preset.written,
            messages: preset.messages,
            licenses: match preset.licenses.is_empty() {
                true => facts.licenses,
                false => preset.licenses,
            },
            modelfile: preset.modelfile,
            ..facts
        })
    }

    /// What is known of a model of the store, if it can be used.
    fn stored(&self, model: &StoredModel) -> Result<ModelFacts, Failure> {
        self.facts("", &ModelFile::open_stored(model)?)
    }
}

/// What requests see of a model.
pub(crate) fn profile(checked: &CheckedModel<'_>) -> Result<ModelProfile, Failure> {
    let tokenizer: Arc<Tokenizer> = checked.shared_tokenizer()?;
    let jinja = match checked.template() {
        Some(TemplateText::Jinja(source)) => Some(source.as_str()),
        _ => None,
    };
    let mut profile = ModelProfile::new(tokenizer, jinja, checked.context);
    if let Some(TemplateText::Go(source)) = checked.template() {
        profile = profile.with_go_template(source);
    }
    if let Some(preset) = checked.preset() {
        let parameters = preset.parameters.clone();
        profile.sampling = parameters.sampling;
        profile.stop = parameters.stop;
        profile.max_tokens = parameters.max_tokens;
        profile.system = preset.system.clone().filter(|text| !text.is_empty());
        profile.messages = preset.messages.clone();
    }
    let config = checked.blueprint.config();
    profile.encoder = config.spec.role == Role::Encoder;
    profile.pooling = config.pooling.unwrap_or(profile.pooling);
    Ok(profile)
}

/// What a model is called: `tale`, or its file's name without the ending and the number of its part.
fn name(path: &Path) -> String {
    if path.as_os_str() == BUILT_IN {
        return BUILT_IN.into();
    }
    let stem = path.file_stem().unwrap_or(path.as_os_str());
    let stem = stem.to_string_lossy();
    match stem.rsplit_once("-00001-of-") {
        Some((whole, _)) => whole.into(),
        None => stem.into_owned(),
    }
}

impl Models for LocalModels {
    fn list(&self) -> Vec<ModelFacts> {
        let stored = Store::open_default().and_then(|store| store.list());
        let stored = stored.map_or_else(|_| Vec::new(), |listing| listing.models);
        let mut list: Vec<_> = self.list.iter().map(|(facts, _)| facts.clone()).collect();
        for facts in stored.iter().filter_map(|model| self.stored(model).ok()) {
            if !list.iter().any(|known| known.name == facts.name) {
                list.push(facts);
            }
        }
        list
    }

    fn library(&self) -> Option<&dyn Library> {
        Some(&LocalStore)
    }

    fn find(&self, name: Option<&str>) -> Result<ModelFacts, Fault> {
        let found = match name {
            None => self.list.first(),
            Some(asked) => self.list.iter().find(|(facts, _)| facts.is_called(asked)),
        };
        if let Some((facts, _)) = found {
            return Ok(facts.clone());
        }
        let asked = name.unwrap_or_default();
        let name: Name = asked.parse().map_err(|_| unknown_model(asked))?;
        let found = Store::open_default().and_then(|store| store.find(&name));
        let found = found.map_err(|error| match error {
            StoreError::NoSuchModel(_) | StoreError::NoHome => unknown_model(asked),
            error => library::fault(&error),
        })?;
        self.stored(&found).map_err(|failure| {
            let message = format!("model {asked:?} of the store cannot be used here: {failure}");
            Fault::new(FaultKind::Unsupported, message)
        })
    }

    fn find_in_full(&self, name: &str) -> Result<ModelFacts, Fault> {
        let short = self.find(Some(name))?;
        let path = self.path(&short.name);
        let file = ModelFile::open(&path).map_err(fault)?;
        let parsed = file.parse().map_err(fault)?;
        let full = facts(&short.name, &path, &parsed, Lists::All);
        Ok(ModelFacts {
            metadata: full.metadata,
            ..short
        })
    }

    fn memory(&self, name: &str) -> Result<u64, Fault> {
        let file = ModelFile::open(&self.path(name)).map_err(fault)?;
        let checked =
            CheckedModel::new(&file, self.offer.context, Words::Required).map_err(fault)?;
        let plan = MemoryPlan::new(&checked.blueprint, self.needs(&checked), Limit::now());
        Ok(plan.weights + plan.kv + plan.workspace)
    }

    fn limit(&self) -> u64 {
        Limit::now().bytes
    }

    fn open(&self, name: &str, serve: &mut dyn FnMut(Opened)) -> Result<(), Fault> {
        let file = ModelFile::open(&self.path(name)).map_err(fault)?;
        let checked =
            CheckedModel::new(&file, self.offer.context, Words::Required).map_err(fault)?;
        let (needs, context) = (self.needs(&checked), checked.context);
        let profile = Arc::new(profile(&checked).map_err(fault)?);
        let grammars = Grammar(Compiler::new(&profile.tokenizer));
        let (loaded, kv) = checked
            .load(needs, self.compute.stream, &self.compute, &self.machine)
            .map_err(fault)?;
        let digest = self.digest(&file)?;
        self.machine.settle();
        let options = self.options(context);
        let executor = self.machine.executor(&loaded.model, kv, options.limits());
        serve(Opened {
            executor: Box::new(executor),
            profile,
            clock: Arc::<MonotonicClock>::clone(&self.clock),
            options,
            grammars: Arc::new(grammars),
            adapters: self.adapters(name, file.preset(), &loaded.model)?,
            digest,
            store: self.store(digest)?,
        });
        Ok(())
    }
}

fn fault(failure: Failure) -> Fault {
    let kind = match failure.kind() {
        Kind::OutOfMemory => FaultKind::Unavailable {
            retry_after: std::time::Duration::from_secs(30),
        },
        _ => FaultKind::Internal,
    };
    Fault::new(kind, failure)
}

/// Compiles grammars for a model's tokens; a model whose tokens cannot be constrained refuses them with the reason.
struct Grammar(Result<Compiler, VocabularyError>);

impl Grammars for Grammar {
    fn compile(&self, constraint: &AnswerConstraint) -> Result<Box<dyn Constraint>, Fault> {
        let compiler = self
            .0
            .as_ref()
            .map_err(|error| Fault::new(FaultKind::Unsupported, error))?;
        let free = || Fault::bad_request("a free answer needs no grammar");
        let grammar = match constraint {
            AnswerConstraint::Free | AnswerConstraint::Format(Format::Text) => return Err(free()),
            AnswerConstraint::Format(Format::JsonObject) => grammar::Grammar::JsonObject,
            AnswerConstraint::Format(Format::JsonSchema(schema)) => {
                grammar::Grammar::JsonSchema(schema.text())
            }
            AnswerConstraint::Format(Format::Regex(regex)) => {
                grammar::Grammar::Regex(regex.clone())
            }
            AnswerConstraint::Format(Format::Gbnf(source)) => {
                grammar::Grammar::Gbnf(source.clone())
            }
            AnswerConstraint::Format(Format::Lark(source)) => {
                grammar::Grammar::Lark(source.clone())
            }
            AnswerConstraint::Format(Format::Choice(texts)) => {
                grammar::Grammar::Choice(texts.clone())
            }
            AnswerConstraint::Calls(calls) => grammar::Grammar::ToolCalls(tool_calls(calls)),
        };
        let matcher = compiler.compile(&grammar, grammar::Limits::default());
        let matcher = matcher.map_err(|error| match error {
            CompileError::TooSlow { .. } | CompileError::Busy { .. } => {
                let kind = FaultKind::Overloaded {
                    retry_after: std::time::Duration::from_secs(1),
                };
                Fault::new(kind, error)
            }
            error => Fault::bad_request(error),
        })?;
        Ok(Box::new(matcher))
    }
}

fn tool_calls(calls: &CallGrammar) -> grammar::ToolCalls {
    grammar::ToolCalls {
        tools: calls
            .tools
            .iter()
            .map(|(name, schema)| grammar::Tool {
                name: name.clone(),
                parameters: schema.text(),
            })
            .collect(),
        markers: grammar::CallMarkers {
            begin: calls.begin.into(),
            between: calls.between.into(),
            end: calls.end.into(),
        },
        arguments_key: calls.arguments_key.into(),
        calls: grammar::Calls::Required,
        count: match calls.several {
            true => grammar::CallCount::Many,
            false => grammar::CallCount::One,
        },
        preamble: grammar::Preamble::Nothing,
    }
}
