//! How the machines stand, for those who watch.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How one peer stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerState {
    /// Where it is.
    pub address: String,
    /// Its layers.
    pub layers: Range<usize>,
    /// Bytes that it takes: weights, pages and activations.
    pub bytes: u64,
    /// Why it cannot be used, if that is so.
    pub fault: Option<String>,
}

/// How all peers of a model stand; clones show the same.
#[derive(Clone, Debug, Default)]
pub struct PeerStates(Arc<Mutex<Vec<PeerState>>>);

impl PeerStates {
    /// As of now.
    pub fn now(&self) -> Vec<PeerState> {
        let mut all = self.lock().clone();
        all.sort_by_key(|state| state.layers.start);
        all
    }

    /// Adds a peer, and gives its number.
    pub(crate) fn add(&self, state: PeerState) -> usize {
        let mut all = self.lock();
        all.push(state);
        all.len() - 1
    }

    pub(crate) fn set(&self, number: usize, fault: Option<String>) {
        if let Some(state) = self.lock().get_mut(number) {
            state.fault = fault;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<PeerState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
