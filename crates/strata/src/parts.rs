//! A model put together from parts, by those who load weights in their own way.

use crate::error::Error;
use crate::load::GrammarCompiler;
use crate::model::Model;
use crate::open::Listeners;
use crate::peers::PeerStates;
use crate::worker::{LoadedAdapter, Start, Turns, Worker};
use std::sync::Arc;
use std::time::Duration;
use strata_chat::{ModelFacts, ModelProfile};
use strata_engine::Engine;

/// The parts of a model.
pub struct Parts {
    /// What runs requests.
    pub engine: Engine,
    /// What requests see of the model.
    pub profile: Arc<ModelProfile>,
    /// What is known of it.
    pub facts: ModelFacts,
    /// The adapters that requests can ask for, by number.
    pub adapters: Vec<LoadedAdapter>,
    /// Whose turn it is to compute, shared by the engines of one machine.
    pub turns: Arc<Turns>,
    /// Called on the engine's thread before its first step.
    pub settle: Box<dyn FnOnce() + Send>,
    /// How it was loaded.
    pub load: LoadReport,
}

/// How a model was loaded.
#[derive(Clone, Debug, Default)]
pub struct LoadReport {
    /// How long it took.
    pub time: Duration,
    /// What memory it got, in lines for people.
    pub description: String,
    /// Bytes of weights that stay in the file and are read for each batch.
    pub streamed_bytes: u64,
    /// Bytes of pages beyond what the plan asks for, taken because memory was left.
    pub extra_bytes: u64,
    /// How the machines stand that have some of its layers.
    pub peers: PeerStates,
}

impl Model {
    /// Starts an engine that was made elsewhere.
    pub fn from_parts(parts: Parts, listeners: Listeners<'_>) -> Result<Self, Error> {
        let worker = Worker::start(Start {
            engine: parts.engine,
            adapters: parts.adapters,
            turns: parts.turns,
            monitor: listeners.monitor,
            settle: parts.settle,
            ended: listeners.ended.unwrap_or_else(|| Box::new(|| {})),
        })
        .map_err(|error| Error::io("the engine's thread", &error))?;
        Ok(Self::new(
            worker,
            Arc::new(GrammarCompiler::new(Arc::clone(&parts.profile.tokenizer))),
            parts.profile,
            parts.facts,
            parts.load,
        ))
    }
}
