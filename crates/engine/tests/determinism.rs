//! Many requests at once: each gets what it would get alone, whatever else happens.

use crate::crowd;

use crate::crowd::{HandClock, Shape, assert_no_leak, assert_same, engine, workload};
use crate::spelling::Rhythm;
use crate::tale::{Answer, PAGES, Tale, adapter, run, run_one};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use strata_engine::{
    AdapterId, Choices, Constraint, Engine, EventKind, FinishReason, Pooling, Request, RequestId,
    Speculation, Task, TokenLogprobs,
};
use strata_host::{Pinning, PoolOptions, ThreadPool};
use strata_model::{Adapter, PAGE};

/// Constraints that end after some tokens, with and without forced ones.
fn constraints() -> [Box<dyn Constraint>; 3] {
    [(9, true), (14, false), (30, true)].map(|(length, forces)| -> Box<dyn Constraint> {
        Box::new(Rhythm {
            forces,
            ..Rhythm::new(length)
        })
    })
}

/// Requests of all kinds, with constraints and adapters too. The engine has two adapters.
fn mixed_workload(tale: &Tale, count: u64) -> Vec<Request> {
    let constraints = constraints();
    let mut requests = workload(tale, count);
    for (i, request) in requests.iter_mut().enumerate() {
        if i % 4 == 3 {
            request.constraint = Some(constraints[i / 4 % 3].fork());
            request.ignore_end = false;
        }
        request.adapter = [None, Some(AdapterId(1)), Some(AdapterId(2))][i % 3];
    }
    requests
}

fn add_adapters(engine: &mut Engine, adapters: &[Arc<Adapter>; 2]) {
    for (adapter, scale) in adapters.iter().zip([1.0, 0.7]) {
        engine.add_adapter(Arc::clone(adapter), scale).unwrap();
    }
}

#[test]
fn thirty_two_requests_get_what_each_gets_alone() {
    let (tale, dimmed) = (Tale::load(), Tale::dimmed());
    let requests = mixed_workload(&tale, 32);
    let adapters = [1.3, 2.7].map(|seed| adapter(&tale, seed));
    let alone: Vec<Answer> = requests
        .iter()
        .map(|request| {
            let mut engine = engine(&tale, &Shape::default());
            add_adapters(&mut engine, &adapters);
            run_one(&mut engine, request.clone())
        })
        .collect();
    let complete = |answer: &&Answer| answer.reason() == FinishReason::Complete;
    assert!(alone.iter().filter(complete).count() >= 4);
    let pools = [1, 2].map(|workers| {
        let options = PoolOptions {
            workers: Some(workers),
            pinning: Pinning::None,
        };
        Arc::new(ThreadPool::new(options).unwrap())
    });
    let kinds = [
        Speculation::Off,
        Speculation::PromptLookup { max_draft: 4 },
        Speculation::DraftModel { max_draft: 4 },
    ];
    for (round, (batch, slots)) in [(64, 32), (5, 3), (200, 12)].into_iter().enumerate() {
        let clock = Arc::new(HandClock::default());
        let shape = Shape {
            batch,
            requests: slots,
            pool: pools[round % 2].clone(),
            max_draft: 4,
            ..Shape::default()
        };
        let mut engine = engine(&tale, &shape)
            .with_clock(clock.clone())
            .with_draft_model(dimmed.executor(PAGES, &shape.options()), &dimmed.tokenizer)
            .unwrap();
        add_adapters(&mut engine, &adapters);
        // Twice: the second time much is in the cache.
        for warm in [false, true] {
            let (mut answers, mut ids) = (BTreeMap::<RequestId, Answer>::new(), Vec::new());
            let mut waiting = requests.iter().enumerate();
            let mut next = waiting.next();
            while next.is_some() || !engine.is_idle() {
                // They come one by one, while others are under way.
                for _ in 0..2 {
                    if let Some((i, request)) = next {
                        let speculation = kinds[(i + round) % 3];
                        let request = Request {
                            speculation,
                            ..request.clone()
                        };
                        ids.push(engine.submit(request).unwrap());
                        next = waiting.next();
                    }
                }
                engine.step(&mut |event| {
                    clock.pass(Duration::from_millis(3));
                    answers.entry(event.request).or_default().take(event.kind);
                });
            }
            let mut cached = 0;
            for (i, id) in ids.iter().enumerate() {
                let what = format!("request {i} in round {round}, warm: {warm}");
                assert_same(&alone[i], &answers[id], &what);
                cached += answers[id].usage().cached_tokens;
            }
            assert!(cached > if warm { 1000 } else { 0 }, "{cached} cached");
        }
        assert_no_leak(&mut engine, 256);
        assert_eq!(engine.free_draft_pages(), 1024 / PAGE);
        let counters = engine.counters();
        assert_eq!(
            (counters.submitted, counters.finished, counters.failed),
            (64, 64, 0)
        );
        assert!(counters.forced_tokens > 0 && counters.accepted_tokens > 0);
    }
}

#[test]
fn where_pages_run_out_texts_give_way_and_come_back_the_same() {
    let tale = Tale::load();
    let mut requests = workload(&tale, 12);
    for request in &mut requests {
        request.max_tokens = Some(60);
        request.constraint = None;
    }
    let alone: Vec<Answer> = requests
        .iter()
        .map(|request| run_one(&mut engine(&tale, &Shape::default()), request.clone()))
        .collect();
    let shape = Shape {
        pages: 12,
        requests: 6,
        ..Shape::default()
    };
    let mut engine = engine(&tale, &shape);
    for request in &requests {
        engine.submit(request.clone()).unwrap();
    }
    let answers = run(&mut engine);
    for (i, (alone, answer)) in alone.iter().zip(answers.values()).enumerate() {
        assert_same(alone, answer, &format!("request {i}"));
    }
    let counters = engine.counters();
    assert!(
        counters.preemptions > 0 && counters.evicted_pages > 0,
        "{counters:?}"
    );
    assert_no_leak(&mut engine, 12);
}

#[test]
fn several_answers_are_those_of_the_next_seeds_and_share_the_prompt() {
    let tale = Tale::load();
    let mut request = tale.request(
        "Once upon a time there was a king who had three daughters",
        Some(40),
    );
    request.choices = Choices::Sample { n: 3, best_of: 3 };
    let alone: Vec<Answer> = (0..3)
        .map(|choice| {
            let mut request = request.clone();
            request.choices = Choices::default();
            request.sampling.seed += choice;
            run_one(&mut engine(&tale, &Shape::default()), request)
        })
        .collect();
    for cache in [true, false] {
        request.cache = cache;
        let mut engine = engine(&tale, &Shape::default());
        engine.submit(request.clone()).unwrap();
        let mut answers = BTreeMap::<usize, Answer>::new();
        let mut computed = 0;
        while !engine.is_idle() {
            engine.step(&mut |event| answers.entry(event.choice).or_default().take(event.kind));
            computed = engine.counters().batch_tokens.sum as usize;
        }
        assert_eq!(answers.len(), 3);
        let mut generated = 0;
        for (choice, answer) in &answers {
            assert_same(&alone[*choice], answer, &format!("choice {choice}"));
            generated += answer.tokens.len();
        }
        // The prompt once, and the last token of it for each of the others.
        assert!(
            computed <= request.prompt.len() + 2 + generated,
            "{computed} tokens computed"
        );
        if !cache {
            assert_eq!(
                engine.counters().kept_pages,
                0,
                "its pages are for itself only"
            );
        }
        assert_no_leak(&mut engine, 256);
    }
}

#[test]
fn the_best_of_several_is_the_likeliest() {
    let tale = Tale::load();
    let mut request = tale.request("The fox said", Some(3));
    request.ignore_end = true;
    let score = |choice: u64| {
        let mut request = request.clone();
        request.sampling.seed += choice;
        request.logprobs = Some(0);
        let answer = run_one(&mut engine(&tale, &Shape::default()), request);
        let logprobs = answer.logprobs.iter().flatten();
        let total: f64 = logprobs.map(|l| f64::from(l.chosen.logprob)).sum();
        (total, answer.tokens)
    };
    let mut alone: Vec<(f64, Vec<u32>)> = (0..5).map(score).collect();
    alone.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut engine = engine(&tale, &Shape::default());
    engine
        .submit(Request {
            choices: Choices::Sample { n: 2, best_of: 5 },
            ..request
        })
        .unwrap();
    let mut answers = BTreeMap::<usize, Answer>::new();
    while !engine.is_idle() {
        engine.step(&mut |event| answers.entry(event.choice).or_default().take(event.kind));
    }
    let best: Vec<&Vec<u32>> = answers.values().map(|answer| &answer.tokens).collect();
    assert_eq!(best, [&alone[0].1, &alone[1].1]);
    assert!(
        answers
            .values()
            .all(|answer| answer.logprobs.iter().all(Option::is_none))
    );
}

fn prompt_scores(engine: &mut Engine, request: Request) -> (Vec<TokenLogprobs>, Answer) {
    engine.submit(request).unwrap();
    let (mut scores, mut answer) = (Vec::new(), Answer::default());
    while !engine.is_idle() {
        engine.step(&mut |event| match event.kind {
            EventKind::PromptLogprobs { from, logprobs } => {
                assert_eq!(from, scores.len() + 1);
                scores.extend(logprobs);
            }
            kind => answer.take(kind),
        });
    }
    (scores, answer)
}

#[test]
fn scores_of_a_prompt_are_those_of_its_tokens_when_generated() {
    let tale = Tale::load();
    let mut request = tale.request("Once upon a time there was", None);
    request.logprobs = Some(2);
    request.max_tokens = Some(40);
    request.ignore_end = true;
    let mut engine = engine(&tale, &Shape::default());
    let generated = run_one(&mut engine, request.clone());
    let start = request.prompt.len();
    request.prompt.extend(&generated.tokens);
    request.prompt_logprobs = Some(2);
    request.max_tokens = Some(0);
    // What is cached makes no difference: every token is wanted.
    for batch in [64, 7] {
        let shape = Shape {
            batch,
            ..Shape::default()
        };
        let mut other = crowd::engine(&tale, &shape);
        let engine = if batch == 64 { &mut engine } else { &mut other };
        let (scores, answer) = prompt_scores(engine, request.clone());
        assert_eq!(scores.len(), request.prompt.len() - 1);
        let of_answer = generated.logprobs.iter().flatten();
        assert!(scores[start - 1..].iter().eq(of_answer));
        assert!(answer.tokens.is_empty());
        assert_eq!(answer.reason(), FinishReason::Length);
        assert_no_leak(engine, 256);
    }
}

#[test]
fn an_embedding_does_not_depend_on_the_batch() {
    let tale = Tale::load();
    let embed = |batch, crowd: bool| {
        let shape = Shape {
            batch,
            ..Shape::default()
        };
        let mut engine = engine(&tale, &shape);
        if crowd {
            for request in workload(&tale, 4) {
                engine.submit(request).unwrap();
            }
        }
        let id = engine
            .submit(Request {
                task: Task::Embed(Pooling::Mean),
                ..tale.request(
                    "In a small village by the sea there lived an old fisherman",
                    None,
                )
            })
            .unwrap();
        let (mut vector, mut ends) = (None, 0);
        while !engine.is_idle() {
            engine.step(&mut |event| match event.kind {
                EventKind::Embedding(embedding) if event.request == id => vector = Some(embedding),
                EventKind::Finished { reason, .. } if event.request == id => {
                    assert_eq!(reason, FinishReason::Complete);
                    ends += 1;
                }
                _ => {}
            });
        }
        assert_eq!(ends, 1);
        assert_no_leak(&mut engine, 256);
        vector.unwrap()
    };
    let whole = embed(64, false);
    assert_eq!(whole.len(), tale.model.config().width);
    assert!(whole.iter().any(|x| *x != 0.0));
    assert_eq!(embed(3, false), whole);
    assert_eq!(embed(16, true), whole);
}
