//! An executor and the bookkeeping over its storage: pages and states of running sequences, what is kept for later, and
//! a store behind both.

mod restore;
mod snapshot;

use crate::page_events::PageEvent;
use crate::page_store::ModelDigest;
use crate::prefix_tree::{Coldest, NodeId, PrefixTree, Salt};
use crate::request::{AdapterId, ClientId};
use alloc::boxed::Box;
use alloc::vec::Vec;
use strata_model::{
    BatchError, Executor, Observer, Outputs, PAGE, PageId, PageTable, Reach, Sequence, Span,
    StateId,
};
use strata_platform::PageStore;

/// What has been computed of a sequence.
#[derive(Debug, Default)]
pub(crate) struct CachedSequence {
    pub(crate) sequence: Sequence,
    /// How many of its pages are in the tree.
    recorded: usize,
    /// The node of the last of them.
    node: Option<NodeId>,
    /// A length that it can be rolled back to, and the recurrent state of that time.
    checkpoint: Option<(usize, StateId)>,
}

/// Pages kept of a sequence's beginning, and the recurrent state after them.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) pages: Vec<PageId>,
    /// Tokens in them.
    pub(crate) len: usize,
    pub(crate) state: Option<StateId>,
}

/// A beginning of a sequence in the tree: its nodes and their pages, of which the last may be wanted in part.
#[derive(Default)]
struct Trail {
    nodes: Vec<NodeId>,
    /// Held while the trail is followed, but for their windows' part.
    pages: Vec<PageId>,
    /// Positions.
    len: usize,
}

/// What has happened to cached pages.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct CacheCounts {
    pub(crate) evicted: u64,
    pub(crate) window_evictions: u64,
    pub(crate) stored: u64,
    pub(crate) restored: u64,
}

/// An executor and the bookkeeping over its storage.
pub(crate) struct Cache {
    executor: Box<dyn Executor>,
    table: PageTable,
    tree: PrefixTree,
    store: Option<(Box<dyn PageStore>, ModelDigest)>,
    counts: CacheCounts,
    trail: Trail,
    blob: Vec<u8>,
}

impl Cache {
    pub(crate) fn new(executor: Box<dyn Executor>) -> Self {
        let table = executor.page_table();
        Self {
            tree: PrefixTree::new(table.layout()),
            executor,
            table,
            store: None,
            counts: CacheCounts::default(),
            trail: Trail::default(),
            blob: Vec::new(),
        }
    }

    /// Puts a store behind the pages of the model of this digest.
    pub(crate) fn set_store(&mut self, store: Box<dyn PageStore>, model: ModelDigest) {
        self.store = Some((store, model));
        self.tree.note_unkept();
    }

    pub(crate) fn executor(&self) -> &dyn Executor {
        &*self.executor
    }

    pub(crate) fn executor_mut(&mut self) -> &mut dyn Executor {
        &mut *self.executor
    }

    pub(crate) fn table(&self) -> &PageTable {
        &self.table
    }

    /// Computes a batch.
    pub(crate) fn forward(&mut self, batch: &mut [Span<'_>]) -> Result<Outputs<'_>, BatchError> {
        self.executor.forward(&self.table, batch)
    }

    /// Has the model's own layer predict what follows.
    pub(crate) fn predict(&mut self, batch: &mut [Span<'_>]) -> Result<Outputs<'_>, BatchError> {
        self.executor.predict(&self.table, batch)
    }

    /// Computes a batch, and shows someone what happens inside.
    pub(crate) fn observe(
        &mut self,
        batch: &mut [Span<'_>],
        observer: &dyn Observer,
    ) -> Result<Outputs<'_>, BatchError> {
        self.executor.observe(&self.table, batch, observer)
    }

    #[cfg(test)]
    pub(crate) fn tree(&self) -> &PrefixTree {
        &self.tree
    }

    #[cfg(test)]
    pub(crate) fn tree_mut(&mut self) -> &mut PrefixTree {
        &mut self.tree
    }

    /// Bytes of the pages that are kept for a client.
    pub(crate) fn kept_bytes(&self, client: ClientId) -> usize {
        self.tree.pages_of(client) * self.table.layout().page_bytes()
    }

    /// Pages kept for later, some of which running sequences use too.
    pub(crate) fn kept_pages(&self) -> usize {
        // A page with a second user is one of the tree's that a sequence goes on from.
        self.tree.pages().saturating_sub(self.table.shared_pages())
    }

    /// Notes from now on what happens to pages of the tree.
    pub(crate) fn tell_pages(&mut self) {
        self.tree.tell();
    }

    /// What has happened to them since the last call.
    pub(crate) fn take_told(&mut self) -> Vec<PageEvent> {
        self.tree.take_told()
    }

    pub(crate) fn counts(&self) -> CacheCounts {
        self.counts
    }

    /// Gives a sequence that has nothing computed what is known of the beginning of `tokens`.
    pub(crate) fn attach(&mut self, salt: Salt, tokens: &[u32], held: &mut CachedSequence) {
        debug_assert!(held.sequence.is_empty() && held.sequence.room() == 0);
        let mut trail = self.follow(salt, tokens);
        if self.store.is_some() {
            self.restore(salt, tokens, &mut trail);
            self.refill(salt, tokens, &mut trail);
            self.restore_state(salt, tokens, &trail);
            self.restore_tail(salt, tokens, &mut trail);
        }
        self.end_at_tail(salt, tokens, &mut trail);
        let mut len = self.tree.usable(&trail.nodes, trail.len);
        if !len.is_multiple_of(PAGE) && !self.make_room(1) {
            len -= len % PAGE;
        }
        // Making room may have evicted windows of what was found.
        len = self.tree.usable(&trail.nodes, len);
        if len > 0 && self.make_state_room() {
            // A snapshot may have gone to make room for the sequence's own state.
            len = self.tree.usable(&trail.nodes, len);
        }
        if len > 0 {
            self.adopt(&trail, len, held);
        }
        self.leave(trail);
    }

    /// Gives a sequence the first `len` positions of a trail, which are usable.
    fn adopt(&mut self, trail: &Trail, len: usize, held: &mut CachedSequence) {
        let forgotten = self.tree.first_seen(len) / PAGE;
        // The caller has made room for a copy and for a state.
        let Ok((sequence, copy)) = self.table.adopt(&trail.pages, len, forgotten) else {
            return;
        };
        if let Some(copy) = copy {
            self.executor.copy_page(&self.table, copy);
        }
        if let Some(state) = sequence.state() {
            let last = trail.nodes[len.div_ceil(PAGE) - 1];
            let snapshot = self.tree.state(last).expect("a usable beginning has one");
            self.executor.copy_state(snapshot, state);
            self.tree.value(last);
        }
        held.sequence = sequence;
        held.recorded = len / PAGE;
        held.node = trail.nodes[..held.recorded].last().copied();
    }

    /// Finds a sequence's beginning, and holds its pages: while room is made, what was found must stay.
    fn follow(&mut self, salt: Salt, tokens: &[u32]) -> Trail {
        let mut trail = core::mem::take(&mut self.trail);
        trail.len = self.tree.find(salt, tokens, &mut trail.nodes);
        trail.pages.clear();
        for &node in &trail.nodes {
            let page = self.tree.page(node);
            self.table.retain(page, Reach::Everything);
            trail.pages.push(page);
        }
        trail
    }

    /// Has a trail end where there is a snapshot, even if more is known past that.
    fn end_at_tail(&mut self, salt: Salt, tokens: &[u32], trail: &mut Trail) {
        let before = trail.nodes.len();
        let len = self
            .tree
            .end_at_tail(salt, tokens, &mut trail.nodes, trail.len);
        if len == trail.len && before == trail.nodes.len() {
            return;
        }
        trail.len = len;
        let last = trail.nodes.len() - 1;
        let page = self.tree.page(trail.nodes[last]);
        self.table.retain(page, Reach::Everything);
        for page in trail.pages.drain(last..) {
            self.table.release(page, Reach::Everything);
        }
        trail.pages.push(page);
    }

    /// Gives up what a trail holds.
    fn leave(&mut self, trail: Trail) {
        for &page in &trail.pages {
            self.table.release(page, Reach::Everything);
        }
        self.trail = trail;
    }

    /// Makes room for that many tokens more, at the cost of kept pages; all or nothing.
    pub(crate) fn reserve(&mut self, held: &mut CachedSequence, more: usize) -> bool {
        let room = held.sequence.room();
        let missing = (held.sequence.len() + more)
            .saturating_sub(room)
            .div_ceil(PAGE);
        let stateless = held.sequence.state().is_none();
        self.make_room(missing)
            && (!stateless || self.make_state_room())
            && self.table.reserve(&mut held.sequence, more).is_ok()
    }

    /// Has so many pages free, at the cost of kept ones, or of their windows' part.
    pub(crate) fn make_room(&mut self, pages: usize) -> bool {
        while self.table.free_pages() < pages {
            match self.tree.coldest(&self.table) {
                None => return false,
                Some(Coldest::Leaf(leaf)) => {
                    self.keep(leaf);
                    self.counts.evicted += self.tree.evict(leaf, &mut self.table);
                }
                Some(Coldest::Windows(node)) => {
                    self.keep(node);
                    self.tree.evict_window(node, &mut self.table);
                    self.counts.window_evictions += 1;
                }
            }
        }
        true
    }

    /// Enters the pages that a sequence has filled into the tree, and gives back what its windows are past. `tokens` begins
    /// with what is computed.
    pub(crate) fn record(&mut self, salt: Salt, tokens: &[u32], held: &mut CachedSequence) {
        let len = held.sequence.len();
        while (held.recorded + 1) * PAGE <= len {
            let at = held.recorded;
            let chunk = &tokens[at * PAGE..][..PAGE];
            let page = held.sequence.pages()[at];
            let (node, kept) = self
                .tree
                .insert(salt, held.node, chunk, page, &mut self.table);
            if kept != page {
                self.table.replace(&mut held.sequence, at, kept);
            }
            held.recorded += 1;
            held.node = Some(node);
        }
        self.forget(held);
    }

    /// Gives back what a sequence's windows are past. The tree may keep it as long as there is room.
    pub(crate) fn forget(&mut self, held: &mut CachedSequence) {
        let first = self.tree.first_seen(held.sequence.len());
        self.table.forget_before(&mut held.sequence, first);
    }

    /// Enters the part of a page at a sequence's end too.
    pub(crate) fn record_tail(&mut self, salt: Salt, tokens: &[u32], held: &mut CachedSequence) {
        self.record(salt, tokens, held);
        let (len, at) = (held.sequence.len(), held.recorded * PAGE);
        if len > at && len - at < PAGE {
            let page = held.sequence.pages()[held.recorded];
            let tail = &tokens[at..len];
            let node = self
                .tree
                .insert_tail(salt, held.node, tail, page, &mut self.table);
            self.snapshot(node, held.sequence.state(), false);
        } else if len > 0 {
            self.snapshot(held.node, held.sequence.state(), false);
        }
    }

    /// Takes all pages from a sequence.
    pub(crate) fn release(&mut self, held: &mut CachedSequence) {
        self.drop_checkpoint(held);
        self.table.truncate(&mut held.sequence, 0);
        held.recorded = 0;
        held.node = None;
    }

    /// Forgets what is kept under a salt.
    pub(crate) fn clear(&mut self, salt: Salt) {
        self.tree.clear(salt, &mut self.table);
    }

    /// Forgets what is kept under an adapter.
    pub(crate) fn clear_adapter(&mut self, adapter: AdapterId) {
        let salts = self.tree.salts().into_iter();
        for salt in salts.filter(|salt| salt.adapter == Some(adapter)) {
            self.clear(salt);
        }
    }

    /// Forgets everything that is kept.
    pub(crate) fn clear_all(&mut self) {
        for salt in self.tree.salts() {
            self.clear(salt);
        }
    }

    /// How much of a sequence is kept that it can go on from, in whole pages.
    pub(crate) fn kept_len(&self, salt: Salt, tokens: &[u32]) -> usize {
        self.tree.known(salt, tokens)
    }

    /// The whole pages that are kept of a sequence's beginning, from the first on, with all their parts; of a recurrent
    /// model those up to the last snapshot, whose page may be filled in part.
    pub(crate) fn kept(&mut self, salt: Salt, tokens: &[u32]) -> Kept {
        let mut nodes = Vec::new();
        let found = self.tree.find(salt, tokens, &mut nodes);
        let mut len = self.tree.end_at_tail(salt, tokens, &mut nodes, found);
        let unbroken = nodes
            .iter()
            .take_while(|&&node| !self.tree.lacks_window(node));
        len = len.min(unbroken.count() * PAGE);
        let mut state = None;
        if self.is_recurrent() {
            let ends = |end: &usize| {
                let node = nodes[end.div_ceil(PAGE) - 1];
                self.tree.state(node).is_some() && self.tree.tokens(node) == (end - 1) % PAGE + 1
            };
            let whole = (1..=len / PAGE).map(|pages| pages * PAGE);
            len = whole
                .chain([len].into_iter().filter(|&len| len > 0))
                .rfind(ends)
                .unwrap_or(0);
            let last = len.div_ceil(PAGE).checked_sub(1);
            state = last.and_then(|last| self.tree.state(nodes[last]));
        } else {
            len -= len % PAGE;
        }
        nodes.truncate(len.div_ceil(PAGE));
        Kept {
            pages: nodes.iter().map(|&node| self.tree.page(node)).collect(),
            len,
            state,
        }
    }
}
