//! Where models come from: the server asks, whoever starts it answers.

use crate::library::Library;
use std::sync::Arc;
use strata_chat::{AnswerConstraint, Fault, ModelFacts, ModelProfile};
use strata_engine::{Constraint, EngineOptions, ModelDigest};
use strata_model::{Adapter, Executor};
use strata_platform::{Clock, PageStore};

/// The models that a server can be asked for.
pub trait Models: Send + Sync + 'static {
    /// All of them.
    fn list(&self) -> Vec<ModelFacts>;

    /// One by the name that a client gives; the one that is meant where the client gives none. Its name in the facts is
    /// the one that counts.
    fn find(&self, name: Option<&str>) -> Result<ModelFacts, Fault>;

    /// The same with the long lists of its metadata.
    fn find_in_full(&self, name: &str) -> Result<ModelFacts, Fault> {
        self.find(Some(name))
    }

    /// Bytes of memory that a model takes when it is loaded.
    fn memory(&self, name: &str) -> Result<u64, Fault>;

    /// Where models are kept, if they can be fetched and removed while the server runs.
    fn library(&self) -> Option<&dyn Library> {
        None
    }

    /// Bytes of memory that models may take in all.
    fn limit(&self) -> u64;

    /// Loads a model and lets `serve` work with it; when `serve` returns, the model goes.
    fn open(&self, name: &str, serve: &mut dyn FnMut(Opened)) -> Result<(), Fault>;
}

/// A model in memory.
pub struct Opened {
    /// What computes.
    pub executor: Box<dyn Executor>,
    /// What requests see of it.
    pub profile: Arc<ModelProfile>,
    /// What measures time.
    pub clock: Arc<dyn Clock>,
    /// How the engine works.
    pub options: EngineOptions,
    /// Compiles what answers must look like.
    pub grammars: Arc<dyn Grammars>,
    /// Changes to its weights that requests can ask for, by their place in the list.
    pub adapters: Vec<LoadedAdapter>,
    /// Names the weights, so that what is saved with them is restored with no others; hashing a file takes a while, so
    /// only where something is saved.
    pub digest: Option<ModelDigest>,
    /// Where pages of keys and values outlive the server, with the model's digest.
    pub store: Option<(Box<dyn PageStore>, ModelDigest)>,
}

/// An adapter that requests can ask for.
#[derive(Clone)]
pub struct LoadedAdapter {
    /// Where it came from.
    pub path: String,
    /// What it changes.
    pub adapter: Arc<Adapter>,
    /// Its strength in requests that ask for none; 0 leaves it out.
    pub scale: f32,
}

/// Compiles what answers must look like into what the engine enforces.
pub trait Grammars: Send + Sync {
    /// A compiled constraint for answers that are not free, or why there is none. Called on a thread that may take its time.
    fn compile(&self, constraint: &AnswerConstraint) -> Result<Box<dyn Constraint>, Fault>;
}
