//! Pages and states that come from elsewhere: from the store behind the cache, or from a saved session.

use super::{Cache, Trail};
use crate::page_store::{self, PageKey};
use crate::prefix_tree::{NodeId, Salt};
use alloc::vec::Vec;
use strata_model::{PAGE, PageId, PageLayout, Reach, StateId};

/// What the store had.
enum Fetched<T> {
    /// A page or a state, held by the caller.
    Found(T),
    /// Nothing, or there is no room for it.
    Nothing,
    /// Something else than was put there.
    Damaged,
}

impl Cache {
    /// Brings pages after a trail's whole ones back from the store.
    pub(super) fn restore(&mut self, salt: Salt, tokens: &[u32], trail: &mut Trail) {
        let Some(mut key) = self.root(salt) else {
            return;
        };
        let whole = trail.len / PAGE;
        let mut chunks = tokens.chunks_exact(PAGE);
        let known = chunks.by_ref().take(whole);
        known.for_each(|chunk| key = key.child(chunk));
        while let Some(chunk) = chunks.next() {
            key = key.child(chunk);
            let page = match self.fetch_page(&key) {
                Fetched::Found(page) => page,
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
                    self.table.release(page, Reach::Everything);
                }
                trail.len = whole * PAGE;
            }
            let parent = trail.nodes.last().copied();
            let (node, _) = self.tree.insert(salt, parent, chunk, page, &mut self.table);
            self.table.release(page, Reach::Window);
            self.counts.restored += 1;
            trail.nodes.push(node);
            trail.pages.push(page);
            trail.len += PAGE;
        }
    }

    /// Brings back from the store what is gone of the pages that windows reach from a trail's end.
    pub(super) fn refill(&mut self, salt: Salt, tokens: &[u32], trail: &mut Trail) {
        let seen = self.tree.first_seen(trail.len) / PAGE;
        if !trail.nodes[seen..]
            .iter()
            .any(|&n| self.tree.lacks_window(n))
        {
            return;
        }
        let Some(mut key) = self.root(salt) else {
            return;
        };
        for (index, chunk) in tokens[..trail.len].chunks_exact(PAGE).enumerate() {
            key = key.child(chunk);
            if index < seen || !self.tree.lacks_window(trail.nodes[index]) {
                continue;
            }
            let page = match self.fetch_page(&key) {
                Fetched::Found(page) => page,
                Fetched::Nothing => return,
                Fetched::Damaged => return self.discard(key, core::iter::empty()),
            };
            self.tree.refill(trail.nodes[index], page, &mut self.table);
            self.table.release(page, Reach::Window);
            let windowless = core::mem::replace(&mut trail.pages[index], page);
            self.table.release(windowless, Reach::Everything);
            self.counts.restored += 1;
        }
    }

    /// Brings back the last state that the store has of a trail's pages, unless the cache has a later one.
    pub(super) fn restore_state(&mut self, salt: Salt, tokens: &[u32], trail: &Trail) {
        if !self.is_recurrent() || self.tree.usable(&trail.nodes, trail.len) == trail.len {
            return;
        }
        let Some(root) = self.root(salt) else {
            return;
        };
        let chunks = tokens[..trail.len].chunks(PAGE);
        let keys = chunks.scan(root, |key, chunk| {
            *key = key.child(chunk);
            Some((*key, chunk.len()))
        });
        let pages = trail.nodes.iter().copied().zip(keys);
        // Of a page that is found in part the state is another.
        let pages = pages.filter(|&(node, (_, len))| self.tree.tokens(node) == len);
        let pages: Vec<(NodeId, PageKey)> = pages.map(|(node, (key, _))| (node, key)).collect();
        for (node, key) in pages.into_iter().rev() {
            if self.tree.state(node).is_some() {
                return;
            }
            let (key, bytes) = (key.state(), self.layout().state_bytes());
            match self.fetch(&key, bytes, Self::fill_state) {
                Fetched::Found(state) => return self.tree.set_state(node, state, false),
                Fetched::Nothing => {}
                Fetched::Damaged => self.discard(key, core::iter::empty()),
            }
        }
    }

    /// Brings back from the store where an answer ended after a trail's whole pages: a part of a page, and the state after it.
    pub(super) fn restore_tail(&mut self, salt: Salt, tokens: &[u32], trail: &mut Trail) {
        let whole = (trail.len / PAGE).min(trail.nodes.len());
        let usable = self.tree.usable(&trail.nodes, trail.len);
        let (Some(root), true) = (self.root(salt), self.is_recurrent()) else {
            return;
        };
        let before = tokens[..whole * PAGE].chunks_exact(PAGE);
        let before = before.fold(root, |key, chunk| key.child(chunk));
        let rest = &tokens[whole * PAGE..];
        let longest = rest.len().min(PAGE - 1);
        for len in (usable.saturating_sub(whole * PAGE) + 1..=longest).rev() {
            let (tail, key) = (&rest[..len], before.child(&rest[..len]));
            let Some((store, _)) = &self.store else {
                return;
            };
            if !store.contains(&key.state().0) {
                continue;
            }
            let page = match self.fetch_page(&key) {
                Fetched::Found(page) => page,
                Fetched::Nothing => continue,
                Fetched::Damaged => {
                    self.discard(key, core::iter::empty());
                    continue;
                }
            };
            let parent = trail.nodes[..whole].last().copied();
            let node = self
                .tree
                .insert_tail(salt, parent, tail, page, &mut self.table);
            self.table.release(page, Reach::Window);
            let state = node.filter(|&node| self.tree.state(node).is_none());
            if let Some(node) = state {
                let (key, bytes) = (key.state(), self.layout().state_bytes());
                match self.fetch(&key, bytes, Self::fill_state) {
                    Fetched::Found(state) => self.tree.set_state(node, state, false),
                    Fetched::Nothing => {}
                    Fetched::Damaged => self.discard(key, core::iter::empty()),
                }
            }
            self.counts.restored += 1;
            // Held until then, so that making room for its state did not take it.
            self.table.release(page, Reach::Everything);
            if let Some(node) = node.filter(|&node| self.tree.state(node).is_some()) {
                let page = self.tree.page(node);
                self.table.retain(page, Reach::Everything);
                trail.nodes.truncate(whole);
                for page in trail.pages.drain(whole..) {
                    self.table.release(page, Reach::Everything);
                }
                trail.nodes.push(node);
                trail.pages.push(page);
                trail.len = whole * PAGE + len;
                return;
            }
        }
    }

    /// A page from the store.
    fn fetch_page(&mut self, key: &PageKey) -> Fetched<PageId> {
        self.fetch(key, self.layout().page_bytes(), Self::fill)
    }

    /// What `take` makes of so many bytes from the store.
    fn fetch<T>(
        &mut self,
        key: &PageKey,
        bytes: usize,
        take: impl FnOnce(&mut Self, &[u8]) -> Option<T>,
    ) -> Fetched<T> {
        let Some((store, _)) = &mut self.store else {
            return Fetched::Nothing;
        };
        let mut blob = core::mem::take(&mut self.blob);
        blob.clear();
        let (known, there) = (store.contains(&key.0), store.get(&key.0, &mut blob));
        let fetched = match page_store::open(key, bytes, &blob) {
            Some(bytes) if there => take(self, bytes).map_or(Fetched::Nothing, Fetched::Found),
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
        PageKey::root(*model, self.layout(), salt)
    }

    fn layout(&self) -> &PageLayout {
        self.table.layout()
    }

    /// A page of these bytes, held by the caller, if there is room.
    fn fill(&mut self, bytes: &[u8]) -> Option<PageId> {
        if !self.make_room(1) {
            return None;
        }
        let page = self.table.take_page().ok()?;
        self.executor.write_page(&self.table, page, bytes);
        Some(page)
    }

    /// A state of these bytes, if they are one and there is room.
    fn fill_state(&mut self, bytes: &[u8]) -> Option<StateId> {
        let whole = self.is_recurrent() && bytes.len() == self.layout().state_bytes();
        if !whole || !self.make_state_room() {
            return None;
        }
        let state = self.table.take_state()?;
        self.executor.write_state(state, bytes);
        Some(state)
    }

    /// Puts a node's page and its snapshot into the store, if they are not there yet, and the page is a whole one or has one. A
    /// page without its windows went there before.
    pub(super) fn keep(&mut self, node: NodeId) {
        if self.store.is_none() {
            return;
        }
        let (salt, chunks) = self.tree.path(node);
        let Some(root) = self.root(salt) else { return };
        // A part of a page is worth it where a recurrent model can go on from it.
        let part = chunks.last().is_none_or(|chunk| chunk.len() < PAGE);
        if part && self.tree.state(node).is_none() {
            return;
        }
        let key = chunks.iter().fold(root, |key, chunk| key.child(chunk));
        let Some((store, _)) = &mut self.store else {
            return;
        };
        if !self.tree.lacks_window(node) && !store.contains(&key.0) {
            let page = self.tree.page(node);
            let write = |out: &mut Vec<u8>| self.executor.read_page(&self.table, page, out);
            page_store::seal(&key, write, &mut self.blob);
            store.put(&key.0, &self.blob);
            self.counts.stored += 1;
        }
        let key = key.state();
        if let Some(state) = self.tree.state(node).filter(|_| !store.contains(&key.0)) {
            let write = |out: &mut Vec<u8>| self.executor.read_state(state, out);
            page_store::seal(&key, write, &mut self.blob);
            store.put(&key.0, &self.blob);
        }
    }

    /// Puts all kept pages into the store, for the next process.
    pub(crate) fn keep_all(&mut self) {
        let nodes: Vec<NodeId> = self.tree.all().collect();
        nodes.into_iter().for_each(|node| self.keep(node));
        if let Some((store, _)) = &mut self.store {
            store.sync();
        }
    }

    /// Puts up to so many kept pages into the store that it was not offered yet, and has them stay there once there are no
    /// more. Says whether there are.
    pub(crate) fn keep_some(&mut self, pages: usize) -> bool {
        if self.store.is_none() {
            return false;
        }
        for _ in 0..pages {
            let Some(node) = self.tree.take_unkept() else {
                break;
            };
            self.keep(node);
        }
        let more = self.tree.has_unkept();
        if let Some((store, _)) = self.store.as_mut().filter(|_| !more) {
            store.sync();
        }
        more
    }

    /// Keeps a page of a sequence's beginning that came from elsewhere, after those of the tokens before it, with the
    /// state after its last token if it has one. Says whether there was room.
    pub(crate) fn take_in(
        &mut self,
        salt: Salt,
        tokens: &[u32],
        bytes: &[u8],
        state: Option<&[u8]>,
    ) -> bool {
        let before = (tokens.len() - 1) / PAGE * PAGE;
        let chunk = &tokens[before..];
        let trail = self.follow(salt, tokens);
        let last = trail.nodes.last().copied();
        let mut node = last.filter(|&node| {
            trail.len == tokens.len()
                && self.tree.tokens(node) == chunk.len()
                && !self.tree.lacks_window(node)
        });
        if node.is_none()
            && trail.len >= before
            && let Some(page) = self.fill(bytes)
        {
            let parent = trail.nodes[..before / PAGE].last().copied();
            let table = &mut self.table;
            node = if chunk.len() == PAGE {
                Some(self.tree.insert(salt, parent, chunk, page, table).0)
            } else {
                self.tree.insert_tail(salt, parent, chunk, page, table)
            };
            self.table.release(page, Reach::Window);
            self.table.release(page, Reach::Everything);
        }
        if let Some(node) = node.filter(|&node| self.tree.state(node).is_none())
            && let Some(state) = state.and_then(|bytes| self.fill_state(bytes))
        {
            self.tree.set_state(node, state, false);
        }
        self.leave(trail);
        node.is_some()
    }
}
