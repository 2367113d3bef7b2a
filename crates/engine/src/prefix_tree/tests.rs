//! The tree against a model of it that is too plain to be wrong: a list of texts.

use super::*;
use crate::cache::{Cache, CachedSequence};
use crate::page_mover::{PageMover, tiny_config};
use crate::random::{Random, Stream};
use std::collections::BTreeSet;
use std::vec;
use strata_model::{Config, MixerConfig, Output, Sequence, Span};

const PAGES: usize = 24;
const SALTS: u64 = 3;

fn salt(number: u64) -> Salt {
    Salt {
        client: ClientId(number / 2),
        adapter: (number % 2 == 1).then_some(AdapterId(7)),
        alone: None,
    }
}

/// A text of which a running request holds a beginning.
struct Text {
    salt: u64,
    tokens: Vec<u32>,
    held: CachedSequence,
}

/// What was ever recorded: each page's salt and all tokens up to its last.
#[derive(Default)]
struct Known(BTreeSet<(u64, Vec<u32>)>);

impl Known {
    fn record(&mut self, salt: u64, tokens: &[u32]) {
        for chunk in 1..=tokens.len() / PAGE {
            self.0.insert((salt, tokens[..chunk * PAGE].to_vec()));
        }
        self.0.insert((salt, tokens.to_vec()));
    }

    /// The most that anybody could know of a text.
    fn longest(&self, salt: u64, tokens: &[u32]) -> usize {
        let common =
            |known: &Vec<u32>| known.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        let own = self.0.iter().filter(|(of, _)| *of == salt);
        own.map(|(_, known)| common(known)).max().unwrap_or(0)
    }
}

/// The bytes that stand for a position: the salt and the hash of all tokens up to it, as a model's would.
fn mark(salt: u64, tokens: &[u32]) -> u64 {
    let seed = 0xcbf2_9ce4_8422_2325 ^ salt;
    tokens.iter().fold(seed, |hash, &token| {
        (hash ^ u64::from(token))
            .wrapping_mul(0x100_0000_01b3)
            .rotate_left(5)
    })
}

/// Has a text's positions computed up to a place, without a model.
fn pretend(cache: &mut Cache, held: &mut CachedSequence, len: usize) {
    let tokens = vec![0; len - held.sequence.len()];
    let span = Span {
        sequence: &mut held.sequence,
        tokens: &tokens,
        output: Output::None,
        adapter: None,
    };
    cache.forward(&mut [span]).unwrap();
    assert_eq!(held.sequence.len(), len);
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

struct World {
    cache: Cache,
    content: Content,
    known: Known,
    texts: Vec<Text>,
}

impl World {
    fn new(config: &Config) -> Self {
        Self {
            cache: cache_of(config, PAGES),
            content: Content::default(),
            known: Known::default(),
            texts: Vec::new(),
        }
    }

    /// How often something was given up for want of memory.
    fn given_up(&self) -> u64 {
        self.cache.counts().evicted + self.cache.counts().hollowed
    }

    /// Begins a text with what is kept of it.
    fn begin(&mut self, salt_number: u64, tokens: Vec<u32>) {
        let mut held = CachedSequence::default();
        let wanted = tokens.len() - 1;
        let before = self.cache.table().free_bytes();
        let most = self.known.longest(salt_number, &tokens[..wanted]);
        let mut path = Vec::new();
        let salt = salt(salt_number);
        // What the tree says first, to know which page a part is copied from.
        let tree = self.cache.tree_mut();
        let found = tree.find(salt, &tokens[..wanted], &mut path);
        let usable = tree.usable(&path, found);
        let pages: Vec<PageId> = path.iter().map(|&node| tree.page(node)).collect();
        let given_up = self.given_up();
        self.cache.attach(salt, &tokens[..wanted], &mut held);
        let len = held.sequence.len();
        assert!(
            usable <= most,
            "{usable} of {most} positions that anybody computed"
        );
        if self.given_up() == 0 {
            assert_eq!(usable, most, "all that is known is found");
        }
        // A part needs a page to copy into; all else is shared.
        if self.given_up() == given_up {
            assert!(len == usable || len == usable / PAGE * PAGE);
        }
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

    /// Computes some of a text and records it, if there are pages.
    fn advance(&mut self, index: usize, count: usize) {
        let mut text = self.texts.swap_remove(index);
        let from = text.held.sequence.len();
        let count = count.min(text.tokens.len() - from);
        if self.cache.reserve(&mut text.held, count) {
            for at in from..from + count {
                let page = text.held.sequence.pages()[at / PAGE];
                let users = self.cache.table().users(page, Reach::Everything);
                assert_eq!(users, 1, "nobody else sees it written");
                let mark = mark(text.salt, &text.tokens[..=at]);
                self.content.write(page, at, mark);
            }
            pretend(&mut self.cache, &mut text.held, from + count);
            self.cache
                .record(salt(text.salt), &text.tokens, &mut text.held);
            let whole = (from + count) / PAGE * PAGE;
            self.known.record(text.salt, &text.tokens[..whole]);
        }
        self.check(&text);
        self.texts.push(text);
    }

    /// Ends a text; what it computed is kept.
    fn end(&mut self, index: usize) {
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
        if self.given_up() == 0 {
            assert_eq!(self.cache.tree().usable(&path, len), len);
        }
        self.cache.release(&mut text.held);
    }

    /// Each position that a text holds is its own, in the windows too if they reach it.
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
    }

    /// No part of a page is lost, and none has more users than it should.
    fn check_all(&mut self) {
        let mut users = [BTreeMap::new(), BTreeMap::new()];
        for text in &self.texts {
            self.check(text);
            for (page, reach) in parts(&text.held.sequence) {
                *users[reach as usize].entry(page).or_insert(0) += 1;
            }
        }
        let tree = self.cache.tree();
        assert_eq!(tree.all().count(), self.cache.kept_pages());
        for node in tree.all() {
            let page = tree.page(node);
            *users[0].entry(page).or_insert(0) += 1;
            if !tree.is_hollow(node) {
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
        let all = self.cache.executor().memory().pages;
        assert_eq!(all - table.free_bytes(), used);
    }
}

/// A model's sizes, with windows in some layers.
fn windowed(config: &Config, layers: &[Option<usize>]) -> Config {
    let layer = |&window: &Option<usize>| {
        let mut layer = config.layers[0].clone();
        if let MixerConfig::Attention(attention) = &mut layer.mixer {
            attention.window = window;
        }
        layer
    };
    Config {
        layers: layers.iter().map(layer).collect(),
        ..config.clone()
    }
}

fn cache_of(config: &Config, pages: usize) -> Cache {
    Cache::new(PageMover::boxed(config, pages))
}

#[test]
fn any_course_of_events_gives_texts_their_own_positions_and_loses_no_page() {
    let tiny = tiny_config();
    let kinds = [
        &[None, None][..],
        &[Some(70), None, Some(50)],
        &[None, Some(8)],
        &[Some(100), Some(100)],
        &[Some(3)],
    ];
    let mut hollowed = 0;
    for seed in 0..100 {
        let mut random = Random::new(seed, Stream::Token);
        let mut pick = |n: u64| random.next_u64() % n;
        let config = windowed(&tiny, kinds[seed as usize % kinds.len()]);
        let mut world = World::new(&config);
        // Few beginnings and few tokens, so that texts have much in common and part at any place.
        let beginnings: Vec<Vec<u32>> = (0..4)
            .map(|_| (0..150).map(|_| pick(2) as u32).collect())
            .collect();
        for _ in 0..150 {
            let open = world.texts.len() as u64;
            match pick(10) {
                0..=2 if open < 5 => {
                    let beginning = &beginnings[pick(4) as usize];
                    let mut tokens = beginning[..pick(150) as usize].to_vec();
                    tokens.extend((0..1 + pick(40)).map(|_| pick(2) as u32));
                    world.begin(pick(SALTS), tokens);
                }
                3..=6 if open > 0 => world.advance(pick(open) as usize, 1 + pick(50) as usize),
                7 | 8 if open > 0 => world.end(pick(open) as usize),
                9 if pick(6) == 0 => {
                    let number = pick(SALTS);
                    world.cache.clear(salt(number));
                    world.known.0.retain(|(of, _)| *of != number);
                    // What running texts hold stays.
                    for text in world.texts.iter().filter(|text| text.salt == number) {
                        let whole = text.held.sequence.len() / PAGE * PAGE;
                        world.known.record(number, &text.tokens[..whole]);
                    }
                    let tokens = &beginnings[0];
                    let most = world.known.longest(number, tokens);
                    let tree = world.cache.tree_mut();
                    let found = tree.find(salt(number), tokens, &mut Vec::new());
                    assert_eq!(found, most);
                }
                _ => {}
            }
            world.check_all();
        }
        while !world.texts.is_empty() {
            world.end(0);
        }
        hollowed += world.cache.counts().hollowed;
        world.cache.clear_all();
        assert_eq!(world.cache.table().free_pages(), PAGES, "seed {seed}");
    }
    assert!(hollowed > 100, "{hollowed}");
}

#[test]
fn the_longest_unused_goes_first_and_never_what_somebody_holds() {
    let mut cache = cache_of(&tiny_config(), 4);
    let text = |n: u32| vec![n; PAGE];
    let fill = |cache: &mut Cache, n: u32, len: usize| {
        let mut held = CachedSequence::default();
        assert!(cache.reserve(&mut held, len));
        pretend(cache, &mut held, len);
        cache.record_tail(salt(0), &vec![n; len], &mut held);
        held
    };
    let known = |cache: &Cache, n: u32| cache.kept_len(salt(0), &text(n)) == PAGE;
    for n in 0..3 {
        let mut held = fill(&mut cache, n, PAGE);
        cache.release(&mut held);
    }
    // The first is used once more, so the second has waited longest.
    let mut used = CachedSequence::default();
    cache.attach(salt(0), &text(0), &mut used);
    assert_eq!(used.sequence.len(), PAGE);
    let mut third = fill(&mut cache, 3, PAGE);
    assert!(cache.make_room(1));
    assert!(known(&cache, 0) && !known(&cache, 1) && known(&cache, 2) && known(&cache, 3));
    assert!(cache.make_room(2));
    assert!(known(&cache, 0) && !known(&cache, 2) && known(&cache, 3));
    assert!(!cache.make_room(3), "the others are held");
    assert!(known(&cache, 0) && known(&cache, 3));
    cache.release(&mut used);
    cache.release(&mut third);
    assert!(cache.make_room(4));
    assert_eq!(cache.kept_pages(), 0);
    assert_eq!(cache.counts().evicted, 4);
}

#[test]
fn another_salt_finds_nothing() {
    let mut cache = cache_of(&tiny_config(), 8);
    let tokens = vec![5; PAGE + 3];
    let mut held = CachedSequence::default();
    assert!(cache.reserve(&mut held, tokens.len()));
    pretend(&mut cache, &mut held, tokens.len());
    cache.record_tail(salt(0), &tokens, &mut held);
    cache.release(&mut held);
    let others = [
        Salt {
            client: ClientId(9),
            ..salt(0)
        },
        Salt {
            adapter: Some(AdapterId(1)),
            ..salt(0)
        },
        Salt {
            alone: Some(RequestId(1)),
            ..salt(0)
        },
    ];
    for other in others {
        let mut held = CachedSequence::default();
        cache.attach(other, &tokens, &mut held);
        assert!(held.sequence.is_empty());
        assert_eq!(cache.kept_len(other, &tokens), 0);
    }
    let mut held = CachedSequence::default();
    cache.attach(salt(0), &tokens, &mut held);
    assert_eq!(held.sequence.len(), tokens.len());
}

#[test]
fn what_windows_no_longer_reach_goes_first_and_texts_go_on_behind_it() {
    let tiny = tiny_config();
    // Of three layers one sees everything, so a hollow page has left two thirds of its memory.
    let config = windowed(&tiny, &[Some(40), None, Some(40)]);
    let mut cache = cache_of(&config, 12);
    let tokens: Vec<u32> = (0..9 * PAGE as u32).collect();
    let mut held = CachedSequence::default();
    assert!(cache.reserve(&mut held, tokens.len()));
    pretend(&mut cache, &mut held, tokens.len());
    cache.record(salt(0), &tokens, &mut held);
    assert_eq!(
        held.sequence.forgotten(),
        7,
        "a window of 40 is in two pages"
    );
    assert_eq!(cache.table().free_pages(), 3, "the tree keeps what it can");
    cache.release(&mut held);
    assert_eq!(cache.kept_len(salt(0), &tokens), 9 * PAGE);
    // Seen from the end of three pages.
    let mut short = CachedSequence::default();
    cache.attach(salt(0), &tokens[..3 * PAGE], &mut short);
    assert_eq!(short.sequence.len(), 3 * PAGE);
    assert_eq!(short.sequence.forgotten(), 1);
    cache.release(&mut short);
    // Two more pages of memory: three pages become hollow, those that no window reached for longest.
    assert!(cache.make_room(5));
    assert_eq!((cache.counts().evicted, cache.counts().hollowed), (0, 3));
    assert_eq!(cache.kept_len(salt(0), &tokens), 9 * PAGE);
    assert_eq!(cache.kept_len(salt(0), &tokens[..3 * PAGE]), 3 * PAGE);
    assert_eq!(cache.kept_len(salt(0), &tokens[..5 * PAGE]), 3 * PAGE);
    // One that ends where something is gone goes on from before it, and mends it.
    let mut again = CachedSequence::default();
    cache.attach(salt(0), &tokens[..5 * PAGE + 7], &mut again);
    assert_eq!(again.sequence.len(), 3 * PAGE);
    assert!(cache.reserve(&mut again, 2 * PAGE));
    pretend(&mut cache, &mut again, 5 * PAGE);
    cache.record(salt(0), &tokens, &mut again);
    cache.release(&mut again);
    assert_eq!(cache.kept_len(salt(0), &tokens[..5 * PAGE]), 5 * PAGE);
    assert!(cache.make_room(12));
    assert_eq!(cache.kept_pages(), 0);
}
