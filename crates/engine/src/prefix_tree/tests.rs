//! The tree against a model of it that is too plain to be wrong: a list of sequences.

mod world;

use super::*;
use crate::cache::{Cache, CachedSequence};
use crate::page_events::PageEvent;
use crate::page_mover::{PageMover, recurrent_config, tiny_config};
use crate::random::{Random, Stream};
use std::vec;
use strata_model::Config;
use world::{World, pretend};

const PAGES: usize = 24;
const SALTS: u64 = 3;

fn salt(number: u64) -> Salt {
    Salt {
        client: ClientId(number / 2),
        adapter: (number % 2 == 1).then_some(AdapterId(7)),
        alone: None,
        source: 0,
        privacy: Privacy::default(),
    }
}

/// A model's sizes, with windows in some layers.
fn windowed(config: &Config, layers: &[Option<usize>]) -> Config {
    let layer = |&window: &Option<usize>| {
        let mut layer = config.layers[0].clone();
        if let Some(attention) = layer.mixer.attention_mut() {
            attention.window = window;
        }
        layer
    };
    Config {
        layers: layers.iter().map(layer).collect(),
        ..config.clone()
    }
}

/// The same with a layer that has a recurrent state.
fn recurrent(mut config: Config) -> Config {
    let layers = recurrent_config().layers.into_iter();
    let state = layers.filter(|layer| layer.mixer.recurrent().is_some());
    config.layers.extend(state.take(1));
    config
}

fn cache_of(config: &Config, pages: usize, states: usize) -> Cache {
    Cache::new(PageMover::boxed(config, pages, states))
}

/// Runs any course of events in a world.
fn run_any(seed: u64, config: &Config, states: usize) -> World {
    let mut random = Random::new(seed, Stream::Token);
    let mut pick = |n: u64| random.next_u64() % n;
    let mut world = World::new(config, states);
    // Few beginnings and few tokens, so that sequences have much in common and part at any place.
    let beginnings: Vec<Vec<u32>> = (0..4)
        .map(|_| (0..150).map(|_| pick(2) as u32).collect())
        .collect();
    for _ in 0..150 {
        let open = world.texts.len() as u64;
        match pick(11) {
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
                // What running sequences hold stays.
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
            10 if open > 0 => {
                let (right, wrong) = (pick(8) as usize, pick(8) as usize);
                world.draft(pick(open) as usize, right, wrong);
            }
            _ => {}
        }
        world.check_all();
    }
    while !world.texts.is_empty() {
        world.end(0);
    }
    world.cache.clear_all();
    assert_eq!(world.cache.table().free_pages(), PAGES, "seed {seed}");
    let table = world.cache.table();
    assert_eq!(table.free_states(), table.states(), "seed {seed}");
    world
}

const KINDS: [&[Option<usize>]; 5] = [
    &[None, None],
    &[Some(70), None, Some(50)],
    &[None, Some(8)],
    &[Some(100), Some(100)],
    &[Some(3)],
];

#[test]
fn any_course_of_events_gives_texts_their_own_positions_and_loses_no_page() {
    let tiny = tiny_config();
    let mut evicted = 0;
    for seed in 0..100 {
        let config = windowed(&tiny, KINDS[seed as usize % KINDS.len()]);
        let world = run_any(seed, &config, 0);
        evicted += world.cache.counts().window_evictions;
    }
    assert!(evicted > 100, "{evicted}");
}

#[test]
fn any_course_of_events_gives_texts_their_own_states_and_loses_no_slot() {
    let tiny = tiny_config();
    let mut reused = 0;
    for seed in 0..100 {
        let config = recurrent(windowed(&tiny, KINDS[seed as usize % KINDS.len()]));
        // From fewer than sequences need to enough for many snapshots.
        let world = run_any(seed, &config, 1 + seed as usize % 16);
        reused += world.reused;
    }
    assert!(reused > 10_000, "{reused}");
}

#[test]
fn the_longest_unused_goes_first_and_never_what_somebody_holds() {
    let mut cache = cache_of(&tiny_config(), 4, 0);
    let text = |n: u32| vec![n; PAGE];
    let fill = |cache: &mut Cache, n: u32, len: usize| {
        let mut held = CachedSequence::default();
        assert!(cache.reserve(&mut held, len));
        let tokens = vec![n; len];
        pretend(cache, &mut held, &tokens);
        cache.record_tail(salt(0), &tokens, &mut held);
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
    let mut cache = cache_of(&tiny_config(), 8, 0);
    let tokens = vec![5; PAGE + 3];
    let mut held = CachedSequence::default();
    assert!(cache.reserve(&mut held, tokens.len()));
    pretend(&mut cache, &mut held, &tokens);
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
        Salt {
            privacy: Privacy {
                never_to_disk: true,
                ..Privacy::default()
            },
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
    // Of three layers one sees everything, so a page without its windows has left two thirds of its memory.
    let config = windowed(&tiny, &[Some(40), None, Some(40)]);
    let mut cache = cache_of(&config, 12, 0);
    let tokens: Vec<u32> = (0..9 * PAGE as u32).collect();
    let mut held = CachedSequence::default();
    assert!(cache.reserve(&mut held, tokens.len()));
    pretend(&mut cache, &mut held, &tokens);
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
    // Two more pages of memory: three pages lose their windows, those that no window reached for longest.
    assert!(cache.make_room(5));
    assert_eq!(
        (cache.counts().evicted, cache.counts().window_evictions),
        (0, 3)
    );
    assert_eq!(cache.kept_len(salt(0), &tokens), 9 * PAGE);
    assert_eq!(cache.kept_len(salt(0), &tokens[..3 * PAGE]), 3 * PAGE);
    assert_eq!(cache.kept_len(salt(0), &tokens[..5 * PAGE]), 3 * PAGE);
    // One that ends where something is gone goes on from before it, and mends it.
    let mut again = CachedSequence::default();
    cache.attach(salt(0), &tokens[..5 * PAGE + 7], &mut again);
    assert_eq!(again.sequence.len(), 3 * PAGE);
    assert!(cache.reserve(&mut again, 2 * PAGE));
    pretend(&mut cache, &mut again, &tokens[..5 * PAGE]);
    cache.record(salt(0), &tokens, &mut again);
    cache.release(&mut again);
    assert_eq!(cache.kept_len(salt(0), &tokens[..5 * PAGE]), 5 * PAGE);
    assert!(cache.make_room(12));
    assert_eq!(cache.kept_pages(), 0);
}

#[test]
fn what_is_told_of_pages_is_what_the_tree_has() {
    let mut cache = cache_of(&tiny_config(), 8, 0);
    cache.tell_pages();
    let mut told = BTreeMap::new();
    let mut hear = |cache: &mut Cache| {
        for event in cache.take_told() {
            match event {
                PageEvent::Stored {
                    hash,
                    parent,
                    tokens,
                    client,
                    adapter,
                } => {
                    assert_eq!(tokens.len(), PAGE);
                    assert!(parent.is_none_or(|parent| told.contains_key(&parent)));
                    assert!(
                        told.insert(hash, (parent, tokens, client, adapter))
                            .is_none()
                    );
                }
                PageEvent::Removed { hash } => assert!(told.remove(&hash).is_some()),
            }
        }
        told.clone()
    };
    let run = |cache: &mut Cache, number: u64, tokens: &[u32]| {
        let mut held = CachedSequence::default();
        cache.attach(salt(number), tokens, &mut held);
        let more = tokens.len() - held.sequence.len();
        if more > 0 {
            assert!(cache.reserve(&mut held, more));
            pretend(cache, &mut held, tokens);
        }
        cache.record_tail(salt(number), tokens, &mut held);
        cache.release(&mut held);
    };
    let text: Vec<u32> = (0..3 * PAGE as u32 + 5).collect();
    run(&mut cache, 0, &text);
    let first = hear(&mut cache);
    assert_eq!(first.len(), 3, "the tail is not told");
    let (_, last) = first
        .iter()
        .find(|(_, page)| page.1[0] == 2 * PAGE as u32)
        .unwrap();
    let before = &first[&last.0.unwrap()];
    assert_eq!(before.1[..], text[PAGE..2 * PAGE]);
    // The same tokens of another client are other pages.
    run(&mut cache, 2, &text[..PAGE]);
    let both = hear(&mut cache);
    assert_eq!(both.len(), 4);
    assert_eq!(both.values().filter(|page| page.0.is_none()).count(), 2);
    // Known ones are told once.
    run(&mut cache, 0, &text[..2 * PAGE]);
    assert_eq!(hear(&mut cache).len(), 4);
    assert!(cache.make_room(6));
    assert_eq!(hear(&mut cache).len(), cache.tree().pages());
    cache.clear_all();
    assert!(hear(&mut cache).is_empty());
}
