//! The models of a machine: the one that answers, those that it may change to, and the change.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use strata::LocalModel;
use strata::load::LocalGrammars;
use strata::slots::Slots;
use strata_chat::{Fault, FaultKind, Generate, ModelFacts, Prepared, RequestContext};
use strata_wire::call::unknown_model;

/// A model that has answered nobody yet stays so long, in nanoseconds, whatever other clients want.
const PATIENCE: u64 = 10_000_000_000;
/// How long clients are told to wait at least and at most: their libraries do not wait longer.
const WAIT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// The model that answers.
pub(super) struct Loaded {
    pub(super) model: LocalModel,
    /// What its clients may save.
    pub(super) slots: Slots,
    grammars: LocalGrammars,
}

impl Loaded {
    fn new(model: LocalModel) -> Self {
        let grammars = LocalGrammars::new(Arc::clone(&model.profile.tokenizer));
        let slots = Slots::new(model.facts.slots, model.facts.context);
        Self {
            model,
            slots,
            grammars,
        }
    }

    /// Makes a request ready, and compiles what its answer must look like.
    pub(super) fn prepare(
        &mut self,
        request: &Generate,
        context: RequestContext<'_>,
    ) -> Result<Prepared, Fault> {
        let grammars = &mut self.grammars;
        let mut compile = |constraint: &_| grammars.compile(constraint);
        self.model.prepare_with(request, context, &mut compile)
    }
}

/// What is going on while this model is coming; without a name none is.
pub(super) fn change_to(name: &str) -> String {
    match name {
        "" => "the model is being unloaded".into(),
        name => format!("model {name:?} is being loaded"),
    }
}

/// One that could be loaded.
struct Listed {
    facts: ModelFacts,
    /// Why it was not, when that was tried.
    refused: Option<String>,
}

/// All of them.
pub(super) struct Models {
    loaded: Option<Loaded>,
    listed: Vec<Listed>,
    starting: bool,
    /// What the machine is changing to.
    coming: Option<String>,
    /// What a client wants it to change to.
    wanted: Option<String>,
    /// Since when the model answers, and how many requests it has begun.
    since: u64,
    begun: u64,
    /// How long the last model took to load.
    took: Duration,
}

impl Models {
    /// None yet.
    pub(super) fn starting(coming: &str) -> Self {
        Self {
            loaded: None,
            listed: Vec::new(),
            starting: true,
            coming: Some(coming.into()),
            wanted: None,
            since: 0,
            begun: 0,
            took: Duration::ZERO,
        }
    }

    /// Whether there was none yet.
    pub(super) fn is_starting(&self) -> bool {
        self.starting
    }

    /// Adds a model, or what is newly known of one.
    pub(super) fn list(&mut self, facts: ModelFacts) {
        let refused = None;
        let mut known = self.listed.iter_mut();
        match known.find(|one| one.facts.is_called(&facts.name)) {
            Some(one) => *one = Listed { facts, refused },
            None => self.listed.push(Listed { facts, refused }),
        }
    }

    /// The model that answers, if there is one.
    pub(super) fn loaded(&self) -> Option<&Loaded> {
        self.loaded.as_ref()
    }

    /// As above.
    pub(super) fn loaded_mut(&mut self) -> Option<&mut Loaded> {
        self.loaded.as_mut()
    }

    /// Changes the model that answers.
    pub(super) fn map(&mut self, change: impl FnOnce(LocalModel) -> LocalModel) {
        self.loaded = self.loaded.take().map(|loaded| Loaded {
            model: change(loaded.model),
            ..loaded
        });
    }

    /// What the machine is changing to.
    pub(super) fn coming(&self) -> Option<&str> {
        self.coming.as_deref()
    }

    /// What is known of all models.
    pub(super) fn facts(&self) -> Vec<ModelFacts> {
        self.listed.iter().map(|one| one.facts.clone()).collect()
    }

    /// What is known of the model of that name; without a name of the one that answers, or will.
    pub(super) fn known(&self, name: &str) -> Result<&ModelFacts, Fault> {
        let loaded = self.loaded.as_ref().map(|loaded| &*loaded.model.facts.name);
        let name = match name {
            "" => self.coming().or(loaded).unwrap_or_default(),
            name => name,
        };
        let mut all = self.listed.iter().map(|one| &one.facts);
        all.find(|facts| facts.is_called(name))
            .ok_or_else(|| unknown_model(name))
    }

    /// The model of that name, if it answers now. If it could, the machine is asked to change to it.
    pub(super) fn answering(&mut self, name: &str, now: u64) -> Result<&mut Loaded, Fault> {
        if let (Some(coming), true) = (self.coming(), name.is_empty()) {
            return Err(self.later(coming));
        }
        let known = self.known(name)?.name.clone();
        if let Some(coming) = self.coming() {
            return Err(self.later(coming));
        }
        let loaded = self.loaded.as_ref();
        if loaded.is_some_and(|loaded| loaded.model.facts.is_called(&known)) {
            return self.loaded.as_mut().ok_or_else(|| unknown_model(name));
        }
        let listed = self.listed.iter().find(|one| one.facts.is_called(&known));
        if let Some(why) = listed.and_then(|one| one.refused.as_deref()) {
            let problem = format!("model {known:?} was refused: {why}");
            return Err(Fault::new(FaultKind::InvalidModel, problem));
        }
        let fault = self.later(&known);
        if self.begun > 0 || now.saturating_sub(self.since) > PATIENCE {
            self.wanted.get_or_insert(known);
        }
        Err(fault)
    }

    /// Counts a request.
    pub(super) fn begin(&mut self) {
        self.begun += 1;
    }

    /// When to ask again: a model takes as long for each of its bytes as the last one did.
    fn later(&self, name: &str) -> Fault {
        let bytes = |facts: &ModelFacts| u128::from(facts.bytes.max(1));
        let loaded = self.loaded.as_ref().map(|loaded| &loaded.model.facts);
        let wait = match (self.known(name).ok(), loaded) {
            (Some(new), Some(old)) => {
                let nanoseconds = self.took.as_nanos() * bytes(new) / bytes(old);
                Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
            }
            _ => self.took,
        };
        let retry_after = wait.clamp(WAIT.0, WAIT.1);
        let problem = format!("{}: ask again", change_to(name));
        Fault::new(FaultKind::Unavailable { retry_after }, problem)
    }

    /// The model that a client has asked for since the last look.
    pub(super) fn take_wanted(&mut self) -> Option<String> {
        self.wanted.take()
    }

    /// No more requests for the model that answers: another is coming.
    pub(super) fn retire(&mut self, coming: &str) {
        self.coming = Some(coming.into());
    }

    /// Takes the model that answers away.
    pub(super) fn take(&mut self) -> Option<LocalModel> {
        self.loaded.take().map(|loaded| loaded.model)
    }

    /// This model, which took so long to load, answers from now on.
    pub(super) fn put(&mut self, model: LocalModel, now: u64, took: Duration) {
        self.list(model.facts.clone());
        *self = Self {
            loaded: Some(Loaded::new(model)),
            listed: core::mem::take(&mut self.listed),
            starting: false,
            coming: None,
            wanted: None,
            since: now,
            begun: 0,
            took,
        };
    }

    /// The model that was to come does not: clients that want it are told why.
    pub(super) fn refuse(&mut self, name: &str, why: &str) {
        self.coming = None;
        let mut tried = self.listed.iter_mut();
        if let Some(listed) = tried.find(|one| one.facts.is_called(name)) {
            listed.refused = Some(why.into());
        }
    }
}
