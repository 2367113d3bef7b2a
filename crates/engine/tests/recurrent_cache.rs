//! What is kept of recurrent sequences: snapshots in the prefix cache, in saved sessions, and in a store behind both.

use crate::mixer_kinds::RECURRENT;
use crate::shelf::Shelf;
use crate::stateful::{Shape, Stateful, assert_no_leak};
use crate::tale::{Answer, run, run_one};
use strata_engine::{
    Choices, ClientId, Engine, EventKind, ModelDigest, Request, Session, Speculation, SubmitError,
};
use strata_model::PAGE;

const DIGEST: ModelDigest = ModelDigest([7; 32]);

/// A request with another beginning put before its own prompt.
pub(crate) fn after(stateful: &Stateful, beginning: &[u32], seed: u64, own: usize) -> Request {
    let mut request = stateful.request(seed, own, 12);
    request.prompt.splice(..0, beginning.to_vec());
    request
}

/// Runs a request, and checks that it gets what it gets alone. Gives how many tokens were cached.
#[track_caller]
pub(crate) fn assert_same(stateful: &Stateful, engine: &mut Engine, request: &Request) -> usize {
    engine.submit(request.clone()).unwrap();
    let (mut answer, mut started) = (Answer::default(), None);
    while !engine.is_idle() {
        engine.step(&mut |event| match event.kind {
            EventKind::Started { cached_tokens } => started = Some(cached_tokens),
            kind => answer.take(kind),
        });
    }
    assert_eq!(answer.tokens, stateful.alone(request).tokens);
    assert_eq!(started, Some(answer.usage().cached_tokens));
    started.unwrap()
}

#[test]
fn a_beginning_is_found_again_where_a_snapshot_was_taken() {
    let stateful = Stateful::load();
    let first = stateful.request(0, 4 * PAGE + 10, 12);
    // Where a prompt's batches end there are snapshots: with the last page, or with each.
    for (batch, parted) in [(512, [4, 4, 0, 0]), (PAGE, [4, 4, 2, 1])] {
        let shape = Shape {
            batch,
            ..Shape::default()
        };
        let mut engine = stateful.engine(shape);
        assert_eq!(assert_same(&stateful, &mut engine, &first), 0);
        let places = [4 * PAGE + 10, 4 * PAGE, 2 * PAGE + 20, PAGE];
        for (seed, (at, pages)) in (1..).zip(places.into_iter().zip(parted)) {
            let request = after(&stateful, &first.prompt[..at], seed, 30);
            let cached = assert_same(&stateful, &mut engine, &request);
            assert_eq!(cached, pages * PAGE, "{at} in common, batches of {batch}");
        }
        let again = assert_same(&stateful, &mut engine, &first);
        assert_eq!(again, 4 * PAGE, "the last token is computed in any case");
        // Another client finds nothing.
        let stranger = Request {
            client: ClientId(5),
            ..first.clone()
        };
        assert_eq!(assert_same(&stateful, &mut engine, &stranger), 0);
        assert_no_leak(&mut engine, shape);
    }
}

#[test]
fn a_turn_goes_on_from_where_the_answer_before_it_ended() {
    let stateful = Stateful::load();
    for speculation in [Speculation::Off, Speculation::PromptLookup { max_draft: 6 }] {
        let shape = Shape {
            max_draft: 6,
            ..Shape::default()
        };
        let mut engine = stateful.engine(shape);
        let mut text = stateful.prompt(3, 50);
        for turn in 0..4 {
            let before = text.len();
            text.extend(stateful.prompt(100 + turn, 9));
            let request = Request {
                prompt: text.clone(),
                speculation,
                ..stateful.request(turn, 1, 25)
            };
            let cached = assert_same(&stateful, &mut engine, &request);
            if turn > 0 {
                // Its last token was never computed; a draft that was wrong at the end has cost a few more.
                let drafts = if speculation == Speculation::Off {
                    1
                } else {
                    7
                };
                assert!(cached < before && before <= cached + drafts, "{cached}");
            }
            text.extend(stateful.alone(&request).tokens);
        }
        assert_no_leak(&mut engine, shape);
    }
}

#[test]
fn snapshots_make_way_for_running_sequences() {
    let stateful = Stateful::load();
    let common = stateful.prompt(77, 3 * PAGE);
    for states in [1, 2, 4] {
        let shape = Shape {
            states: Some(states),
            batch: PAGE,
            requests: 3,
            ..Shape::default()
        };
        let mut engine = stateful.engine(shape);
        let requests: Vec<Request> = (0..9)
            .map(|seed| after(&stateful, &common[..seed as usize % 4 * PAGE], seed, 20))
            .collect();
        for request in &requests {
            engine.submit(request.clone()).unwrap();
        }
        let answers = run(&mut engine);
        for (answer, request) in answers.values().zip(&requests) {
            assert_eq!(answer.tokens, stateful.alone(request).tokens);
        }
        // One by one there is room for a snapshot of an answer's end beside the sequence, if there is a second slot.
        let first = after(&stateful, &common, 50, 5);
        assert_same(&stateful, &mut engine, &first);
        let mut next = after(&stateful, &first.prompt, 51, 0);
        next.prompt.extend(stateful.alone(&first).tokens);
        let cached = assert_same(&stateful, &mut engine, &next);
        let expected = if states == 1 {
            0
        } else {
            next.prompt.len() - 1
        };
        assert_eq!(cached, expected, "{states} slots");
        assert_no_leak(&mut engine, shape);
    }
    let shape = Shape {
        states: Some(0),
        ..Shape::default()
    };
    let refused = stateful.engine(shape).submit(stateful.request(1, 4, 4));
    assert!(matches!(refused, Err(SubmitError::Unsupported { .. })));
}

#[test]
fn sessions_are_saved_with_their_state_and_fork() {
    let stateful = Stateful::load();
    let shape = Shape {
        batch: 64,
        ..Shape::default()
    };
    let settings = stateful.request(1, 3 * PAGE + 5, 20);
    let mut here = stateful.engine(shape).with_digest(DIGEST);
    let mut session = Session::open(settings.clone());
    session.run(&mut here, &mut |_| {}).unwrap();
    let mut fork = session.fork();
    fork.append(&[1, 2, 3]);
    session.append(&[4, 5]);
    let saved = session.save(&mut here);
    let expected = stateful.alone(&session.request()).tokens;
    let one = session.run(&mut here, &mut |_| {}).unwrap();
    assert_eq!(one.tokens, expected);
    assert_eq!(one.usage.cached_tokens, 3 * PAGE + 5 + 19);
    let expected_fork = stateful.alone(&fork.request()).tokens;
    let other = fork.run(&mut here, &mut |_| {}).unwrap();
    assert_eq!(other.tokens, expected_fork);
    assert!(other.usage.cached_tokens >= 3 * PAGE);

    // Elsewhere, in an engine that knows nothing, and in one that knows the pages and has lost their state.
    for states in [None, Some(2)] {
        let shape = Shape { states, ..shape };
        let mut there = stateful.engine(shape).with_digest(DIGEST);
        if states.is_some() {
            run_one(&mut there, settings.clone());
            for seed in 10..13 {
                run_one(&mut there, stateful.request(seed, PAGE + 1, 3));
            }
        }
        let mut restored = Session::restore(&mut there, settings.clone(), &saved).unwrap();
        let same = restored.run(&mut there, &mut |_| {}).unwrap();
        assert_eq!(same.tokens, expected);
        assert_eq!(same.usage.cached_tokens, 3 * PAGE + 5 + 19);
        restored.forget(&mut there);
        assert_no_leak(&mut there, shape);
    }
    assert_no_leak(&mut here, shape);
}

#[test]
fn a_store_keeps_states_beside_pages_over_a_restart() {
    let stateful = Stateful::load();
    let first = stateful.request(1, 5 * PAGE + 3, 40);
    let next = after(&stateful, &first.prompt, 2, 10);
    let shape = Shape {
        batch: 64,
        ..Shape::default()
    };
    let shelf = Shelf::default();
    let with_store = |shape: Shape| {
        stateful
            .engine(shape)
            .with_store(Box::new(shelf.clone()), DIGEST)
    };
    let mut engine = with_store(shape);
    assert_same(&stateful, &mut engine, &first);
    engine.persist();
    assert_no_leak(&mut engine, shape);
    for states in [None, Some(2), Some(1)] {
        let shape = Shape { states, ..shape };
        let mut engine = with_store(shape);
        let cached = assert_same(&stateful, &mut engine, &next);
        // A single slot is the sequence's own.
        let expected = if states == Some(1) { 0 } else { 5 * PAGE };
        assert_eq!(cached, expected, "{states:?}");
        assert_no_leak(&mut engine, shape);
    }

    // The answer's end was stored with its state. Its last token was never computed.
    let mut longer = first.clone();
    longer.prompt.extend(stateful.alone(&first).tokens);
    longer.prompt.extend([1, 2, 3]);
    let mut engine = with_store(shape);
    let end = 5 * PAGE + 3 + 39;
    assert_eq!(assert_same(&stateful, &mut engine, &longer), end);
    engine.persist();
    let mut engine = with_store(shape);
    assert_eq!(assert_same(&stateful, &mut engine, &longer), end);

    // What is damaged is computed again.
    for content in shelf.0.lock().unwrap().values_mut() {
        let middle = content.len() / 2;
        content[middle] ^= 4;
    }
    let mut engine = with_store(shape);
    assert_eq!(assert_same(&stateful, &mut engine, &longer), 0);
    assert_no_leak(&mut engine, shape);
}

#[test]
fn a_turn_computes_only_what_is_new_also_after_a_restart() {
    for name in RECURRENT {
        let stateful = Stateful::named(name);
        let shape = Shape::default();
        let shelf = Shelf::default();
        let with_store = || {
            stateful
                .engine(shape)
                .with_store(Box::new(shelf.clone()), DIGEST)
        };
        let mut engine = with_store();
        let mut text = stateful.prompt(3, 2 * PAGE + 9);
        let mut known = 0;
        for turn in 0..3 {
            let request = Request {
                prompt: text.clone(),
                ..stateful.request(turn, 1, 3 * PAGE / 2)
            };
            let cached = assert_same(&stateful, &mut engine, &request);
            assert_eq!(cached, known, "{name}");
            text.extend(stateful.alone(&request).tokens);
            known = text.len() - 1;
            text.extend(stateful.prompt(50 + turn, 7));
            // The next turn is another process's.
            engine.persist();
            engine = with_store();
        }
    }
}

#[test]
fn a_turn_that_is_written_anew_goes_on_from_the_answer_before_it() {
    let stateful = Stateful::load();
    let shape = Shape::default();
    let mut engine = stateful.engine(shape);
    let first = stateful.request(2, 2 * PAGE, 40);
    assert_same(&stateful, &mut engine, &first);
    let mut text = first.prompt.clone();
    text.extend(stateful.alone(&first).tokens);
    let end = text.len() - 1;
    // Each fills the page in which the answer ended, with something else.
    for seed in 0..4 {
        let other = after(&stateful, &text, seed, PAGE + 11);
        assert_eq!(assert_same(&stateful, &mut engine, &other), end);
    }
    assert_no_leak(&mut engine, shape);
}

#[test]
fn a_prompt_whose_end_is_written_otherwise_in_the_next_turn_is_not_computed_again() {
    let stateful = Stateful::load();
    let shape = Shape::default();
    for own in 0..PAGE {
        let mut engine = stateful.engine(shape);
        let first = stateful.request(0, 6 * PAGE + own, 5);
        assert_same(&stateful, &mut engine, &first);
        // As where a template opens the answer with a thought, and leaves thoughts of earlier turns out.
        let stable = first.prompt.len() - 6;
        let next = after(&stateful, &first.prompt[..stable], 1, 30);
        let cached = assert_same(&stateful, &mut engine, &next);
        assert!(stable - cached < PAGE + 2, "{cached} of {stable}");
    }
}

#[test]
fn a_long_prompt_leaves_snapshots_every_few_thousand_tokens_and_those_of_others() {
    let stateful = Stateful::load();
    let shape = Shape {
        pages: 256,
        states: Some(14),
        context: 6000,
        batch: 256,
        ..Shape::default()
    };
    let mut engine = stateful.engine(shape);
    let other = stateful.request(9, PAGE + 9, 5);
    assert_same(&stateful, &mut engine, &other);
    let long = stateful.request(0, 2 * 2048 + 300, 5);
    assert_eq!(assert_same(&stateful, &mut engine, &long), 0);
    for (at, expected) in [(2048 + 200, 2048), (4096 + 50, 4096), (2048, 2048)] {
        let request = after(&stateful, &long.prompt[..at], 3, 20);
        let cached = assert_same(&stateful, &mut engine, &request);
        assert_eq!(cached, expected, "{at} in common");
    }
    assert_eq!(assert_same(&stateful, &mut engine, &other), PAGE);
    assert_no_leak(&mut engine, shape);
}

#[test]
fn pages_and_states_without_room_go_to_the_store_and_come_back() {
    let stateful = Stateful::load();
    let shape = Shape {
        pages: 8,
        states: Some(2),
        batch: 64,
        ..Shape::default()
    };
    let shelf = Shelf::default();
    let mut engine = stateful.engine(shape).with_store(Box::new(shelf), DIGEST);
    let (first, other) = (
        stateful.request(2, 6 * PAGE, 20),
        stateful.request(3, 6 * PAGE, 20),
    );
    assert_eq!(assert_same(&stateful, &mut engine, &first), 0);
    assert_eq!(assert_same(&stateful, &mut engine, &other), 0);
    assert!(engine.counters().stored_pages > 0);
    assert!(assert_same(&stateful, &mut engine, &first) >= 4 * PAGE);
    assert!(engine.counters().restored_pages > 0);
    assert_no_leak(&mut engine, shape);
}

#[test]
fn canceled_requests_give_back_pages_and_states() {
    let stateful = Stateful::load();
    let shape = Shape {
        batch: 40,
        requests: 4,
        max_draft: 4,
        ..Shape::default()
    };
    for steps in [1, 2, 5, 9] {
        let mut engine = stateful
            .engine(shape)
            .with_draft_model(stateful.executor(shape), &stateful.tokenizer)
            .unwrap();
        let mut ids = Vec::new();
        for seed in 0..6 {
            let mut request = stateful.request(seed, 10 + 20 * seed as usize, 40);
            match seed {
                1 | 2 => request.speculation = Speculation::DraftModel { max_draft: 4 },
                3 => request.speculation = Speculation::PromptLookup { max_draft: 4 },
                4 => request.choices = Choices::Sample { n: 2, best_of: 3 },
                5 => {
                    request.choices = Choices::Beams {
                        n: 1,
                        width: 2,
                        length_penalty: 1.0,
                    };
                }
                _ => request.cache = false,
            }
            ids.push(engine.submit(request).unwrap());
        }
        (0..steps).for_each(|_| engine.step(&mut |_| {}));
        assert!(engine.free_states() < shape.states());
        for id in ids {
            assert!(engine.cancel(id));
        }
        assert_no_leak(&mut engine, shape);
        assert_eq!(engine.free_draft_pages(), shape.pages);
        assert_eq!(engine.free_draft_states(), shape.states());
    }
}
