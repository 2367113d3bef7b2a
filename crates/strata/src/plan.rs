//! What a model will take, before anything is loaded.

use crate::device::{self, DevicePlan};
use crate::error::Error;
use crate::load::{self, CheckedModel, Limit, MemoryPlan, ModelFile, Needs, TokenizerUse};
use crate::open::facts;
use crate::options::Options;
use crate::peers::{PeerPlan, Shares, refuse_others};
use std::ops::Range;
use std::path::Path;
use strata_chat::{Capability, ModelFacts};
use strata_model::Placement;

/// What a model takes in bytes, against what there is.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is known of the model.
    pub facts: ModelFacts,
    /// The weights.
    pub weights: u64,
    /// Keys, values and recurrent states.
    pub kv: u64,
    /// The recurrent states among them: those of running sequences, and snapshots to go on from. 0 in models without.
    pub states: u64,
    /// How many of those there is room for.
    pub state_count: usize,
    /// Activations.
    pub activations: u64,
    /// The draft model, with all that it needs; 0 without one.
    pub draft: u64,
    /// The program around them, with the tokenizer.
    pub program: u64,
    /// What may be used in all.
    pub limit: u64,
    /// What sets that limit, in words.
    pub limited_by: String,
    /// Tokens of prompt and answer together.
    pub context: usize,
    /// Whether it fits whole.
    pub fits: bool,
    /// Bytes read from the file for each token if it runs streamed, where that is possible.
    pub streamed: Option<u64>,
    /// The layers of this machine, whose figures these are.
    pub layers: Range<usize>,
    /// What the others would take.
    pub peers: Vec<PeerPlan>,
    /// What GPUs would take.
    pub devices: Vec<DevicePlan>,
    /// Why the layers do not fit on these, in a sentence, and what would fit, in another.
    pub misfit: Option<Error>,
    /// What would fit, in the words of the command line, where this does not.
    pub remedies: Vec<String>,
}

impl Plan {
    /// Everything together, in bytes.
    pub fn total(&self) -> u64 {
        let rest = self.weights + self.activations + self.draft + self.program;
        rest.saturating_add(self.kv)
    }
}

pub(crate) fn plan(path: &Path, options: &Options, limit: Limit) -> Result<Plan, Error> {
    let file =
        ModelFile::open_as(path, options.quantize, &mut |_, _| {})?.allowing(options.untested);
    let checked = options.check(&file, TokenizerUse::Optional)?;
    checked.check_kv(options.kv)?;
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    let workers = options.threads.unwrap_or(available).max(1);
    let mut needs = options.needs(&checked, workers);
    let draft = match &options.draft {
        Some(path) => draft_bytes(path, needs)?,
        None => 0,
    };
    needs.beside += draft;
    let whole = 0..checked.blueprint.config().layers.len();
    let (mut devices, mut misfit) = (Vec::new(), None);
    let (checked, layers, peers) = match &options.peers {
        None => match device::plan(&file, options, needs)? {
            None => (checked, whole, Vec::new()),
            Some(planned) => {
                (devices, misfit) = (planned.devices, planned.misfit);
                needs = planned.needs;
                let own = Some(planned.own);
                let part = options.check_part(&file, TokenizerUse::Optional, own)?;
                (part, planned.own.layers(), Vec::new())
            }
        },
        Some(peers) => {
            refuse_others(&file, options)?;
            let choice = options.weight_choice()?;
            let shares = Shares::new(&file, &checked, peers, (needs, choice))?;
            let plans = shares.plans(&file, options, peers, needs)?;
            let own = shares.own();
            let part = options.check_part(&file, TokenizerUse::Optional, Some(own))?;
            (part, own.layers(), plans)
        }
    };
    let plan = MemoryPlan::new(&checked.blueprint, needs, limit).for_context(checked.context);
    let room = peers.iter().all(|peer| peer.total() <= peer.limit);
    let room = room && misfit.is_none();
    Ok(Plan {
        weights: plan.weights,
        kv: plan.kv,
        states: (checked.blueprint.state_bytes() as u64).saturating_mul(needs.states as u64),
        state_count: match checked.blueprint.state_bytes() {
            0 => 0,
            _ => needs.states,
        },
        activations: plan.workspace - draft,
        draft,
        program: plan.program,
        limit: plan.limit.bytes,
        limited_by: plan.limit.bound.to_string(),
        context: checked.context,
        fits: plan.fits() && room,
        layers,
        peers,
        devices,
        misfit,
        streamed: plan.streamed(),
        remedies: plan.remedies(),
        facts: perceiving(
            facts(&file, &checked, checked.profile().ok().as_ref(), options)?,
            &file,
            options,
        ),
    })
}

/// What is known of a model, without a plan of its memory.
pub(crate) fn inspect(path: &Path, options: &Options) -> Result<ModelFacts, Error> {
    let file =
        ModelFile::open_as(path, options.quantize, &mut |_, _| {})?.allowing(options.untested);
    let checked = options.check(&file, TokenizerUse::Required)?;
    let profile = checked.profile()?;
    let facts = facts(&file, &checked, Some(&profile), options)?;
    Ok(perceiving(facts, &file, options))
}

/// With what the model's projector adds, which is not loaded yet.
fn perceiving(mut facts: ModelFacts, file: &ModelFile, options: &Options) -> ModelFacts {
    if facts.capabilities.contains(&Capability::Completion) {
        let thinks = |can: &Capability| *can == Capability::Thinking;
        let at = facts.capabilities.iter().position(thinks);
        let at = at.unwrap_or(facts.capabilities.len());
        let more = load::perceives(file, options.projector.as_deref());
        facts.capabilities.splice(at..at, more);
    }
    facts
}

/// What a draft model takes beside a model with these needs.
fn draft_bytes(path: &Path, needs: Needs) -> Result<u64, Error> {
    let file = ModelFile::open(path)?;
    let checked = CheckedModel::new(&file, Some(needs.positions), TokenizerUse::Required)?;
    let blueprint = &checked.blueprint;
    let bytes = blueprint.packed_bytes()
        + blueprint.kv_bytes(needs.kv, needs.positions, needs.states)
        + blueprint.workspace_bytes(needs.limits, needs.workers, Placement::Packed);
    Ok(bytes as u64)
}
