//! Where a sequence can go on from: windows must be whole, and recurrent states need a snapshot.

use super::{NodeId, PrefixTree, Salt};
use alloc::vec::Vec;
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

    /// How many tokens a node has.
    pub(crate) fn tokens(&self, node: NodeId) -> usize {
        self.node(node).tokens.len()
    }

    /// Has a path along the first `len` of some tokens end with a part of a page that has a snapshot, where that is later than
    /// the last snapshot on it. Gives how many positions the path is then.
    pub(crate) fn end_at_tail(
        &self,
        salt: Salt,
        tokens: &[u32],
        path: &mut Vec<NodeId>,
        len: usize,
    ) -> usize {
        if !self.recurrent {
            return len;
        }
        let usable = self.usable(path, len);
        for whole in (usable / PAGE..=(len / PAGE).min(path.len())).rev() {
            let parent = path[..whole].last().copied();
            let end = len.min((whole + 1) * PAGE - 1);
            let shortest = usable.max(whole * PAGE) + 1;
            let Some(children) = self.children(salt, parent) else {
                continue;
            };
            let tail = (shortest..=end)
                .rev()
                .filter_map(|end| Some((end, *children.get(&tokens[whole * PAGE..end])?)))
                .find(|&(_, node)| self.state(node).is_some());
            if let Some((end, node)) = tail {
                let mut ended = path[..whole].to_vec();
                ended.push(node);
                if self.usable(&ended, end) == end {
                    *path = ended;
                    return end;
                }
            }
        }
        len
    }

    /// Gives a node without a snapshot one.
    pub(crate) fn set_state(&mut self, id: NodeId, state: StateId, passing: bool) {
        debug_assert!(self.state(id).is_none());
        let node = self.node_mut(id);
        node.state = Some(state);
        node.passing = passing;
        self.snapshots.insert(id);
        if !passing {
            self.add_unkept(id);
        }
    }

    /// A snapshot that a sequence has gone on from will be of use again.
    pub(crate) fn value(&mut self, node: NodeId) {
        self.node_mut(node).passing = false;
    }

    /// Whether a node's snapshot was taken in passing.
    pub(crate) fn is_passing(&self, node: NodeId) -> bool {
        self.node(node).passing
    }

    /// The node whose snapshot goes next: one that was taken in passing, else the one that was not of use for longest.
    pub(crate) fn coldest_state(&self) -> Option<NodeId> {
        let order = |&node: &NodeId| (!self.is_passing(node), self.node(node).used);
        self.snapshots.iter().copied().min_by_key(order)
    }

    /// Gives a node's snapshot up.
    pub(crate) fn drop_state(&mut self, node: NodeId, table: &mut PageTable) {
        if let Some(state) = self.node_mut(node).state.take() {
            self.snapshots.remove(&node);
            table.release_state(state);
        }
    }
}
