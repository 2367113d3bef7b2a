//! What a model will take, before anything is loaded.

use crate::error::Error;
use crate::load::{CheckedModel, MemoryPlan, ModelFile, TokenizerUse};
use crate::open::{facts, limit};
use crate::options::Options;
use std::path::Path;
use strata_chat::ModelFacts;

/// What a model takes in bytes, against what there is.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is known of the model.
    pub facts: ModelFacts,
    /// Weights in memory.
    pub weights: u64,
    /// Keys, values and recurrent states.
    pub kv: u64,
    /// Activations.
    pub activations: u64,
    /// The program around them.
    pub program: u64,
    /// What may be used in all.
    pub limit: u64,
    /// Tokens of prompt and answer together.
    pub context: usize,
    /// Whether it fits whole.
    pub fits: bool,
    /// Bytes read from the file for each token if it runs streamed, where that is possible.
    pub streamed: Option<u64>,
    /// What would fit, in the words of the command line, where this does not.
    pub remedies: Vec<String>,
}

impl Plan {
    /// Everything together.
    pub fn total(&self) -> u64 {
        self.weights + self.kv + self.activations + self.program
    }
}

pub(crate) fn plan(path: &Path, options: &Options) -> Result<Plan, Error> {
    let file = ModelFile::open(path)?;
    let checked = CheckedModel::new(&file, options.context, TokenizerUse::Optional)?;
    checked.check_kv(options.kv)?;
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    let needs = options.needs(&checked, options.threads.unwrap_or(available));
    let plan = MemoryPlan::new(&checked.blueprint, needs, limit(options)?);
    Ok(Plan {
        weights: plan.weights,
        kv: plan.kv,
        activations: plan.workspace,
        program: plan.program,
        limit: plan.limit.bytes,
        context: checked.context,
        fits: plan.fits(),
        streamed: plan.streamed(),
        remedies: plan.remedies(),
        facts: facts(&file, &checked, options)?,
    })
}
