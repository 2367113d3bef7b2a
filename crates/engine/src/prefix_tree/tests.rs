//! The tree against a model of it that is too plain to be wrong: a list of texts.

use super::*;
use crate::cache::{Cache, Held};
use crate::random::{Random, Stream};
use std::collections::BTreeSet;
use std::vec;
use strata_model::{KvType, LoadOptions, Model};
use strata_platform::{Inline, SystemMemory};
use strata_weights::{Gguf, GgufSet};

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
    held: Held,
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
fn pretend(cache: &mut Cache, held: &mut Held, len: usize) {
    let pages = held.sequence.pages().to_vec();
    let kv = cache.kv_mut();
    let mut computed = kv.adopt(&pages, pages.len() * PAGE).unwrap();
    computed.rewind(len);
    kv.truncate(&mut held.sequence, 0);
    held.sequence = computed;
}

struct World {
    cache: Cache,
    /// What each page holds: a mark for each position.
    content: BTreeMap<PageId, Vec<u64>>,
    known: Known,
    texts: Vec<Text>,
}

impl World {
    fn new(kv: KvPages, model: &Model<'_>) -> Self {
        Self {
            cache: Cache::new(kv, model.config()),
            content: BTreeMap::new(),
            known: Known::default(),
            texts: Vec::new(),
        }
    }

    /// Begins a text with what is kept of it.
    fn begin(&mut self, salt_number: u64, tokens: Vec<u32>) {
        let mut held = Held::default();
        let wanted = tokens.len() - 1;
        let before = self.cache.kv().free_pages();
        let most = self.known.longest(salt_number, &tokens[..wanted]);
        let mut pages = Vec::new();
        let salt = salt(salt_number);
        // What the tree says first, to know which page a part is copied from.
        let found = self
            .cache
            .tree_mut()
            .find(salt, &tokens[..wanted], &mut pages);
        self.cache.attach(salt, &tokens[..wanted], &mut held);
        let len = held.sequence.len();
        assert!(
            len <= most,
            "{len} of {most} positions that anybody computed"
        );
        if self.cache.counts().evicted == 0 {
            assert_eq!(found.len, most, "all that is known is found");
        }
        // A part needs a page to copy into; all else is shared.
        assert!(len == found.len || len == found.len / PAGE * PAGE);
        let shared = len / PAGE;
        assert_eq!(held.sequence.pages()[..shared], pages[..shared]);
        if len % PAGE > 0 {
            let own = held.sequence.pages()[shared];
            assert_ne!(own, pages[shared], "a part is copied, not shared");
            assert_eq!(self.cache.kv().users(own), 1);
            self.content
                .insert(own, self.content[&pages[shared]].clone());
        } else {
            assert!(self.cache.kv().free_pages() >= before, "nothing was taken");
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
                assert_eq!(
                    self.cache.kv().users(page),
                    1,
                    "nobody else sees it written"
                );
                let marks = self.content.entry(page).or_default();
                marks.resize(PAGE, 0);
                marks[at % PAGE] = mark(text.salt, &text.tokens[..=at]);
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
        let mut pages = Vec::new();
        let tokens = &text.tokens[..len];
        let found = self
            .cache
            .tree_mut()
            .find(salt(text.salt), tokens, &mut pages);
        assert_eq!(found.len, len, "what was just recorded is found");
        self.cache.release(&mut text.held);
    }

    /// Each position that a text holds is its own.
    fn check(&self, text: &Text) {
        for at in 0..text.held.sequence.len() {
            let page = text.held.sequence.pages()[at / PAGE];
            let found = self.content[&page][at % PAGE];
            assert_eq!(found, mark(text.salt, &text.tokens[..=at]), "position {at}");
        }
    }

    /// No page is lost, and none has more users than it should.
    fn check_all(&self) {
        let mut used = BTreeSet::new();
        for text in &self.texts {
            self.check(text);
            used.extend(text.held.sequence.pages());
        }
        let tree = self.cache.tree();
        let kept: Vec<PageId> = tree.all().map(|node| tree.page(node)).collect();
        assert_eq!(kept.len(), self.cache.kept_pages());
        used.extend(kept);
        let kv = self.cache.kv();
        assert_eq!(kv.pages() - kv.free_pages(), used.len());
    }
}

fn tiny() -> Model<'static> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../model/tests/golden/llama.gguf"
    );
    let bytes = std::fs::read(path).unwrap().leak();
    let set = GgufSet::new(vec![Gguf::parse(bytes).unwrap()]).unwrap();
    let options = LoadOptions::default();
    Model::load(&set, options, &SystemMemory, &Inline, &mut |_, _| {}).unwrap()
}

#[test]
fn any_course_of_events_gives_texts_their_own_positions_and_loses_no_page() {
    let model = tiny();
    for seed in 0..60 {
        let mut random = Random::new(seed, Stream::Token);
        let mut pick = |n: u64| random.next_u64() % n;
        let positions = PAGES * PAGE;
        let kv = KvPages::new(model.config(), KvType::F16, positions, &SystemMemory).unwrap();
        let mut world = World::new(kv, &model);
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
                    let mut pages = Vec::new();
                    let tokens = &beginnings[0];
                    let most = world.known.longest(number, tokens);
                    let found = world
                        .cache
                        .tree_mut()
                        .find(salt(number), tokens, &mut pages);
                    assert_eq!(found.len, most);
                }
                _ => {}
            }
            world.check_all();
        }
        while !world.texts.is_empty() {
            world.end(0);
        }
        world.cache.clear_all();
        assert_eq!(world.cache.kv().free_pages(), PAGES, "seed {seed}");
    }
}

#[test]
fn the_longest_unused_goes_first_and_never_what_somebody_holds() {
    let model = tiny();
    let kv = KvPages::new(model.config(), KvType::F16, 4 * PAGE, &SystemMemory).unwrap();
    let mut cache = Cache::new(kv, model.config());
    let text = |n: u32| vec![n; PAGE];
    let fill = |cache: &mut Cache, n: u32, len: usize| {
        let mut held = Held::default();
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
    let mut used = Held::default();
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
    let model = tiny();
    let kv = KvPages::new(model.config(), KvType::F16, 8 * PAGE, &SystemMemory).unwrap();
    let mut cache = Cache::new(kv, model.config());
    let tokens = vec![5; PAGE + 3];
    let mut held = Held::default();
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
        let mut held = Held::default();
        cache.attach(other, &tokens, &mut held);
        assert!(held.sequence.is_empty());
        assert_eq!(cache.kept_len(other, &tokens), 0);
    }
    let mut held = Held::default();
    cache.attach(salt(0), &tokens, &mut held);
    assert_eq!(held.sequence.len(), tokens.len());
}
