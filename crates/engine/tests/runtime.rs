//! Many requests at once: each gets what it would get alone, whatever else happens, and nothing is lost.

mod spelling;
mod tale;

use spelling::{Fault, Rhythm};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use strata_constrain::{Compiler, Grammar, Limits as GrammarLimits};
use strata_engine::random::{Random, Stream};
use strata_engine::sampling::SampleError;
use strata_engine::{
    AdapterId, Choices, ClientId, Constraint, ConstraintError, Engine, EngineOptions, EventKind,
    FinishReason, Limits, Pooling, Priority, Request, RequestError, RequestId, Speculation,
    SubmitError, Task, TokenLogprobs,
};
use strata_host::{Pinning, PoolOptions, ThreadPool};
use strata_kernels::Kernels;
use strata_model::{Adapter, Compute, KvPages, KvType, PAGE};
use strata_platform::{Clock, Inline, Pool, SystemMemory};
use tale::{Answer, Tale, adapter, run, run_one};

/// A clock that is set by hand.
#[derive(Default)]
struct HandClock(AtomicU64);

impl HandClock {
    fn pass(&self, time: Duration) {
        let now = self.0.load(Ordering::Relaxed);
        self.0
            .store(now + time.as_nanos() as u64, Ordering::Relaxed);
    }
}

impl Clock for HandClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

struct Shape<'a> {
    pages: usize,
    batch: usize,
    requests: usize,
    queue: usize,
    pool: &'a dyn Pool,
}

impl Default for Shape<'_> {
    fn default() -> Self {
        Self {
            pages: 256,
            batch: 64,
            requests: 8,
            queue: 64,
            pool: &Inline,
        }
    }
}

fn engine<'a>(tale: &'a Tale, shape: &Shape<'a>) -> Engine<'a> {
    let compute = Compute {
        kernels: Kernels::detect(),
        pool: shape.pool,
    };
    let options = EngineOptions {
        context: 256,
        batch: shape.batch,
        requests: shape.requests,
        queue: shape.queue,
        ..EngineOptions::default()
    };
    let positions = shape.pages * PAGE;
    let kv = KvPages::new(tale.model.config(), KvType::F16, positions, &SystemMemory).unwrap();
    Engine::new(&tale.model, &tale.tokenizer, compute, kv, options)
}

fn assert_no_leak(engine: &mut Engine<'_>, pages: usize) {
    engine.clear_cache();
    assert_eq!(engine.free_pages(), pages, "no page is lost");
    assert_eq!(engine.counters().kept_pages, 0);
}

/// Grammars as requests have them.
fn grammars(tale: &Tale) -> Vec<Box<dyn Constraint>> {
    let compiler = Compiler::new(&tale.tokenizer).unwrap();
    let limits = GrammarLimits {
        time: Duration::from_secs(60),
        ..GrammarLimits::default()
    };
    let schema = r#"{"type": "object", "properties": {"name": {"type": "string", "maxLength": 12},
        "kind": {"enum": ["fox", "bear"]}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
        "required": ["name", "kind", "age"], "additionalProperties": false}"#;
    [
        Grammar::JsonSchema(schema.into()),
        Grammar::Regex("[A-Z][a-z ]{5,40}(, [a-z]+)*[.]".into()),
        Grammar::Gbnf("root ::= (\"yes\" | \"no\") (\" \" [a-z]+)* \"!\"".into()),
    ]
    .map(|grammar| -> Box<dyn Constraint> { Box::new(compiler.compile(&grammar, limits).unwrap()) })
    .into()
}

/// Requests of all kinds, grammars and adapters too. The engine has two adapters.
fn mixed_workload(tale: &Tale, count: u64) -> Vec<Request> {
    let grammars = grammars(tale);
    let mut requests = workload(tale, count);
    for (i, request) in requests.iter_mut().enumerate() {
        if i % 4 == 3 {
            request.constraint = Some(grammars[i / 4 % 3].clone());
            request.ignore_end = false;
        }
        request.adapter = [None, Some(AdapterId(1)), Some(AdapterId(2))][i % 3];
    }
    requests
}

fn add_adapters(engine: &mut Engine<'_>, adapters: &[Arc<Adapter>; 2]) {
    for (adapter, scale) in adapters.iter().zip([1.0, 0.7]) {
        engine.add_adapter(Arc::clone(adapter), scale).unwrap();
    }
}

/// Requests of all kinds: of many lengths, some with a common beginning, greedy and not, constrained and not.
fn workload(tale: &Tale, count: u64) -> Vec<Request> {
    let mut random = Random::new(5, Stream::Token);
    let mut pick = |n: u64| random.next_u64() % n;
    let common: Vec<u32> = (0..70).map(|_| pick(8000) as u32 + 100).collect();
    (0..count)
        .map(|i| {
            let mut request = tale.request("", (i % 3 > 0).then_some(i));
            let shared = if i % 2 == 0 { pick(70) as usize } else { 0 };
            request.prompt = common[..shared].to_vec();
            let own = 1 + pick(60);
            request
                .prompt
                .extend((0..own).map(|_| pick(8000) as u32 + 100));
            request.max_tokens = Some(1 + pick(20) as usize);
            request.ignore_end = true;
            request.client = ClientId(i % 4);
            request.priority = [Priority::Low, Priority::Normal, Priority::High][pick(3) as usize];
            if i % 4 == 1 {
                let mut rhythm = Rhythm::new(9);
                rhythm.forces = i % 8 == 1;
                request.constraint = Some(Box::new(rhythm));
            }
            request.logprobs = (i % 5 == 4).then_some(2);
            request
        })
        .collect()
}

#[track_caller]
fn assert_same(alone: &Answer, other: &Answer, what: &str) {
    assert_eq!(alone.tokens, other.tokens, "{what}");
    assert_eq!(alone.text, other.text, "{what}");
    assert_eq!(alone.logprobs, other.logprobs, "{what}");
    assert_eq!(alone.reason(), other.reason(), "{what}");
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
    let pools: Vec<ThreadPool> = [1, 2]
        .map(|workers| {
            ThreadPool::new(PoolOptions {
                workers: Some(workers),
                pinning: Pinning::None,
            })
            .unwrap()
        })
        .into();
    let kinds = [
        Speculation::Off,
        Speculation::PromptLookup { max_draft: 4 },
        Speculation::DraftModel { max_draft: 4 },
    ];
    for (round, (batch, slots)) in [(64, 32), (5, 3), (200, 12)].into_iter().enumerate() {
        let clock = HandClock::default();
        let shape = Shape {
            batch,
            requests: slots,
            pool: &pools[round % 2],
            ..Shape::default()
        };
        let mut engine = engine(&tale, &shape)
            .with_clock(&clock)
            .with_speculation(4)
            .with_draft_model(&dimmed.model, &dimmed.tokenizer, dimmed.kv())
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

#[test]
fn a_constraint_holds_and_a_faulty_one_ends_its_request_alone() {
    let tale = Tale::load();
    let mut engine = engine(&tale, &Shape::default());
    let plain = tale.request("Once upon a time", None);
    let alone = run_one(&mut engine, plain.clone());
    let constrained = |rhythm: Rhythm| Request {
        constraint: Some(Box::new(rhythm)),
        ignore_end: true,
        ..plain.clone()
    };
    let faults = [
        (
            Fault::Error,
            RequestError::Constraint(ConstraintError::DeadEnd),
        ),
        (Fault::Nothing, RequestError::Sample(SampleError::AllBanned)),
        (
            Fault::Nonsense,
            RequestError::Constraint(ConstraintError::Token { token: u32::MAX }),
        ),
    ];
    let good = engine.submit(constrained(Rhythm::new(10))).unwrap();
    let bad: Vec<RequestId> = faults
        .iter()
        .map(|(fault, _)| {
            let mut rhythm = Rhythm::new(10);
            rhythm.fault = Some((2, *fault));
            engine.submit(constrained(rhythm)).unwrap()
        })
        .collect();
    let other = engine.submit(plain).unwrap();
    let answers = run(&mut engine);
    assert_eq!(answers[&good].reason(), FinishReason::Complete);
    assert_eq!(answers[&good].tokens.len(), 10);
    assert!(Rhythm::new(10).holds(&answers[&good].tokens));
    for (id, (_, error)) in bad.iter().zip(faults) {
        assert_eq!(answers[id].failure, Some(error));
        assert_eq!(answers[id].finish, None);
    }
    assert_same(&alone, &answers[&other], "the others");
    assert_eq!(engine.counters().failed, 3);
    assert_no_leak(&mut engine, 256);
}

#[test]
fn limits_are_kept_or_refused_with_the_reason() {
    let tale = Tale::load();
    let clock = HandClock::default();
    let limited = |limits: Limits| Request {
        limits,
        ..tale.request("Once upon a time", None)
    };
    let second = Some(Duration::from_secs(1));
    let deadline = Limits {
        deadline: second,
        ..Limits::default()
    };
    let mut timeless = engine(&tale, &Shape::default());
    assert_eq!(
        timeless.submit(limited(deadline)),
        Err(SubmitError::NoClock)
    );

    let mut engine = engine(&tale, &Shape::default()).with_clock(&clock);
    let late = engine.submit(limited(deadline)).unwrap();
    let first_token = Limits {
        first_token: second,
        ..Limits::default()
    };
    let begun = engine.submit(limited(first_token)).unwrap();
    let mut answers = BTreeMap::<RequestId, Answer>::new();
    engine.step(&mut |event| {
        answers.entry(event.request).or_default().take(event.kind);
        clock.pass(Duration::from_millis(1));
    });
    clock.pass(Duration::from_secs(2));
    for (id, answer) in run(&mut engine) {
        let known = answers.entry(id).or_default();
        known.failure = answer.failure;
        known.finish = answer.finish;
    }
    let limit = Duration::from_secs(1);
    assert_eq!(
        answers[&late].failure,
        Some(RequestError::Deadline { limit })
    );
    assert!(
        answers[&begun].finish.is_some(),
        "its first token came in time"
    );

    // From here on a step is known to take long.
    for _ in 0..8 {
        engine.submit(tale.request("Once upon", None)).unwrap();
        while !engine.is_idle() {
            engine.step(&mut |_| clock.pass(Duration::from_secs(3)));
        }
    }
    let refused = engine.submit(limited(deadline));
    assert!(matches!(refused, Err(SubmitError::Deadline { limit: l, .. }) if l == limit));
    let per_token = Limits {
        per_token: second,
        ..Limits::default()
    };
    let refused = engine.submit(limited(per_token));
    assert!(matches!(refused, Err(SubmitError::PerToken { .. })));

    let memory = |bytes| Limits {
        memory: Some(bytes),
        ..Limits::default()
    };
    let page = tale.kv().page_bytes();
    let refused = engine.submit(limited(memory(page - 1)));
    assert!(
        matches!(refused, Err(SubmitError::Memory { .. })),
        "{refused:?}"
    );
    let mut open = limited(memory(2 * page));
    (open.max_tokens, open.ignore_end) = (None, true);
    let id = engine.submit(open).unwrap();
    let usage = run(&mut engine)[&id].usage();
    assert_eq!(usage.prompt_tokens + usage.generated_tokens, 2 * PAGE);
    assert_no_leak(&mut engine, 256);
}

#[test]
fn a_full_queue_says_when_to_come_back() {
    let tale = Tale::load();
    let clock = HandClock::default();
    let shape = Shape {
        requests: 2,
        queue: 3,
        ..Shape::default()
    };
    let mut engine = engine(&tale, &shape).with_clock(&clock);
    for _ in 0..5 {
        engine.submit(tale.request("Hello", None)).unwrap();
    }
    let full = engine.submit(tale.request("Hello", None));
    assert!(matches!(full, Err(SubmitError::Full { .. })));
    for _ in 0..10 {
        engine.step(&mut |_| clock.pass(Duration::from_millis(10)));
    }
    let Err(SubmitError::Full { retry_after }) = engine.submit(tale.request("Hello", None)) else {
        panic!("three wait still");
    };
    assert!(retry_after > Duration::from_millis(5), "{retry_after:?}");
    assert!(retry_after < Duration::from_secs(20), "{retry_after:?}");
    assert_eq!(engine.counters().rejected, 2);
    assert_eq!(run(&mut engine).len(), 5);
    assert!(engine.submit(tale.request("Hello", None)).is_ok());
}

#[test]
fn what_is_asked_for_and_not_there_is_refused() {
    let tale = Tale::load();
    let mut engine = engine(&tale, &Shape::default());
    let request = || tale.request("Hello", None);
    let adapter = AdapterId(3);
    let refused = engine.submit(Request {
        adapter: Some(adapter),
        ..request()
    });
    assert_eq!(refused, Err(SubmitError::NoAdapter { adapter }));
    for (n, best_of) in [(0, 1), (2, 1), (1, 1_000_000)] {
        let refused = engine.submit(Request {
            choices: Choices::Sample { n, best_of },
            ..request()
        });
        assert!(matches!(refused, Err(SubmitError::Choices { .. })));
    }
    let refused = engine.submit(Request {
        task: Task::Score { second: 1 },
        ..request()
    });
    assert!(matches!(refused, Err(SubmitError::Unsupported { .. })));
    assert_eq!(engine.counters().refused, 5);
    assert!(engine.is_idle());
}

fn prompt_scores(engine: &mut Engine<'_>, request: Request) -> (Vec<TokenLogprobs>, Answer) {
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
        let mut other = self::engine(&tale, &shape);
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

#[test]
fn random_load_with_cancellations_leaves_nothing_behind() {
    let tale = Tale::load();
    let clock = HandClock::default();
    let mut random = Random::new(11, Stream::Token);
    let shape = Shape {
        pages: 24,
        requests: 6,
        queue: 10,
        ..Shape::default()
    };
    let mut engine = engine(&tale, &shape).with_clock(&clock).with_speculation(3);
    let mut requests = workload(&tale, 40);
    for (i, request) in requests.iter_mut().enumerate() {
        request.speculation = Speculation::PromptLookup { max_draft: 3 };
        request.choices = match i % 7 {
            0 => Choices::Sample { n: 2, best_of: 3 },
            1 => Choices::Sample { n: 2, best_of: 2 },
            _ => Choices::default(),
        };
        request.cache = i % 6 != 0;
    }
    let (mut open, mut ended, mut taken) = (BTreeMap::new(), 0, 0);
    let mut next = 0;
    for _ in 0..400 {
        if next < requests.len() * 2 && random.next_f64() < 0.5 {
            let request = requests[next % requests.len()].clone();
            let wanted = request.choices.wanted();
            if let Ok(id) = engine.submit(request) {
                open.insert(id, wanted);
                taken += 1;
            }
            next += 1;
        }
        if random.next_f64() < 0.15
            && let Some(&id) = open
                .keys()
                .nth(random.next_u64() as usize % open.len().max(1))
        {
            open.remove(&id);
            assert!(engine.cancel(id));
            ended += 1;
        }
        engine.step(&mut |event| {
            clock.pass(Duration::from_millis(1));
            if let EventKind::Finished { .. } = event.kind {
                let left = open.get_mut(&event.request).expect("it is open");
                *left -= 1;
                if *left == 0 {
                    open.remove(&event.request);
                    ended += 1;
                }
            }
        });
    }
    while !engine.is_idle() {
        engine.step(&mut |event| {
            if let EventKind::Finished { .. } = event.kind {
                let left = open.get_mut(&event.request).expect("it is open");
                *left -= 1;
                ended += usize::from(*left == 0);
            }
        });
    }
    let counters = engine.counters().clone();
    assert_eq!(ended, taken);
    assert_eq!(counters.submitted, taken as u64);
    assert_eq!(counters.finished + counters.canceled, taken as u64);
    assert!(counters.canceled > 10, "{} canceled", counters.canceled);
    assert_eq!((counters.running, counters.waiting), (0, 0));
    assert_no_leak(&mut engine, 24);
}
