//! Many who ask at once, and several models on one machine.

use crate::support::{open, tale, wait_until};
use std::thread;
use strata::{Model, Options, user};

fn ask(model: &Model, about: &str) -> String {
    let prompt = format!("Tell me a story about a {about}.");
    let request = model.chat([user(prompt)]).temperature(0.0);
    request.max_tokens(24).text().unwrap()
}

const ANIMALS: [&str; 10] = [
    "fox", "owl", "hare", "wolf", "bear", "frog", "crow", "mouse", "cat", "dog",
];

#[test]
fn threads_get_the_answers_that_they_would_get_alone() {
    let model = open("tale", Options::default().requests(4)).unwrap();
    let together = thread::scope(|scope| {
        let threads = ANIMALS.map(|animal| {
            let model = model.clone();
            scope.spawn(move || ask(&model, animal))
        });
        threads.map(|thread| thread.join().unwrap())
    });
    for (animal, answer) in ANIMALS.into_iter().zip(together) {
        assert_eq!(answer, ask(tale(), animal), "{animal}");
    }
    wait_until("all have finished", || {
        model.counters().finished == ANIMALS.len() as u64
    });
}

#[test]
fn two_models_of_one_runtime_take_turns() {
    let models = [(); 2].map(|()| open("tale", Options::default()).unwrap());
    let answers = thread::scope(|scope| {
        let threads = models
            .each_ref()
            .map(|model| scope.spawn(move || ["fox", "owl"].map(|animal| ask(model, animal))));
        threads.map(|thread| thread.join().unwrap())
    });
    let expected = ["fox", "owl"].map(|animal| ask(tale(), animal));
    assert_eq!(answers, [expected.clone(), expected]);
}

#[test]
fn a_model_is_opened_while_another_computes() {
    let busy = open("tale", Options::default()).unwrap();
    let mut request = busy.complete("Once upon a time").temperature(0.0);
    request.generate_mut().ignore_end = true;
    let mut answer = request.stream().unwrap();
    answer.next().unwrap().unwrap();
    let second = open("tale", Options::default()).unwrap();
    assert_eq!(ask(&second, "fox"), ask(tale(), "fox"));
    assert!(answer.next().unwrap().is_ok());
    assert_eq!(busy.counters().failed, 0);
}

/// The pool has room for as many contexts as there is memory for, not for two.
#[test]
fn eight_long_answers_run_at_once() {
    let model = open("tale", Options::default().requests(32)).unwrap();
    let mut answers: Vec<_> = ANIMALS[..8]
        .iter()
        .map(|animal| {
            let prompt = format!("A story about a {animal}: ").repeat(60);
            let mut request = model.complete(prompt).temperature(0.0).max_tokens(300);
            request.generate_mut().ignore_end = true;
            request.stream().unwrap()
        })
        .collect();
    for answer in &mut answers {
        answer.next().unwrap().unwrap();
    }
    let counters = model.counters();
    assert_eq!((counters.running, counters.waiting), (8, 0));
    assert_eq!((counters.blocked, counters.preemptions), (None, 0));
    for answer in answers {
        answer.for_each(|piece| drop(piece.unwrap()));
    }
    assert_eq!(model.counters().preemptions, 0);
}
