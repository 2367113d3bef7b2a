//! Recurrent states that cannot be cut back: batches, chunks, drafts, preemption and few slots for states change how an
//! answer is computed, never the answer.

use crate::stateful::{Shape, Stateful, assert_no_leak};
use crate::tale::{Answer, run};
use strata_engine::{Choices, Counters, Request, Speculation};
use strata_model::PAGE;

pub(crate) const LOOKUP: Speculation = Speculation::PromptLookup { max_draft: 8 };
const DRAFT: Speculation = Speculation::DraftModel { max_draft: 6 };

/// Requests of many lengths, greedy and sampled in turn, of which some repeat themselves.
pub(crate) fn requests(stateful: &Stateful, count: u64) -> Vec<Request> {
    let request = |seed: u64| {
        let len = [5, 40, 3 * PAGE, 1, 70, 2 * PAGE + 1][seed as usize % 6];
        let mut request = stateful.request(seed, len, 30 + seed as usize % 7);
        if seed % 3 == 1 {
            let again = request.prompt.clone();
            request.prompt.extend(again);
        }
        request
    };
    (0..count).map(request).collect()
}

/// Runs requests side by side and checks that each gets what it gets alone.
#[track_caller]
pub(crate) fn assert_all_same(
    stateful: &Stateful,
    shape: Shape,
    requests: &[Request],
    alone: &[Answer],
) -> Counters {
    let mut engine = stateful.engine(shape);
    for request in requests {
        engine.submit(request.clone()).unwrap();
    }
    let answers = run(&mut engine);
    assert_eq!(answers.len(), alone.len());
    for (i, (answer, alone)) in answers.values().zip(alone).enumerate() {
        assert_eq!(answer.failure, None, "request {i}");
        assert_eq!(answer.tokens, alone.tokens, "request {i}");
    }
    let counters = engine.counters().clone();
    assert_no_leak(&mut engine, shape);
    counters
}

pub(crate) fn alone(stateful: &Stateful, requests: &[Request]) -> Vec<Answer> {
    requests
        .iter()
        .map(|request| stateful.alone(request))
        .collect()
}

#[test]
fn drafts_are_rolled_back_to_a_checkpoint_and_replayed() {
    let stateful = Stateful::load();
    let mut plain = requests(&stateful, 8);
    // Long enough to come back to what was said.
    plain[0].max_tokens = Some(300);
    plain[3].max_tokens = Some(300);
    let alone = alone(&stateful, &plain);
    let guessing: Vec<Request> = plain
        .iter()
        .map(|request| Request {
            speculation: LOOKUP,
            ..request.clone()
        })
        .collect();
    for (batch, slots) in [(512, 1), (9, 1), (64, 3), (512, 8)] {
        let shape = Shape {
            batch,
            requests: slots,
            max_draft: 8,
            ..Shape::default()
        };
        let counters = assert_all_same(&stateful, shape, &guessing, &alone);
        let (drafted, accepted) = (counters.drafted_tokens, counters.accepted_tokens);
        assert!(accepted > 0, "{drafted} drafted");
        assert!(drafted > accepted, "none was wrong");
    }
}

#[test]
fn a_draft_model_may_be_recurrent_too() {
    let (stateful, dimmed) = (Stateful::load(), Stateful::dimmed());
    let requests = requests(&stateful, 6);
    let alone = alone(&stateful, &requests);
    // Itself is always right; the other is wrong now and then.
    for (draft, always) in [(&stateful, true), (&dimmed, false)] {
        for (batch, slots, states) in [
            (512, 1, None),
            (7, 1, None),
            (40, 4, None),
            (64, 4, Some(5)),
        ] {
            let shape = Shape {
                batch,
                requests: slots,
                max_draft: 6,
                ..Shape::default()
            };
            let drafts = Shape { states, ..shape };
            let mut engine = stateful
                .engine(shape)
                .with_draft_model(draft.executor(drafts), &draft.tokenizer)
                .unwrap();
            for request in &requests {
                let speculation = DRAFT;
                let request = request.clone();
                engine
                    .submit(Request {
                        speculation,
                        ..request
                    })
                    .unwrap();
            }
            let answers = run(&mut engine);
            for (answer, alone) in answers.values().zip(&alone) {
                assert_eq!(answer.tokens, alone.tokens);
            }
            let counters = engine.counters();
            let (drafted, accepted) = (counters.drafted_tokens, counters.accepted_tokens);
            assert!(accepted > 0, "{drafted} drafted");
            if !always {
                assert!(drafted > accepted, "none was wrong");
            }
            assert_no_leak(&mut engine, shape);
            assert_eq!(engine.free_draft_pages(), drafts.pages);
            assert_eq!(engine.free_draft_states(), drafts.states());
        }
    }
}

#[test]
fn requests_that_are_displaced_come_back_with_the_same_answer() {
    let stateful = Stateful::load();
    let requests: Vec<Request> = (0..6)
        .map(|seed| stateful.request(seed, 20 + 13 * seed as usize, 90))
        .collect();
    let alone = alone(&stateful, &requests);
    for (pages, states) in [(9, None), (7, Some(4)), (12, Some(3))] {
        for speculation in [Speculation::Off, LOOKUP] {
            let shape = Shape {
                pages,
                states,
                batch: 64,
                requests: 4,
                max_draft: 4,
                ..Shape::default()
            };
            let requests: Vec<Request> = requests
                .iter()
                .map(|request| Request {
                    speculation,
                    ..request.clone()
                })
                .collect();
            let counters = assert_all_same(&stateful, shape, &requests, &alone);
            assert!(counters.preemptions > 0, "{pages} pages");
        }
    }
}

#[test]
fn a_single_slot_serves_one_sequence_after_the_other_and_drops_drafts() {
    let stateful = Stateful::load();
    let plain = requests(&stateful, 6);
    let alone = alone(&stateful, &plain);
    let mut drafted = Vec::new();
    for states in [1, 2, 3] {
        let requests: Vec<Request> = plain
            .iter()
            .map(|request| Request {
                speculation: LOOKUP,
                ..request.clone()
            })
            .collect();
        let shape = Shape {
            states: Some(states),
            batch: 64,
            requests: 4,
            max_draft: 8,
            ..Shape::default()
        };
        let counters = assert_all_same(&stateful, shape, &requests, &alone);
        drafted.push(counters.drafted_tokens);
    }
    // A checkpoint needs a second slot.
    assert_eq!(drafted[0], 0);
}

#[test]
fn several_answers_and_beams_are_the_same_however_many_slots_there_are() {
    let stateful = Stateful::load();
    let sample = Choices::Sample { n: 3, best_of: 3 };
    let beams = Choices::Beams {
        n: 2,
        width: 3,
        length_penalty: 1.0,
    };
    let mut requests = Vec::new();
    for (seed, choices) in [(1, sample), (3, sample), (0, beams), (5, beams)] {
        requests.push(Request {
            choices,
            ..stateful.request(seed, 20 + 30 * seed as usize, 40)
        });
    }
    // Each answer by itself: the seeds ascend.
    for request in &requests[..2] {
        let all = answers(&stateful, Shape::default(), request);
        assert_eq!(all.len(), 3);
        for (choice, tokens) in all.iter().enumerate() {
            let mut one = request.clone();
            one.choices = Choices::default();
            one.sampling.seed += choice as u64;
            assert_eq!(*tokens, stateful.alone(&one).tokens, "answer {choice}");
        }
    }
    for request in &requests {
        let expected = answers(&stateful, Shape::default(), request);
        for (slots, states, pages) in [(3, None, 64), (3, Some(3), 64), (2, Some(2), 11)] {
            let shape = Shape {
                pages,
                states,
                batch: 32,
                requests: slots,
                ..Shape::default()
            };
            assert_eq!(
                answers(&stateful, shape, request),
                expected,
                "{slots} {states:?}"
            );
        }
    }
}

/// All answers to a request, in their order.
fn answers(stateful: &Stateful, shape: Shape, request: &Request) -> Vec<Vec<u32>> {
    let mut engine = stateful.engine(shape);
    let wanted = request.choices.wanted();
    engine.submit(request.clone()).unwrap();
    let mut answers: Vec<Answer> = (0..wanted).map(|_| Answer::default()).collect();
    while !engine.is_idle() {
        engine.step(&mut |event| answers[event.choice].take(event.kind));
    }
    assert_no_leak(&mut engine, shape);
    answers.into_iter().map(|answer| answer.tokens).collect()
}
