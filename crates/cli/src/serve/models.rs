//! The models that the command line names, for the server.

use super::library::{self, LocalStore};
use crate::failure::{Failure, Kind};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use strata::load::{self, BUILT_IN, Lists, ModelFile};
use strata::{Error, Listeners, Model, Options, Runtime, Transcriber};
use strata_chat::{Fault, FaultKind, ModelFacts};
use strata_server::{Library, Listening, Models};
use strata_store::{Name, Store, StoreError, StoredModel};
use strata_wire::call::unknown_model;

/// Models in files and in the store, and how they are opened.
pub(super) struct LocalModels {
    runtime: Runtime,
    options: Options,
    /// How the first is opened: the adapters of the command line are for it.
    first: Options,
    /// Those that the command line names, in its order.
    list: Vec<(ModelFacts, PathBuf)>,
    /// The built-in model, where the command line does not name it.
    built_in: Option<ModelFacts>,
    library: LocalStore,
    speech: Option<Transcriber>,
}

impl LocalModels {
    /// Looks at the files; one that is damaged is a failure now, not when somebody asks for it.
    pub(super) fn new(
        paths: &[PathBuf],
        runtime: Runtime,
        options: Options,
        first: Options,
    ) -> Result<Self, Failure> {
        let mut models = Self {
            runtime,
            options,
            first,
            list: Vec::new(),
            built_in: None,
            library: LocalStore::default(),
            speech: None,
        };
        for path in paths {
            let facts = models.facts(path)?;
            let name = &facts.name;
            if models.list.iter().any(|(facts, _)| facts.name == *name) {
                let sentence = format_args!("two models have the name {name}");
                return Err(Failure::new(Kind::Usage, sentence));
            }
            models.list.push((facts, path.clone()));
        }
        let named = |(facts, _): &(ModelFacts, PathBuf)| facts.is_called(BUILT_IN);
        if load::built_in().is_some() && !models.list.iter().any(named) {
            models.built_in = Some(models.facts(Path::new(BUILT_IN))?);
        }
        models.library = LocalStore::new(models.list.clone());
        Ok(models)
    }

    /// The same models, and one that transcribes.
    pub(super) fn hearing(self, speech: Option<Transcriber>) -> Self {
        Self { speech, ..self }
    }

    /// How a model is opened.
    fn options(&self, name: &str) -> &Options {
        match self.list.first() {
            Some((facts, _)) if facts.name == name => &self.first,
            _ => &self.options,
        }
    }

    /// The same with another context than the usual one, if there is one.
    fn options_for(&self, name: &str, context: Option<usize>) -> Options {
        let options = self.options(name).clone();
        match context {
            Some(context) => options.context(context),
            None => options,
        }
    }

    /// The file of a model, or the name of one of the store, which is opened as well.
    fn path(&self, name: &str) -> PathBuf {
        let found = self.list.iter().find(|(facts, _)| facts.name == name);
        found.map_or_else(|| name.into(), |(_, path)| path.clone())
    }

    fn facts(&self, path: &Path) -> Result<ModelFacts, Error> {
        Model::inspect(path, &self.options)
    }

    /// What is known of a model of the store, if it can be used.
    fn stored(&self, model: &StoredModel) -> Result<ModelFacts, Error> {
        self.facts(Path::new(&model.name.to_string()))
    }
}

impl Models for LocalModels {
    fn list(&self) -> Vec<ModelFacts> {
        let stored = Store::open_default().and_then(|store| store.list());
        let stored = stored.map_or_else(|_| Vec::new(), |listing| listing.models);
        let named = self.list.iter().map(|(facts, _)| facts);
        let mut list: Vec<_> = named.chain(&self.built_in).cloned().collect();
        for facts in stored.iter().filter_map(|model| self.stored(model).ok()) {
            if !list.iter().any(|known| known.name == facts.name) {
                list.push(facts);
            }
        }
        list
    }

    fn library(&self) -> Option<&dyn Library> {
        Some(&self.library)
    }

    fn find(&self, name: Option<&str>) -> Result<ModelFacts, Fault> {
        let found = match name {
            None => self.list.first().map(|(facts, _)| facts),
            Some(asked) => {
                let named = self.list.iter().map(|(facts, _)| facts);
                let mut known = named.chain(&self.built_in);
                known.find(|facts| facts.is_called(asked))
            }
        };
        if let Some(facts) = found {
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
            let message = format!("cannot use model {asked:?}: {failure}");
            Fault::new(FaultKind::Unsupported, message)
        })
    }

    fn find_in_full(&self, name: &str) -> Result<ModelFacts, Fault> {
        let short = self.find(Some(name))?;
        let path = self.path(&short.name);
        let file = ModelFile::open(&path)?;
        let full = load::facts(&short.name, &path, &file.parse()?, Lists::All);
        Ok(ModelFacts {
            metadata: full.metadata,
            ..short
        })
    }

    fn leaves_machine(&self) -> bool {
        self.first.has_peers()
    }

    fn memory(&self, name: &str, context: Option<usize>) -> Result<u64, Fault> {
        let plan = Model::plan(self.path(name), &self.options_for(name, context))?;
        Ok(plan.weights + plan.kv + plan.activations)
    }

    fn transcriber(&self) -> Option<Transcriber> {
        self.speech.clone()
    }

    fn limit(&self) -> u64 {
        self.options.memory_limit().unwrap_or(0)
    }

    fn open(
        &self,
        name: &str,
        context: Option<usize>,
        listening: Listening,
    ) -> Result<Model, Fault> {
        let mut tell = listening.progress;
        let mut progress = |done, all| {
            tell(done, all);
            ControlFlow::Continue(())
        };
        let listeners = Listeners {
            progress: Some(&mut progress),
            monitor: Some(listening.monitor),
            ended: Some(listening.ended),
        };
        let (path, options) = (self.path(name), self.options_for(name, context));
        Ok(Model::open_on(&self.runtime, path, options, listeners)?)
    }
}
