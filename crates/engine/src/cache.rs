//! Keys and values of texts: pages of running texts, pages kept for later, and a store behind both.

use crate::page_store::{self, ModelDigest, PageKey};
use crate::prefix_tree::{Coldest, NodeId, PrefixTree, Salt};
use crate::request::AdapterId;
use alloc::boxed::Box;
use alloc::vec::Vec;
use strata_model::{KvPages, PAGE, PageId, Reach, Sequence};
use strata_platform::PageStore;

/// What a text has computed.
#[derive(Debug, Default)]
pub(crate) struct Held {
    pub(crate) sequence: Sequence,
    /// How many of its pages are in the tree.
    recorded: usize,
    /// The node of the last of them.
    node: Option<NodeId>,
}

/// What the store had.
enum Fetched {
    Page(PageId),
    /// Nothing, or there is no room for it.
    Nothing,
    /// Something else than was put there.
    Damaged,
}

/// A beginning of a text in the tree: its nodes and their pages, of which the last may be wanted in part.
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
    pub(crate) hollowed: u64,
    pub(crate) stored: u64,
    pub(crate) restored: u64,
}

/// The pages of a model, running and kept.
pub(crate) struct Cache {
    kv: KvPages,
    tree: PrefixTree,
    store: Option<(Box<dyn PageStore>, ModelDigest)>,
    counts: CacheCounts,
    trail: Trail,
    blob: Vec<u8>,
}

impl Cache {
    pub(crate) fn new(kv: KvPages) -> Self {
        Self {
            tree: PrefixTree::new(kv.window()),
            kv,
            store: None,
            counts: CacheCounts::default(),
            trail: Trail::default(),
            blob: Vec::new(),
        }
    }

    /// Puts a store behind the pages of the model of this digest.
    pub(crate) fn set_store(&mut self, store: Box<dyn PageStore>, model: ModelDigest) {
        self.store = Some((store, model));
    }

    pub(crate) fn kv(&self) -> &KvPages {
        &self.kv
    }

    pub(crate) fn kv_mut(&mut self) -> &mut KvPages {
        &mut self.kv
    }

    #[cfg(test)]
    pub(crate) fn tree(&self) -> &PrefixTree {
        &self.tree
    }

    #[cfg(test)]
    pub(crate) fn tree_mut(&mut self) -> &mut PrefixTree {
        &mut self.tree
    }

    /// Pages kept for later, some of which running texts use too.
    pub(crate) fn kept_pages(&self) -> usize {
        self.tree.pages()
    }

    pub(crate) fn counts(&self) -> CacheCounts {
        self.counts
    }

    /// Gives a text that has nothing computed what is known of the beginning of `tokens`.
    pub(crate) fn attach(&mut self, salt: Salt, tokens: &[u32], held: &mut Held) {
        debug_assert!(held.sequence.is_empty() && held.sequence.room() == 0);
        let mut trail = self.follow(salt, tokens);
        if self.store.is_some() {
            self.restore(salt, tokens, &mut trail);
            self.refill(salt, tokens, &mut trail);
        }
        let mut len = self.tree.usable(&trail.nodes, trail.len);
        if !len.is_multiple_of(PAGE) && !self.make_room(1) {
            len -= len % PAGE;
        }
        // Making room may have hollowed what was found.
        len = self.tree.usable(&trail.nodes, len);
        let forgotten = self.tree.first_seen(len) / PAGE;
        // A page to copy into was found above.
        if let Ok(sequence) = self.kv.adopt(&trail.pages, len, forgotten) {
            held.sequence = sequence;
            held.recorded = len / PAGE;
            held.node = trail.nodes[..held.recorded].last().copied();
        }
        self.leave(trail);
    }

    /// Finds a text's beginning, and holds its pages: while room is made, what was found must stay.
    fn follow(&mut self, salt: Salt, tokens: &[u32]) -> Trail {
        let mut trail = core::mem::take(&mut self.trail);
        trail.len = self.tree.find(salt, tokens, &mut trail.nodes);
        trail.pages.clear();
        for &node in &trail.nodes {
            let page = self.tree.page(node);
            self.kv.retain(page, Reach::Everything);
            trail.pages.push(page);
        }
        trail
    }

    /// Gives up what a trail holds.
    fn leave(&mut self, trail: Trail) {
        for &page in &trail.pages {
            self.kv.release(page, Reach::Everything);
        }
        self.trail = trail;
    }

    /// Brings pages after a trail's whole ones back from the store.
    fn restore(&mut self, salt: Salt, tokens: &[u32], trail: &mut Trail) {
        let Some(mut key) = self.root(salt) else {
            return;
        };
        let whole = trail.len / PAGE;
        let mut chunks = tokens.chunks_exact(PAGE);
        let known = chunks.by_ref().take(whole);
        known.for_each(|chunk| key = key.child(chunk));
        while let Some(chunk) = chunks.next() {
            key = key.child(chunk);
            let page = match self.fetch(&key) {
                Fetched::Page(page) => page,
                Fetched::Nothing => break,
                Fetched::Damaged => {
                    // All from here on is computed again, and then stored again whatever state it is in.
                    self.discard(key, chunks);
                    break;
                }
            };
            if !trail.len.is_multiple_of(PAGE) {
                // A page that was to be copied in part is not needed now.
                trail.nodes.truncate(whole);
                for page in trail.pages.drain(whole..) {
                    self.kv.release(page, Reach::Everything);
                }
                trail.len = whole * PAGE;
            }
            let parent = trail.nodes.last().copied();
            let (node, _) = self.tree.insert(salt, parent, chunk, page, &mut self.kv);
            self.kv.release(page, Reach::Window);
            self.counts.restored += 1;
            trail.nodes.push(node);
            trail.pages.push(page);
            trail.len += PAGE;
        }
    }

    /// Brings back from the store what is gone of the pages that windows reach from a trail's end.
    fn refill(&mut self, salt: Salt, tokens: &[u32], trail: &mut Trail) {
        let seen = self.tree.first_seen(trail.len) / PAGE;
        if !trail.nodes[seen..].iter().any(|&n| self.tree.is_hollow(n)) {
            return;
        }
        let Some(mut key) = self.root(salt) else {
            return;
        };
        for (index, chunk) in tokens[..trail.len].chunks_exact(PAGE).enumerate() {
            key = key.child(chunk);
            if index < seen || !self.tree.is_hollow(trail.nodes[index]) {
                continue;
            }
            let page = match self.fetch(&key) {
                Fetched::Page(page) => page,
                Fetched::Nothing => return,
                Fetched::Damaged => return self.discard(key, core::iter::empty()),
            };
            self.tree.refill(trail.nodes[index], page, &mut self.kv);
            self.kv.release(page, Reach::Window);
            let hollow = core::mem::replace(&mut trail.pages[index], page);
            self.kv.release(hollow, Reach::Everything);
            self.counts.restored += 1;
        }
    }

    /// A page from the store, held by the caller.
    fn fetch(&mut self, key: &PageKey) -> Fetched {
        let Some((store, _)) = &mut self.store else {
            return Fetched::Nothing;
        };
        let mut blob = core::mem::take(&mut self.blob);
        blob.clear();
        let (known, there) = (store.contains(&key.0), store.get(&key.0, &mut blob));
        let fetched = match page_store::open(key, self.kv.page_bytes(), &blob) {
            Some(bytes) if there => self
                .make_room(1)
                .then(|| self.kv.fill(bytes).ok())
                .flatten()
                .map_or(Fetched::Nothing, Fetched::Page),
            _ if known => Fetched::Damaged,
            _ => Fetched::Nothing,
        };
        self.blob = blob;
        fetched
    }

    /// Takes a page and those of the tokens after it out of the store.
    fn discard<'t>(&mut self, mut key: PageKey, after: impl Iterator<Item = &'t [u32]>) {
        let Some((store, _)) = &mut self.store else {
            return;
        };
        store.remove(&key.0);
        for chunk in after {
            key = key.child(chunk);
            store.remove(&key.0);
        }
    }

    fn root(&self, salt: Salt) -> Option<PageKey> {
        let (_, model) = self.store.as_ref()?;
        PageKey::root(*model, self.kv.kind(), self.kv.page_bytes(), salt)
    }

    /// Makes room for that many tokens more, at the cost of kept pages; all or nothing.
    pub(crate) fn reserve(&mut self, held: &mut Held, more: usize) -> bool {
        let room = held.sequence.room();
        let missing = (held.sequence.len() + more)
            .saturating_sub(room)
            .div_ceil(PAGE);
        self.make_room(missing) && self.kv.reserve(&mut held.sequence, more).is_ok()
    }

    /// Has so many pages free, at the cost of kept ones, or of their windows' part.
    pub(crate) fn make_room(&mut self, pages: usize) -> bool {
        while self.kv.free_pages() < pages {
            match self.tree.coldest(&self.kv) {
                None => return false,
                Some(Coldest::Leaf(leaf)) => {
                    self.keep(leaf);
                    self.counts.evicted += self.tree.evict(leaf, &mut self.kv);
                }
                Some(Coldest::Windows(node)) => {
                    self.keep(node);
                    self.tree.hollow(node, &mut self.kv);
                    self.counts.hollowed += 1;
                }
            }
        }
        true
    }

    /// Puts a node's page into the store, if it is a whole one and not there yet. A hollow one went there before.
    fn keep(&mut self, node: NodeId) {
        if self.tree.is_hollow(node) {
            return;
        }
        let (salt, chunks) = self.tree.path(node);
        let Some(root) = self.root(salt) else { return };
        if chunks.last().is_none_or(|chunk| chunk.len() < PAGE) {
            return;
        }
        let key = chunks.iter().fold(root, |key, chunk| key.child(chunk));
        let page = self.tree.page(node);
        let Some((store, _)) = &mut self.store else {
            return;
        };
        if !store.contains(&key.0) {
            page_store::seal(&key, |out| self.kv.read(page, out), &mut self.blob);
            store.put(&key.0, &self.blob);
            self.counts.stored += 1;
        }
    }

    /// Puts all kept pages into the store, for the next process.
    pub(crate) fn keep_all(&mut self) {
        let nodes: Vec<NodeId> = self.tree.all().collect();
        nodes.into_iter().for_each(|node| self.keep(node));
    }

    /// Enters the pages that a text has filled into the tree, and gives back what its windows are past. `tokens` begins
    /// with what is computed.
    pub(crate) fn record(&mut self, salt: Salt, tokens: &[u32], held: &mut Held) {
        let len = held.sequence.len();
        while (held.recorded + 1) * PAGE <= len {
            let at = held.recorded;
            let chunk = &tokens[at * PAGE..][..PAGE];
            let page = held.sequence.pages()[at];
            let (node, kept) = self.tree.insert(salt, held.node, chunk, page, &mut self.kv);
            if kept != page {
                self.kv.replace(&mut held.sequence, at, kept);
            }
            held.recorded += 1;
            held.node = Some(node);
        }
        self.forget(held);
    }

    /// Gives back what a text's windows are past. The tree may keep it as long as there is room.
    pub(crate) fn forget(&mut self, held: &mut Held) {
        let first = self.tree.first_seen(held.sequence.len());
        self.kv.forget_before(&mut held.sequence, first);
    }

    /// Enters the part of a page at a text's end too.
    pub(crate) fn record_tail(&mut self, salt: Salt, tokens: &[u32], held: &mut Held) {
        self.record(salt, tokens, held);
        let (len, at) = (held.sequence.len(), held.recorded * PAGE);
        if len > at && len - at < PAGE {
            let page = held.sequence.pages()[held.recorded];
            self.tree
                .insert_tail(salt, held.node, &tokens[at..len], page, &mut self.kv);
        }
    }

    /// Takes all pages from a text.
    pub(crate) fn release(&mut self, held: &mut Held) {
        self.kv.truncate(&mut held.sequence, 0);
        held.recorded = 0;
        held.node = None;
    }

    /// Forgets what is kept under a salt.
    pub(crate) fn clear(&mut self, salt: Salt) {
        self.tree.clear(salt, &mut self.kv);
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

    /// How much of a text is kept that it can go on from, in whole pages.
    pub(crate) fn kept_len(&self, salt: Salt, tokens: &[u32]) -> usize {
        self.tree.known(salt, tokens)
    }

    /// The whole pages that are kept of a text's beginning, from the first on, with all their parts.
    pub(crate) fn kept(&mut self, salt: Salt, tokens: &[u32]) -> Vec<PageId> {
        let mut nodes = Vec::new();
        let whole = self.tree.find(salt, tokens, &mut nodes) / PAGE;
        let nodes = nodes.into_iter().take(whole);
        nodes
            .take_while(|&node| !self.tree.is_hollow(node))
            .map(|node| self.tree.page(node))
            .collect()
    }

    /// Keeps a page of a text's beginning that came from elsewhere, after those of the tokens before it. Says whether
    /// there was room.
    pub(crate) fn take_in(&mut self, salt: Salt, tokens: &[u32], bytes: &[u8]) -> bool {
        let before = tokens.len() - PAGE;
        let trail = self.follow(salt, tokens);
        let last = trail.nodes.last();
        let known =
            trail.len == tokens.len() && last.is_some_and(|&node| !self.tree.is_hollow(node));
        let mut taken = known;
        if !known
            && trail.len >= before
            && self.make_room(1)
            && let Ok(page) = self.kv.fill(bytes)
        {
            let parent = trail.nodes[..before / PAGE].last().copied();
            let chunk = &tokens[before..];
            self.tree.insert(salt, parent, chunk, page, &mut self.kv);
            self.kv.release(page, Reach::Window);
            self.kv.release(page, Reach::Everything);
            taken = true;
        }
        self.leave(trail);
        taken
    }
}
