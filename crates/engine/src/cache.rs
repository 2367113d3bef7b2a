//! Keys and values of texts: pages of running texts, pages kept for later, and a store behind both.

use crate::page_store::{self, ModelDigest, PageKey};
use crate::prefix_tree::{NodeId, PrefixTree, Salt};
use crate::request::AdapterId;
use alloc::boxed::Box;
use alloc::vec::Vec;
use strata_model::{Config, KvPages, PAGE, PageId, Sequence};
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

/// What has happened to cached pages.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct CacheCounts {
    pub(crate) evicted: u64,
    pub(crate) stored: u64,
    pub(crate) restored: u64,
}

/// The pages of a model, running and kept.
pub(crate) struct Cache {
    kv: KvPages,
    tree: PrefixTree,
    store: Option<(Box<dyn PageStore>, ModelDigest)>,
    /// What every layer looks back over at most, if none looks back over everything.
    window: Option<usize>,
    counts: CacheCounts,
    found: Vec<PageId>,
    blob: Vec<u8>,
}

impl Cache {
    pub(crate) fn new(kv: KvPages, config: &Config) -> Self {
        let window = config
            .windows
            .iter()
            .try_fold(0, |most, window| window.map(|window| window.max(most)));
        Self {
            kv,
            tree: PrefixTree::default(),
            store: None,
            window: window.filter(|&window| window > 0),
            counts: CacheCounts::default(),
            found: Vec::new(),
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
        let mut pages = core::mem::take(&mut self.found);
        pages.clear();
        let mut found = self.tree.find(salt, tokens, &mut pages);
        // While more is made room for, what was found must stay.
        pages.iter().for_each(|&page| self.kv.retain(page));
        if self.store.is_some() {
            let part = found.len % PAGE;
            let whole = found.len - part;
            let more = self.restore(salt, tokens, whole, found.node, &mut pages);
            if let Some(node) = more {
                found.node = Some(node);
                found.len = pages.len() * PAGE;
            }
        }
        if !found.len.is_multiple_of(PAGE) && !self.make_room(1) {
            found.len -= found.len % PAGE;
        }
        // A page to copy into was found above.
        if let Ok(sequence) = self.kv.adopt(&pages, found.len) {
            held.sequence = sequence;
            held.recorded = found.len / PAGE;
            held.node = found.node;
        }
        pages.iter().for_each(|&page| self.kv.release(page));
        self.found = pages;
    }

    /// Brings pages after the first `from` tokens back from the store. `pages` are those before, held; each that comes
    /// back is held too.
    fn restore(
        &mut self,
        salt: Salt,
        tokens: &[u32],
        from: usize,
        mut node: Option<NodeId>,
        pages: &mut Vec<PageId>,
    ) -> Option<NodeId> {
        let mut key = self.root(salt)?;
        let mut chunks = tokens.chunks_exact(PAGE);
        let known = chunks.by_ref().take(from / PAGE);
        known.for_each(|chunk| key = key.child(chunk));
        let mut restored = None;
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
            if restored.is_none() {
                // A page that was to be copied in part is not needed now.
                pages
                    .drain(from / PAGE..)
                    .for_each(|page| self.kv.release(page));
            }
            let (id, _) = self.tree.insert(salt, node, chunk, page, &mut self.kv);
            self.counts.restored += 1;
            pages.push(page);
            node = Some(id);
            restored = node;
        }
        restored
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

    /// Has so many pages free, at the cost of kept ones.
    pub(crate) fn make_room(&mut self, pages: usize) -> bool {
        while self.kv.free_pages() < pages {
            let Some(node) = self.tree.coldest(&self.kv) else {
                return false;
            };
            self.keep(node);
            self.tree.remove(node, &mut self.kv);
            self.counts.evicted += 1;
        }
        true
    }

    /// Puts a node's page into the store, if it is a whole one and not there yet.
    fn keep(&mut self, node: NodeId) {
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
            page_store::seal(&key, self.kv.page(page), &mut self.blob);
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
        if let Some(window) = self.window
            && len >= window
        {
            // Such a text has no beginning any more that others could use.
            self.kv.forget_before(&mut held.sequence, len + 1 - window);
            return;
        }
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

    /// How much of a text is kept, in whole pages.
    pub(crate) fn kept_len(&self, salt: Salt, tokens: &[u32]) -> usize {
        self.tree.known(salt, tokens)
    }

    /// The whole pages that are kept of a text's beginning, from the first on.
    pub(crate) fn kept(&mut self, salt: Salt, tokens: &[u32]) -> Vec<PageId> {
        let mut pages = Vec::new();
        let found = self.tree.find(salt, tokens, &mut pages);
        pages.truncate(found.len / PAGE);
        pages
    }

    /// Keeps a page of a text's beginning that came from elsewhere, after those of the tokens before it. Says whether
    /// there was room.
    pub(crate) fn take_in(&mut self, salt: Salt, tokens: &[u32], bytes: &[u8]) -> bool {
        let mut pages = Vec::new();
        let found = self.tree.find(salt, tokens, &mut pages);
        if found.len == tokens.len() {
            return true;
        }
        let before = tokens.len() - PAGE;
        if found.len < before {
            return false;
        }
        // The node before must not be what makes room.
        pages.iter().for_each(|&page| self.kv.retain(page));
        let page = self
            .make_room(1)
            .then(|| self.kv.fill(bytes).ok())
            .flatten();
        if let Some(page) = page {
            self.tree
                .insert(salt, found.node, &tokens[before..], page, &mut self.kv);
            self.kv.release(page);
        }
        pages.iter().for_each(|&page| self.kv.release(page));
        page.is_some()
    }
}
