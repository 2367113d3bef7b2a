//! Recurrent states: they cannot be cut back, only restored from a copy.
//!
//! A *checkpoint* is a running sequence's own copy, taken before tokens are computed that may turn out wrong. A *snapshot*
//! belongs to a node of the prefix tree: another sequence that begins with the node's tokens can go on from there.

use super::{Cache, CachedSequence};
use crate::prefix_tree::NodeId;
use strata_model::StateId;

impl Cache {
    /// Whether sequences have states that cannot be cut back.
    pub(crate) fn is_recurrent(&self) -> bool {
        self.table.layout().is_recurrent()
    }

    /// Has a slot for a state free, at the cost of the snapshot that was not of use for longest, which goes to the store.
    /// Says whether there is one; also where none is needed.
    pub(super) fn make_state_room(&mut self) -> bool {
        if !self.is_recurrent() || self.table.free_states() > 0 {
            return true;
        }
        let Some(coldest) = self.tree.coldest_state() else {
            return false;
        };
        if !self.tree.is_passing(coldest) {
            self.keep(coldest);
        }
        self.tree.drop_state(coldest, &mut self.table);
        true
    }

    /// Remembers how a sequence stands, so that it can be [rolled back](Self::rollback). Says whether it can; keys and
    /// values need no copy.
    pub(crate) fn checkpoint(&mut self, held: &mut CachedSequence) -> bool {
        self.drop_checkpoint(held);
        let Some(state) = held.sequence.state() else {
            return true;
        };
        if !self.make_state_room() {
            return false;
        }
        let Some(copy) = self.table.take_state() else {
            return false;
        };
        self.executor.copy_state(state, copy);
        held.checkpoint = Some((held.sequence.len(), copy));
        true
    }

    /// Forgets what was computed after the first `len` positions, and the checkpoint. A recurrent sequence goes back to
    /// its checkpoint, or to its beginning: it may end up shorter than `len`, and what is missing is computed again.
    pub(crate) fn rollback(&mut self, held: &mut CachedSequence, len: usize) {
        if held.sequence.len() > len {
            match (held.sequence.state(), held.checkpoint) {
                (None, _) => held.sequence.rewind(len),
                (Some(state), Some((at, copy))) if at <= len => {
                    self.executor.copy_state(copy, state);
                    held.sequence.restored(at);
                }
                (Some(_), _) => self.release(held),
            }
        }
        self.drop_checkpoint(held);
    }

    /// [Rolls back](Self::rollback) and gives back the pages that held nothing else.
    pub(crate) fn cut(&mut self, held: &mut CachedSequence, len: usize) {
        self.rollback(held, len);
        self.table.truncate(&mut held.sequence, len);
    }

    pub(super) fn drop_checkpoint(&mut self, held: &mut CachedSequence) {
        if let Some((_, state)) = held.checkpoint.take() {
            self.table.release_state(state);
        }
    }

    /// Keeps a copy of a sequence's state with the node that it stands at the end of, if there is room.
    pub(super) fn snapshot(&mut self, node: Option<NodeId>, state: Option<StateId>, passing: bool) {
        let (Some(node), Some(state)) = (node, state) else {
            return;
        };
        if self.tree.state(node).is_some() {
            if !passing {
                self.tree.value(node);
            }
            return;
        }
        if self.make_state_room()
            && let Some(copy) = self.table.take_state()
        {
            self.executor.copy_state(state, copy);
            self.tree.set_state(node, copy, passing);
        }
    }

    /// Keeps a snapshot of a sequence that has just filled a page, which has been recorded. One that is taken in passing makes
    /// way before others, and does not go to the store then.
    pub(crate) fn snapshot_page(&mut self, held: &CachedSequence, passing: bool) {
        if held.recorded * strata_model::PAGE == held.sequence.len() {
            self.snapshot(held.node, held.sequence.state(), passing);
        }
    }
}
