//! Models of which some layers see everything and the others a window: memory that no window reaches is given back,
//! and nothing else changes.

use crate::tale;

use crate::shelf::Shelf;
use crate::tale::{Answer, ExecutorSetup, Tale, run, run_one};
use std::path::Path;
use std::sync::Arc;
use strata_engine::random::{Random, Stream};
use strata_engine::{
    Choices, Engine, EngineOptions, ModelDigest, Request, RequestId, Session, Speculation,
};
use strata_model::{KvType, Model, PAGE};

/// A model of random weights, with another window than its file says.
fn load(file: &str, window: u32) -> Arc<Model> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../model/tests/golden");
    let mut bytes = std::fs::read(folder.join(file)).unwrap();
    let key = b"attention.sliding_window";
    let at = bytes.windows(key.len()).position(|bytes| bytes == key);
    // After the key stands the value's type, which is 4 for these, and then the value.
    let value = at.unwrap() + key.len() + 4;
    assert_eq!(bytes[value - 4..value], 4u32.to_le_bytes());
    bytes[value..][..4].copy_from_slice(&window.to_le_bytes());
    tale::load(&bytes)
}

/// One layer of seven sees everything.
fn mixed() -> Arc<Model> {
    let model = load("gemma3.gguf", 40);
    let layers: Vec<_> = model.config().attention().collect();
    assert_eq!(layers.iter().filter(|a| a.window == Some(40)).count(), 6);
    assert_eq!(layers.iter().filter(|a| a.window.is_none()).count(), 1);
    model
}

fn engine(tale: &Tale, model: &Arc<Model>, pages: usize, requests: usize) -> Engine {
    drafting(tale, model, pages, requests, 0)
}

/// An engine with room for drafts of so many tokens.
fn drafting(
    tale: &Tale,
    model: &Arc<Model>,
    pages: usize,
    requests: usize,
    max_draft: usize,
) -> Engine {
    let options = EngineOptions {
        context: 1024,
        batch: 64,
        requests,
        max_draft,
        ..EngineOptions::default()
    };
    let setup = ExecutorSetup {
        kind: KvType::F32,
        pages,
        ..ExecutorSetup::default()
    };
    let executor = setup.executor(model, &options);
    Engine::new(executor, Arc::clone(&tale.tokenizer), options)
}

/// A text of random tokens, to be written on.
fn request(tale: &Tale, model: &Model, seed: u64, prompt: usize, more: usize) -> Request {
    let mut random = Random::new(seed, Stream::Token);
    let vocabulary = model.config().vocabulary as u64;
    let token = |_| (random.next_u64() % vocabulary) as u32;
    Request {
        prompt: (0..prompt).map(token).collect(),
        max_tokens: Some(more),
        ignore_end: true,
        ..tale.request("", Some(seed))
    }
}

fn assert_no_leak(engine: &mut Engine, pages: usize) {
    engine.clear_cache();
    assert_eq!(engine.free_pages(), pages, "no page is lost");
}

#[test]
fn two_long_texts_run_side_by_side_where_one_would_fill_the_memory() {
    let tale = Tale::load();
    // Each text gets nine pages long. Of 7 layers one keeps them all, the others about two pages of a window.
    for (model, pages) in [(mixed(), 10), (load("mistral-window.gguf", 40), 9)] {
        let requests = [1, 2].map(|seed| request(&tale, &model, seed, 20, 9 * PAGE - 20));
        let alone = requests
            .clone()
            .map(|request| run_one(&mut engine(&tale, &model, 64, 1), request));
        let mut engine = engine(&tale, &model, pages, 2);
        for request in &requests {
            engine.submit(request.clone()).unwrap();
        }
        let answers = run(&mut engine);
        for (alone, answer) in alone.iter().zip(answers.values()) {
            assert_eq!(alone.tokens, answer.tokens);
        }
        let counters = engine.counters();
        assert_eq!(counters.preemptions, 0, "both stay");
        assert!(counters.window_evictions > 5, "{counters:?}");
        assert_no_leak(&mut engine, pages);
    }
}

#[test]
fn a_beginning_is_found_again_as_far_as_it_is_whole() {
    let tale = Tale::load();
    let model = mixed();
    let first = request(&tale, &model, 1, 8 * PAGE + 5, 3);
    // The same beginning, parting at different places; and one that has nothing to do with it.
    let at = |len: usize, seed: u64| {
        let mut request = request(&tale, &model, seed, 2 * PAGE, 4);
        request.prompt.splice(..0, first.prompt[..len].to_vec());
        request
    };
    let requests = [at(8 * PAGE + 5, 2), at(4 * PAGE + 3, 3), at(2 * PAGE, 4)];
    let alone = requests
        .clone()
        .map(|request| run_one(&mut engine(&tale, &model, 64, 1), request));
    let shelf = Shelf::default();
    for (pages, other, store) in [(64, 10, false), (20, 12, false), (20, 12, true)] {
        let mut engine = engine(&tale, &model, pages, 1);
        if store {
            engine = engine.with_store(Box::new(shelf.clone()), ModelDigest([7; 32]));
        }
        run_one(&mut engine, first.clone());
        run_one(&mut engine, request(&tale, &model, 9, other * PAGE, 40));
        let evicted = engine.counters().window_evictions;
        assert_eq!(evicted > 0, pages < 64, "{evicted} evicted");
        let mut cached = Vec::new();
        for (request, alone) in requests.iter().zip(&alone) {
            let answer = run_one(&mut engine, request.clone());
            assert_eq!(answer.tokens, alone.tokens);
            cached.push(answer.usage().cached_tokens);
        }
        match (pages, store) {
            (64, _) => assert_eq!(cached, [8 * PAGE + 5, 4 * PAGE + 3, 2 * PAGE]),
            // What is gone for windows is computed again, or comes back from the store.
            (_, false) => assert!(cached.iter().any(|&n| n > 0) && cached[1] < 4 * PAGE),
            (_, true) => {
                let whole: Vec<usize> = cached.iter().map(|n| n / PAGE).collect();
                assert_eq!(whole, [8, 4, 2]);
                assert!(engine.counters().restored_pages > 0);
            }
        }
        assert_no_leak(&mut engine, pages);
    }
}

#[test]
fn a_session_is_saved_as_far_as_it_is_whole_and_goes_on_elsewhere() {
    let tale = Tale::load();
    let model = mixed();
    let digest = ModelDigest([7; 32]);
    let settings = request(&tale, &model, 1, 6 * PAGE, 5 * PAGE);
    let expected = run_one(&mut engine(&tale, &model, 64, 1), settings.clone());
    for (pages, whole) in [(64, true), (12, false)] {
        let mut here = engine(&tale, &model, pages, 1).with_digest(digest);
        let mut session = Session::open(settings.clone());
        let answer = session.run(&mut here, &mut |_| {}).unwrap();
        assert_eq!(answer.tokens, expected.tokens);
        // Something else takes the memory of windows.
        run_one(&mut here, request(&tale, &model, 2, 6 * PAGE, 5));
        let saved = session.save(&mut here);
        session.settings_mut().max_tokens = Some(20);
        let next = session.run(&mut here, &mut |_| {}).unwrap();
        let mut there = engine(&tale, &model, 64, 1).with_digest(digest);
        let mut restored = Session::restore(&mut there, settings.clone(), &saved).unwrap();
        restored.settings_mut().max_tokens = Some(20);
        let same = restored.run(&mut there, &mut |_| {}).unwrap();
        assert_eq!(same.tokens, next.tokens);
        assert_eq!(same.usage.cached_tokens >= 10 * PAGE, whole);
        assert_no_leak(&mut here, pages);
        assert_no_leak(&mut there, 64);
    }
}

#[test]
fn any_mix_of_texts_gets_what_each_gets_alone_and_loses_no_page() {
    let tale = Tale::load();
    for (round, model) in [
        mixed(),
        load("gemma2.gguf", 70),
        load("mistral-window.gguf", 50),
    ]
    .into_iter()
    .enumerate()
    {
        let mut random = Random::new(round as u64, Stream::Token);
        let mut pick = |n: u64| random.next_u64() % n;
        let common = request(&tale, &model, 77, 6 * PAGE, 1).prompt;
        let requests: Vec<Request> = (0..24)
            .map(|seed| {
                let own = 1 + pick(60) as usize;
                let more = 1 + pick(90) as usize;
                let mut request = request(&tale, &model, seed, own, more);
                let shared = pick(3) as usize * 60 + pick(60) as usize;
                request.prompt.splice(..0, common[..shared].to_vec());
                request.cache = pick(5) > 0;
                if seed % 6 == 5 {
                    request.choices = Choices::Beams {
                        n: 1,
                        width: 3,
                        length_penalty: 1.0,
                    };
                }
                request
            })
            .collect();
        let alone: Vec<Answer> = requests
            .iter()
            .map(|request| run_one(&mut engine(&tale, &model, 128, 3), request.clone()))
            .collect();
        for speculation in [Speculation::Off, Speculation::PromptLookup { max_draft: 4 }] {
            let mut engine = drafting(&tale, &model, 14, 5, 4);
            let ids: Vec<RequestId> = requests
                .iter()
                .map(|request| {
                    let request = Request {
                        speculation,
                        ..request.clone()
                    };
                    engine.submit(request).unwrap()
                })
                .collect();
            // Some are given up on the way.
            (0..20).for_each(|_| engine.step(&mut |_| {}));
            let canceled: Vec<RequestId> = ids
                .iter()
                .copied()
                .step_by(7)
                .filter(|&id| engine.cancel(id))
                .collect();
            assert!(!canceled.is_empty());
            let answers = run(&mut engine);
            for (i, id) in ids
                .iter()
                .enumerate()
                .filter(|(_, id)| !canceled.contains(id))
            {
                // What came in the first steps was not heard.
                let heard = answers.get(id).map_or(&[][..], |answer| &answer.tokens);
                assert!(alone[i].tokens.ends_with(heard), "request {i}");
            }
            let counters = engine.counters();
            assert!(counters.window_evictions > 0, "{counters:?}");
            assert_eq!(counters.failed, 0);
            assert_no_leak(&mut engine, 14);
        }
    }
}
