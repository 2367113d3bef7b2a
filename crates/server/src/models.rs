//! Where models come from: the server asks, whoever starts it answers.

use crate::library::Library;
use strata::worker::Monitor;
use strata_chat::{Fault, ModelFacts};

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

    /// Bytes of memory that a model takes when it is loaded, with its usual context or with so many positions.
    fn memory(&self, name: &str, context: Option<usize>) -> Result<u64, Fault>;

    /// Where models are kept, if they can be fetched and removed while the server runs.
    fn library(&self) -> Option<&dyn Library> {
        None
    }

    /// Whether prompts or what is computed of them go to other machines.
    fn leaves_machine(&self) -> bool {
        false
    }

    /// Bytes of memory that models may take in all.
    fn limit(&self) -> u64;

    /// The model that transcribes speech, if there is one.
    fn transcriber(&self) -> Option<strata::Transcriber> {
        None
    }

    /// Loads a model, with its usual context or with so many positions. Called on a thread that may take its time.
    fn open(
        &self,
        name: &str,
        context: Option<usize>,
        listening: Listening,
    ) -> Result<strata::Model, Fault>;
}

/// Who is told what a model does.
pub struct Listening {
    /// Of requests and their events.
    pub monitor: Box<dyn Monitor>,
    /// Of bytes loaded, and bytes in all.
    pub progress: Box<dyn FnMut(usize, usize) + Send>,
    /// When the model is gone.
    pub ended: Box<dyn FnOnce() + Send>,
}
