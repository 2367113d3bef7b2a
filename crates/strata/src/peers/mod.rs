//! Models whose layers are on several machines.

mod host;
mod open;
mod samples;
mod shares;

pub use host::{PeerHost, PeerHostOptions};
pub(crate) use open::{in_words, open};
pub(crate) use shares::{Shares, refuse_others};
pub use strata_peers::{PeerError, PeerKey, PeerState, PeerStates};

/// The machines that have some of a model's layers: each runs `strata peer`, or a [`PeerHost`].
#[derive(Clone, Debug)]
pub struct Peers {
    pub(crate) addresses: Vec<String>,
    pub(crate) key: PeerKey,
    pub(crate) counts: Option<Vec<usize>>,
}

impl Peers {
    /// Machines by their addresses, `HOST:PORT`, in the order of their layers. All of them know the key.
    pub fn new(addresses: impl IntoIterator<Item = impl Into<String>>, key: PeerKey) -> Self {
        Self {
            addresses: addresses.into_iter().map(Into::into).collect(),
            key,
            counts: None,
        }
    }

    /// How many layers this machine and each of the others has. [default: by their memory]
    #[must_use]
    pub fn layers(mut self, counts: impl Into<Vec<usize>>) -> Self {
        self.counts = Some(counts.into());
        self
    }
}

/// What a peer would take of its machine, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerPlan {
    /// Where it is.
    pub address: String,
    /// Its layers.
    pub layers: std::ops::Range<usize>,
    /// Their weights.
    pub weights: u64,
    /// Keys, values and recurrent states.
    pub kv: u64,
    /// Activations.
    pub activations: u64,
    /// What it has room for.
    pub limit: u64,
}

impl PeerPlan {
    /// Everything together, in bytes.
    pub fn total(&self) -> u64 {
        let rest = self.weights.saturating_add(self.activations);
        rest.saturating_add(self.kv)
    }
}
