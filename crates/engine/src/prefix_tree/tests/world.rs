//! A cache among running sequences, and what each of its pages and states must hold.

use super::{PAGES, cache_of, salt};
use crate::cache::{Cache, CachedSequence};
use crate::page_mover::hash;
use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;
use strata_model::{Config, Output, PAGE, PageId, Reach, Sequence, Span, StateId};

/// A text of which a running request holds a beginning.
pub(super) struct Text {
    pub(super) salt: u64,
    pub(super) tokens: Vec<u32>,
    pub(super) held: CachedSequence,
}

/// What was ever recorded: each page's salt and all tokens up to its last.
#[derive(Default)]
pub(super) struct Known(pub(super) BTreeSet<(u64, Vec<u32>)>);

impl Known {
    pub(super) fn record(&mut self, salt: u64, tokens: &[u32]) {
        for chunk in 1..=tokens.len() / PAGE {
            self.0.insert((salt, tokens[..chunk * PAGE].to_vec()));
        }
        self.0.insert((salt, tokens.to_vec()));
    }

    /// The most that anybody could know of a sequence.
    pub(super) fn longest(&self, salt: u64, tokens: &[u32]) -> usize {
        let common =
            |known: &Vec<u32>| known.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        let own = self.0.iter().filter(|(of, _)| *of == salt);
        own.map(|(_, known)| common(known)).max().unwrap_or(0)
    }
}

/// A sequence's tokens as the executor sees them: those of each salt are others.
fn salted(salt: u64, tokens: &[u32]) -> Vec<u32> {
    let salt = (salt as u32 + 1) << 16;
    tokens.iter().map(|token| token + salt).collect()
}

/// What stands for a position, and for the state after it: a hash of all tokens up to it.
fn mark(salt: u64, tokens: &[u32]) -> u64 {
    hash(0, salted(salt, tokens))
}

/// Has all of some tokens computed, without a model.
pub(super) fn pretend(cache: &mut Cache, held: &mut CachedSequence, tokens: &[u32]) {
    let from = held.sequence.len();
    let span = Span {
        sequence: &mut held.sequence,
        tokens: &tokens[from..],
        output: Output::None,
        adapter: None,
        embedded: &[],
    };
    cache.forward(&mut [span]).unwrap();
    assert_eq!(held.sequence.len(), tokens.len());
}

/// What a sequence holds of its pages.
fn parts(sequence: &Sequence) -> impl Iterator<Item = (PageId, Reach)> {
    let pages = sequence.pages().iter().enumerate();
    pages.flat_map(|(index, &page)| {
        let window = index >= sequence.forgotten();
        let window = window.then_some((page, Reach::Window));
        window.into_iter().chain([(page, Reach::Everything)])
    })
}

/// What each part of a page holds: a mark for each position.
#[derive(Default)]
struct Content([BTreeMap<PageId, Vec<u64>>; 2]);

impl Content {
    fn write(&mut self, page: PageId, position: usize, mark: u64) {
        for part in &mut self.0 {
            let marks = part.entry(page).or_default();
            marks.resize(PAGE, 0);
            marks[position % PAGE] = mark;
        }
    }

    fn copy(&mut self, from: PageId, to: PageId) {
        for part in &mut self.0 {
            let marks = part[&from].clone();
            part.insert(to, marks);
        }
    }

    fn read(&self, page: PageId, reach: Reach, position: usize) -> u64 {
        self.0[reach as usize][&page][position % PAGE]
    }
}

/// A cache and who uses it.
pub(super) struct World {
    pub(super) cache: Cache,
    content: Content,
    pub(super) known: Known,
    pub(super) texts: Vec<Text>,
    /// Positions that sequences began with.
    pub(super) reused: usize,
}

impl World {
    pub(super) fn new(config: &Config, states: usize) -> Self {
        Self {
            cache: cache_of(config, PAGES, states),
            content: Content::default(),
            known: Known::default(),
            texts: Vec::new(),
            reused: 0,
        }
    }

    /// How often something was given up for want of memory.
    fn given_up(&self) -> u64 {
        self.cache.counts().evicted + self.cache.counts().window_evictions
    }

    /// Begins a sequence with what is kept of it.
    pub(super) fn begin(&mut self, salt_number: u64, tokens: Vec<u32>) {
        let mut held = CachedSequence::default();
        let wanted = tokens.len() - 1;
        let before = self.cache.table().free_bytes();
        let most = self.known.longest(salt_number, &tokens[..wanted]);
        let mut path = Vec::new();
        let salt = salt(salt_number);
        // What the tree says first, to know which page a part is copied from.
        let tree = self.cache.tree_mut();
        let found = tree.find(salt, &tokens[..wanted], &mut path);
        let found = tree.end_at_tail(salt, &tokens[..wanted], &mut path, found);
        let usable = tree.usable(&path, found);
        let pages: Vec<PageId> = path.iter().map(|&node| tree.page(node)).collect();
        let given_up = self.given_up();
        self.cache.attach(salt, &tokens[..wanted], &mut held);
        let len = held.sequence.len();
        assert!(
            usable <= most,
            "{usable} of {most} positions that anybody computed"
        );
        if self.cache.is_recurrent() {
            // The snapshot there may have made way for the sequence's own state.
            assert!(len <= usable);
        } else {
            if self.given_up() == 0 {
                assert_eq!(usable, most, "all that is known is found");
            }
            // A part needs a page to copy into; all else is shared.
            if self.given_up() == given_up {
                assert!(len == usable || len == usable / PAGE * PAGE);
            }
        }
        self.reused += len;
        let shared = len / PAGE;
        assert_eq!(held.sequence.pages()[..shared], pages[..shared]);
        if len % PAGE > 0 {
            let own = held.sequence.pages()[shared];
            assert_ne!(own, pages[shared], "a part is copied, not shared");
            assert_eq!(self.cache.table().users(own, Reach::Everything), 1);
            self.content.copy(pages[shared], own);
        } else {
            assert!(
                self.cache.table().free_bytes() >= before,
                "nothing was taken"
            );
        }
        let text = Text {
            salt: salt_number,
            tokens,
            held,
        };
        self.check(&text);
        self.texts.push(text);
    }

    /// Has a sequence's positions hold their marks up to a place, and computes them.
    fn compute(&mut self, text: &mut Text, tokens: &[u32]) {
        for at in text.held.sequence.len()..tokens.len() {
            let page = text.held.sequence.pages()[at / PAGE];
            let users = self.cache.table().users(page, Reach::Everything);
            assert_eq!(users, 1, "nobody else sees it written");
            let mark = mark(text.salt, &tokens[..=at]);
            self.content.write(page, at, mark);
        }
        pretend(&mut self.cache, &mut text.held, &salted(text.salt, tokens));
    }

    /// Records what is computed of a sequence.
    fn record(&mut self, text: &mut Text) {
        self.cache
            .record(salt(text.salt), &text.tokens, &mut text.held);
        self.cache
            .snapshot_page(&text.held, text.tokens.len().is_multiple_of(2));
        let whole = text.held.sequence.len() / PAGE * PAGE;
        self.known.record(text.salt, &text.tokens[..whole]);
    }

    /// Computes some of a sequence and records it, if there are pages.
    pub(super) fn advance(&mut self, index: usize, count: usize) {
        let mut text = self.texts.swap_remove(index);
        let from = text.held.sequence.len();
        let mut end = (from + count).min(text.tokens.len());
        if self.cache.is_recurrent() && end / PAGE > from / PAGE {
            // Where a page ends there can be a snapshot.
            end -= end % PAGE;
        }
        if self.cache.reserve(&mut text.held, end - from) {
            let tokens = text.tokens[..end].to_vec();
            self.compute(&mut text, &tokens);
            self.record(&mut text);
        }
        self.check(&text);
        self.texts.push(text);
    }

    /// Computes a draft after a sequence, of which the first `right` tokens are its own, and takes the others back.
    pub(super) fn draft(&mut self, index: usize, right: usize, wrong: usize) {
        let mut text = self.texts.swap_remove(index);
        let from = text.held.sequence.len();
        let keep = (from + right).min(text.tokens.len());
        let mut tokens = text.tokens[..keep].to_vec();
        tokens.resize(keep + wrong, 9);
        let more = tokens.len() - from;
        if self.cache.reserve(&mut text.held, more) && self.cache.checkpoint(&mut text.held) {
            self.compute(&mut text, &tokens);
            self.cache.rollback(&mut text.held, keep);
            let back = self.cache.is_recurrent() && wrong > 0;
            let expected = if back { from } else { keep };
            assert_eq!(text.held.sequence.len(), expected);
            self.record(&mut text);
        }
        self.check(&text);
        self.texts.push(text);
    }

    /// Ends a sequence; what it computed is kept.
    pub(super) fn end(&mut self, index: usize) {
        let mut text = self.texts.swap_remove(index);
        let len = text.held.sequence.len();
        self.cache
            .record_tail(salt(text.salt), &text.tokens, &mut text.held);
        self.known.record(text.salt, &text.tokens[..len]);
        let mut path = Vec::new();
        let tokens = &text.tokens[..len];
        let tree = self.cache.tree_mut();
        let found = tree.find(salt(text.salt), tokens, &mut path);
        assert_eq!(found, len, "what was just recorded is found");
        if self.given_up() == 0 && !self.cache.is_recurrent() {
            assert_eq!(self.cache.tree().usable(&path, len), len);
        }
        self.cache.release(&mut text.held);
    }

    /// Each position that a sequence holds is its own, in the windows too if they reach it, and so is its state.
    fn check(&self, text: &Text) {
        let sequence = &text.held.sequence;
        let seen = self.cache.tree().first_seen(sequence.len());
        assert!(sequence.forgotten() * PAGE <= seen);
        for at in 0..sequence.len() {
            let page = sequence.pages()[at / PAGE];
            let mark = mark(text.salt, &text.tokens[..=at]);
            let found = self.content.read(page, Reach::Everything, at);
            assert_eq!(found, mark, "position {at}");
            if at >= seen {
                let found = self.content.read(page, Reach::Window, at);
                assert_eq!(found, mark, "position {at} in a window");
            }
        }
        if let Some(state) = sequence.state().filter(|_| !sequence.is_empty()) {
            let mut bytes = Vec::new();
            self.cache.executor().read_state(state, &mut bytes);
            let mark = mark(text.salt, &text.tokens[..sequence.len()]);
            assert_eq!(bytes[..8], mark.to_le_bytes(), "the state");
        }
    }

    /// No part of a page is lost, none has more users than it should, and no slot for a state is lost.
    pub(super) fn check_all(&mut self) {
        let mut users = [BTreeMap::new(), BTreeMap::new()];
        for text in &self.texts {
            self.check(text);
            for (page, reach) in parts(&text.held.sequence) {
                *users[reach as usize].entry(page).or_insert(0) += 1;
            }
        }
        let tree = self.cache.tree();
        assert_eq!(tree.all().count(), tree.pages());
        let unused = tree
            .all()
            .filter(|&node| !users[0].contains_key(&tree.page(node)));
        assert_eq!(unused.count(), self.cache.kept_pages());
        for node in tree.all() {
            let page = tree.page(node);
            *users[0].entry(page).or_insert(0) += 1;
            if !tree.lacks_window(node) {
                *users[1].entry(page).or_insert(0) += 1;
            }
        }
        let table = self.cache.table();
        let mut used = 0;
        for reach in [Reach::Everything, Reach::Window] {
            let users = &users[reach as usize];
            used += users.len() * table.layout().part_bytes(reach);
            for (&page, &users) in users {
                assert_eq!(table.users(page, reach), users);
            }
            // What nobody uses any more must not be read.
            self.content.0[reach as usize].retain(|page, _| users.contains_key(page));
        }
        let slots = table.states() * table.layout().state_bytes();
        let all = self.cache.executor().memory().pages - slots;
        assert_eq!(all - table.free_bytes(), used);
        let own = self.texts.iter();
        let own = own.filter_map(|text| text.held.sequence.state());
        let snapshots = tree.all().filter_map(|node| tree.state(node));
        let states: Vec<StateId> = own.chain(snapshots).collect();
        let distinct: BTreeSet<StateId> = states.iter().copied().collect();
        assert_eq!(distinct.len(), states.len(), "each has a slot of its own");
        assert_eq!(states.len(), table.states() - table.free_states());
    }
}
