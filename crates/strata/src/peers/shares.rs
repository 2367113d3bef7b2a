//! Which machine has which layers, and what that takes of each.

use super::{PeerError, PeerPlan, Peers};
use crate::device::Device;
use crate::error::{Error, ErrorKind};
use crate::load::{self, CheckedModel, MemoryPlan, ModelFile, Needs, TokenizerUse, WeightChoice};
use crate::options::Options;
use std::ops::Range;
use strata_model::{BatchLimits, Placement, Stretch};
use strata_peers::{Facts, Machine, Uneven, ask, share};

/// The machines of a model and where the layers of each begin.
pub(crate) struct Shares {
    starts: Vec<usize>,
    layers: usize,
    facts: Vec<Facts>,
}

/// What went wrong with a peer, for the user.
pub(super) fn peer_error(address: &str, error: &PeerError) -> Error {
    let sentence = format!("cannot use the peer {address}: {error}");
    match error {
        PeerError::Key | PeerError::ShortKey { .. } => {
            Error::new(ErrorKind::InvalidArgument, sentence)
                .with_hint("start both sides with the same --peer-key-file")
        }
        PeerError::Address { .. } => Error::new(ErrorKind::InvalidArgument, sentence)
            .with_hint("expected HOST:PORT, such as --peers 192.168.0.2:11435"),
        PeerError::Version { .. } => Error::new(ErrorKind::Unsupported, sentence)
            .with_hint("run the same version of strata on all machines"),
        PeerError::Foreign => Error::new(ErrorKind::InvalidArgument, sentence)
            .with_hint("another program may be using the port"),
        PeerError::Connection(_) | PeerError::Silence { .. } => {
            Error::new(ErrorKind::Closed, sentence)
                .with_hint("start it there with `strata peer MODEL --listen ADDR:PORT`")
        }
        // It may be otherwise in a moment.
        PeerError::Refused(_) => Error::new(ErrorKind::Closed, sentence),
        PeerError::Canceled => Error::new(ErrorKind::Canceled, "the load was canceled"),
        _ => Error::new(ErrorKind::InvalidArgument, sentence),
    }
}

/// Refuses what one machine must do alone.
pub(crate) fn refuse_others(file: &ModelFile, options: &Options) -> Result<(), Error> {
    let own = file.preset();
    let adapted = own.is_some_and(|preset| !preset.adapters.is_empty());
    let sentence = if adapted || !options.adapters.is_empty() {
        "models with adapters run on one machine only"
    } else if options.projector.is_some() {
        "models that see images or hear audio run on one machine only"
    } else if options.device != Device::Cpu {
        "layers on several machines run on the processors only"
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::InvalidArgument, sentence).with_hint("omit --peers"))
}

impl Shares {
    /// Asks the machines what they have, and shares the layers out. `checked` is the whole model.
    pub(crate) fn new(
        file: &ModelFile,
        checked: &CheckedModel<'_>,
        peers: &Peers,
        (needs, choice): (Needs, WeightChoice),
    ) -> Result<Self, Error> {
        let outline = load::outline(&file.parse()?);
        let mut facts = Vec::new();
        for address in &peers.addresses {
            let asked = ask(address, &peers.key).map_err(|error| peer_error(address, &error))?;
            if asked.outline != outline {
                let sentence = format_args!(
                    "the peer {address} has another model: metadata, tokens or tensors differ"
                );
                return Err(Error::new(ErrorKind::InvalidArgument, sentence)
                    .with_hint("start it with the same file"));
            }
            facts.push(asked);
        }
        let config = checked.blueprint.config();
        let layers = config.layers.len();
        let can_cut = |layer| config.can_cut(layer);
        let starts = match &peers.counts {
            Some(counts) => Uneven::given(counts, layers, facts.len() + 1, can_cut),
            None => {
                let machines = machines(checked, &facts, needs, choice);
                let each = &checked.blueprint;
                let each = each.layer_bytes(needs.kv, needs.positions, needs.states);
                share(&each, &machines, can_cut)
            }
        };
        let starts = starts.map_err(|error| {
            Error::new(ErrorKind::InvalidArgument, error)
                .with_hint("use fewer --peers, or other --peer-layers")
        })?;
        Ok(Self {
            starts,
            layers,
            facts,
        })
    }

    /// What this machine has.
    pub(crate) fn own(&self) -> Stretch {
        Stretch {
            first: 0,
            end: self.starts.first().copied().unwrap_or(self.layers),
            ends: true,
        }
    }

    /// What the others have.
    pub(crate) fn others(&self) -> impl Iterator<Item = Range<usize>> {
        let ends = self.starts.iter().skip(1).copied().chain([self.layers]);
        self.starts.iter().zip(ends).map(|(&start, end)| start..end)
    }

    /// What each peer takes.
    pub(crate) fn plans(
        &self,
        file: &ModelFile,
        options: &Options,
        peers: &Peers,
        needs: Needs,
    ) -> Result<Vec<PeerPlan>, Error> {
        let peers = peers.addresses.iter().zip(&self.facts);
        let plans = peers.zip(self.others()).map(|((address, facts), layers)| {
            let stretch = Stretch {
                first: layers.start,
                end: layers.end,
                ends: false,
            };
            let checked = options.check_part(file, TokenizerUse::Optional, Some(stretch))?;
            let needs = of_peer(needs, facts.workers as usize);
            Ok(PeerPlan {
                address: address.clone(),
                layers,
                weights: checked.blueprint.packed_bytes() as u64,
                kv: needs.kv_bytes(&checked.blueprint),
                activations: needs.workspace_bytes(&checked.blueprint, Placement::Packed),
                limit: facts.room,
            })
        });
        plans.collect()
    }
}

/// What a peer's layers need, where the whole model needs this.
pub(super) fn of_peer(needs: Needs, workers: usize) -> Needs {
    Needs {
        limits: BatchLimits {
            tokens: needs.limits.tokens,
            logits: 0,
        },
        workers,
        beside: 0,
        ..needs
    }
}

/// What each machine has room for, this one first.
fn machines(
    checked: &CheckedModel<'_>,
    facts: &[Facts],
    needs: Needs,
    choice: WeightChoice,
) -> Vec<Machine> {
    let blueprint = &checked.blueprint;
    let plan = MemoryPlan::new(blueprint, needs, choice.limit());
    let each = blueprint.layer_bytes(needs.kv, needs.positions, needs.states);
    let model = plan.weights.saturating_add(plan.kv);
    let layers = each
        .iter()
        .fold(0u64, |sum, &bytes| sum.saturating_add(bytes));
    let own = Machine {
        room: plan.limit.bytes.saturating_sub(plan.program),
        fixed: model.saturating_sub(layers) + plan.workspace,
    };
    let others = facts.iter().map(|facts| Machine {
        room: facts.room,
        fixed: of_peer(needs, facts.workers as usize).workspace_bytes(blueprint, Placement::Packed),
    });
    std::iter::once(own).chain(others).collect()
}
