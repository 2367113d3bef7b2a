//! Which nodes a store was not offered yet: on a machine that may lose power they are written one by one.

use super::{NodeId, PrefixTree};

impl PrefixTree {
    /// Notes from now on which nodes a store was not offered.
    pub(crate) fn note_unkept(&mut self) {
        self.unkept.get_or_insert_default();
    }

    /// A node that is to be offered to a store, once.
    pub(crate) fn take_unkept(&mut self) -> Option<NodeId> {
        self.unkept.as_mut()?.pop_first()
    }

    /// Whether there are more of these.
    pub(crate) fn has_unkept(&self) -> bool {
        self.unkept.as_ref().is_some_and(|nodes| !nodes.is_empty())
    }

    /// A node has a new page or a new snapshot.
    pub(super) fn add_unkept(&mut self, node: NodeId) {
        if let Some(unkept) = &mut self.unkept {
            unkept.insert(node);
        }
    }

    /// A node goes.
    pub(super) fn forget_unkept(&mut self, node: NodeId) {
        if let Some(unkept) = &mut self.unkept {
            unkept.remove(&node);
        }
    }
}
