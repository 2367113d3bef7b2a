//! Where a sequence can go on from: windows must be whole, and recurrent states need a snapshot.

use super::{NodeId, PrefixTree};
use strata_model::{PAGE, PageTable, StateId};

impl PrefixTree {
    /// How much of the first `len` positions of a path a sequence can go on from: as much as no trimmed node is in sight
    /// of, and where the model is recurrent as much as there is a snapshot at the end of.
    pub(crate) fn usable(&self, path: &[NodeId], len: usize) -> usize {
        if self.window.is_none() && !self.recurrent {
            return len;
        }
        let (mut usable, mut unbroken) = (0, 0);
        for (index, &node) in path.iter().enumerate().take(len.div_ceil(PAGE)) {
            let end = ((index + 1) * PAGE).min(len);
            unbroken = if self.lacks_window(node) {
                0
            } else {
                unbroken + end - index * PAGE
            };
            let in_sight = self
                .window
                .is_none_or(|window| unbroken >= end.min(window - 1));
            if in_sight && (!self.recurrent || self.has_state_at(node, end - index * PAGE)) {
                usable = end;
            }
        }
        usable
    }

    /// Whether a node has a snapshot, and it is of so many of its tokens.
    fn has_state_at(&self, node: NodeId, tokens: usize) -> bool {
        let node = self.node(node);
        node.state.is_some() && node.tokens.len() == tokens
    }

    /// The snapshot of the state after a node's last token.
    pub(crate) fn state(&self, node: NodeId) -> Option<StateId> {
        self.node(node).state
    }

    /// Gives a node without a snapshot one.
    pub(crate) fn set_state(&mut self, node: NodeId, state: StateId) {
        debug_assert!(self.state(node).is_none());
        self.node_mut(node).state = Some(state);
        self.snapshots.insert(node);
    }

    /// The node whose snapshot was not of use for longest.
    pub(crate) fn coldest_state(&self) -> Option<NodeId> {
        let used = |node: &NodeId| self.node(*node).used;
        self.snapshots.iter().copied().min_by_key(used)
    }

    /// Gives a node's snapshot up.
    pub(crate) fn drop_state(&mut self, node: NodeId, table: &mut PageTable) {
        if let Some(state) = self.node_mut(node).state.take() {
            self.snapshots.remove(&node);
            table.release_state(state);
        }
    }
}
