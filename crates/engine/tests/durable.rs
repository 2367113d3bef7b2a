//! What outlives a request, and what outlives the process: sessions, kept pages, adapters that come and go.

use crate::shelf::Shelf;
use crate::tale::{Answer, Tale, adapter, load, run, run_one};
use std::sync::Arc;
use strata_engine::{
    AdapterMismatch, ClientId, Engine, EngineOptions, InferenceError, ModelDigest, Request,
    RequestId, RestoreError, Session, SubmitError, run_inference,
};
use strata_model::PAGE;
use strata_tokenizer::EncodeOptions;

const DIGEST: ModelDigest = ModelDigest([3; 32]);

fn small_engine(tale: &Tale, pages: usize) -> Engine {
    let options = EngineOptions {
        context: 256,
        requests: 4,
        ..EngineOptions::default()
    };
    tale.engine_with(pages, options)
}

fn long_request(tale: &Tale) -> Request {
    let prompt = "There was once a miller who had three sons. ".repeat(30);
    let mut request = tale.request(&prompt, Some(9));
    assert!(request.prompt.len() > 7 * PAGE);
    request.prompt.truncate(6 * PAGE + 5);
    request
}

#[test]
fn a_store_serves_after_a_restart_and_what_is_damaged_is_computed_again() {
    let tale = Tale::load();
    let request = long_request(&tale);
    let whole = request.prompt.len() / PAGE * PAGE;
    let shelf = Shelf::default();
    let store = || Box::new(shelf.clone());
    let cold = run_one(&mut small_engine(&tale, 32), request.clone());

    let mut first = small_engine(&tale, 32).with_store(store(), DIGEST);
    run_one(&mut first, request.clone());
    first.persist();
    assert!(first.counters().stored_pages >= 6);
    let mut second = small_engine(&tale, 32).with_store(store(), DIGEST);
    let warm = run_one(&mut second, request.clone());
    assert_eq!(warm.tokens, cold.tokens);
    assert_eq!(warm.usage().cached_tokens, whole);
    assert_eq!(second.counters().restored_pages as usize, whole / PAGE);
    second.clear_cache();
    assert_eq!(second.free_pages(), 32, "no page is lost");

    // Another model, another client: nothing is found.
    let mut other = small_engine(&tale, 32).with_store(store(), ModelDigest([4; 32]));
    assert_eq!(
        run_one(&mut other, request.clone()).usage().cached_tokens,
        0
    );
    let stranger = Request {
        client: ClientId(5),
        ..request.clone()
    };
    let mut third = small_engine(&tale, 32).with_store(store(), DIGEST);
    assert_eq!(run_one(&mut third, stranger).usage().cached_tokens, 0);

    for page in shelf.0.lock().unwrap().values_mut() {
        let middle = page.len() / 2;
        page[middle] ^= 4;
    }
    let damaged = shelf.0.lock().unwrap().len();
    let mut fourth = small_engine(&tale, 32).with_store(store(), DIGEST);
    let answer = run_one(&mut fourth, request);
    assert_eq!(answer.tokens, cold.tokens);
    assert_eq!(answer.usage().cached_tokens, 0);
    assert!(shelf.0.lock().unwrap().len() < damaged, "it is thrown away");
}

#[test]
fn pages_go_to_the_store_one_by_one_while_nothing_runs() {
    let tale = Tale::load();
    let request = long_request(&tale);
    let shelf = Shelf::default();
    let mut first = small_engine(&tale, 32).with_store(Box::new(shelf.clone()), DIGEST);
    assert!(!first.persist_some(1), "there is nothing yet");
    run_one(&mut first, request.clone());
    let mut turns = 1;
    while first.persist_some(1) {
        turns += 1;
        assert!(shelf.0.lock().unwrap().len() <= turns, "one at a time");
    }
    let whole = request.prompt.len() / PAGE;
    let stored = shelf.0.lock().unwrap().len();
    assert!(stored >= whole && turns >= whole);
    assert_eq!(first.counters().stored_pages as usize, stored);
    // What is there already is not written again.
    run_one(&mut first, request.clone());
    while first.persist_some(1) {}
    assert_eq!(first.counters().stored_pages as usize, stored);
    drop(first);
    let mut second = small_engine(&tale, 32).with_store(Box::new(shelf), DIGEST);
    let answer = run_one(&mut second, request);
    assert_eq!(answer.usage().cached_tokens, whole * PAGE);
}

#[test]
fn pages_without_room_go_to_the_store_and_come_back() {
    let tale = Tale::load();
    let request = long_request(&tale);
    let shelf = Shelf::default();
    // Room for one text at a time.
    let mut engine = small_engine(&tale, 8).with_store(Box::new(shelf), DIGEST);
    let first = run_one(&mut engine, request.clone());
    let mut other = request.clone();
    other.prompt.reverse();
    run_one(&mut engine, other);
    assert!(engine.counters().stored_pages > 0);
    let again = run_one(&mut engine, request.clone());
    assert_eq!(again.tokens, first.tokens);
    assert!(again.usage().cached_tokens >= 5 * PAGE);
    assert!(engine.counters().restored_pages > 0);
    engine.clear_cache();
    assert_eq!(engine.free_pages(), 8, "no page is lost");
}

#[test]
fn a_session_goes_on_and_forks_and_is_saved() {
    let tale = Tale::load();
    let encode = |text: &str| tale.tokenizer.encode(text, EncodeOptions::default());
    let mut engine = small_engine(&tale, 32).with_digest(DIGEST);
    let mut session = Session::open(long_request(&tale));
    let start = session.tokens().len();
    let mut heard = 0;
    let first = session.run(&mut engine, &mut |_| heard += 1).unwrap();
    assert!(heard > first.tokens.len());
    assert_eq!(&session.tokens()[start..], first.tokens);
    let mut fork = session.fork();
    fork.append(&encode(" Then the king"));
    session.append(&encode(" And then"));
    let saved = session.save(&mut engine);
    let (one, other) = (
        session.run(&mut engine, &mut |_| {}).unwrap(),
        fork.run(&mut engine, &mut |_| {}).unwrap(),
    );
    assert_ne!(one.tokens, other.tokens);
    assert!(one.usage.cached_tokens > start && other.usage.cached_tokens > start);

    // In another process it goes on as it would have here, without computing what was computed.
    let mut elsewhere = small_engine(&tale, 32).with_digest(DIGEST);
    let settings = tale.request("", Some(9));
    let mut restored = Session::restore(&mut elsewhere, settings.clone(), &saved).unwrap();
    let same = restored.run(&mut elsewhere, &mut |_| {}).unwrap();
    assert_eq!(same.tokens, one.tokens);
    assert_eq!(same.text, one.text);
    assert!(same.usage.cached_tokens >= start / PAGE * PAGE);
    elsewhere.clear_cache();
    assert_eq!(elsewhere.free_pages(), 32, "no page is lost");

    let mut other_model = small_engine(&tale, 32).with_digest(ModelDigest([9; 32]));
    let refused = Session::restore(&mut other_model, settings, &saved);
    assert_eq!(refused.err(), Some(RestoreError::Model));
}

#[test]
fn damaged_sessions_are_errors_and_change_nothing() {
    let tale = Tale::load();
    let mut engine = small_engine(&tale, 32).with_digest(DIGEST);
    let mut request = long_request(&tale);
    request.prompt.truncate(PAGE + 3);
    let mut session = Session::open(request.clone());
    session.run(&mut engine, &mut |_| {}).unwrap();
    let saved = session.save(&mut engine);
    engine.clear_cache();
    let free = engine.free_pages();
    let mut restore = |bytes: &[u8]| Session::restore(&mut engine, request.clone(), bytes).err();
    for end in (0..saved.len())
        .step_by(97)
        .chain([0, 1, 7, 8, 12, 44, 45, 53, 61, 69, 77])
    {
        assert!(restore(&saved[..end]).is_some(), "{end} bytes");
    }
    let mut bytes = saved.clone();
    for at in (0..saved.len()).step_by(61).chain(0..100) {
        bytes[at] ^= 0x40;
        assert!(restore(&bytes).is_some(), "byte {at}");
        bytes[at] ^= 0x40;
    }
    assert_eq!(restore(b"GGUF"), Some(RestoreError::Format));
    for version in [1, 2, 4] {
        bytes[8] = version;
        let version = u32::from(version);
        assert_eq!(restore(&bytes), Some(RestoreError::Version { version }));
    }
    assert_eq!(engine.free_pages(), free);
}

#[test]
fn a_plain_call_answers_or_says_why_not() {
    let tale = Tale::load();
    let mut engine = small_engine(&tale, 32);
    let request = tale.request("Once upon a time", None);
    let expected = run_one(&mut engine, request.clone());
    let context = request.prompt.clone();
    let answer = run_inference(&mut engine, &context, request.clone()).unwrap();
    assert_eq!(
        (answer.tokens, answer.text),
        (expected.tokens, expected.text)
    );
    let refused = run_inference(&mut engine, &[], request);
    assert_eq!(
        refused,
        Err(InferenceError::Refused(SubmitError::EmptyPrompt))
    );
}

#[test]
fn adapters_share_a_batch_and_go_when_nobody_uses_them() {
    let tale = Tale::load();
    let mut engine = small_engine(&tale, 64);
    let adapters = [1.3, 2.7].map(|seed| engine.add_adapter(adapter(&tale, seed), 1.0).unwrap());
    let request = long_request(&tale);
    let with = |adapter| Request {
        adapter,
        ..request.clone()
    };
    let kinds = [None, Some(adapters[0]), Some(adapters[1])];
    let alone: Vec<Answer> = kinds
        .iter()
        .map(|&kind| run_one(&mut engine, with(kind)))
        .collect();
    assert_ne!(alone[0].tokens, alone[1].tokens);
    assert_ne!(alone[1].tokens, alone[2].tokens);
    engine.clear_cache();
    let ids: Vec<RequestId> = kinds
        .iter()
        .map(|&kind| engine.submit(with(kind)).unwrap())
        .collect();
    engine.step(&mut |_| {});
    // It stays for the one that has it.
    assert!(engine.remove_adapter(adapters[1]));
    let gone = SubmitError::NoAdapter {
        adapter: adapters[1],
    };
    assert_eq!(engine.submit(with(Some(adapters[1]))), Err(gone));
    let together = run(&mut engine);
    for (id, alone) in ids.iter().zip(&alone) {
        // The first tokens came with the first step.
        assert!(alone.tokens.ends_with(&together[id].tokens));
        assert!(!together[id].tokens.is_empty());
    }
    assert!(!engine.remove_adapter(adapters[1]), "it has gone");
    assert!(engine.remove_adapter(adapters[0]));
    engine.clear_cache();
    assert_eq!(engine.free_pages(), 64, "no page is lost");

    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../model/tests/golden/llama.gguf"
    );
    let tiny = Tale {
        model: load(&std::fs::read(path).unwrap()),
        tokenizer: Arc::clone(&tale.tokenizer),
    };
    let mut other = tiny.engine_with(1, EngineOptions::default());
    assert_eq!(
        other.add_adapter(adapter(&tale, 1.0), 1.0),
        Err(AdapterMismatch)
    );
}
