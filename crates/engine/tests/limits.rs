//! What requests may not do and what becomes of them: limits, refusals, faults, cancellation. Nothing is lost.

use crate::crowd::{HandClock, Shape, assert_no_leak, assert_same, engine, workload};
use crate::spelling::{Fault, Rhythm};
use crate::tale::{Answer, Tale, run, run_one};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use strata_engine::random::{Random, Stream};
use strata_engine::sampling::SampleError;
use strata_engine::{
    AdapterId, Choices, Constraint, ConstraintError, EventKind, FinishReason, Limits, Request,
    RequestError, RequestId, Speculation, SubmitError, Task, TokenMask,
};
use strata_model::PAGE;

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

/// A constraint that lets nothing come but the end.
#[derive(Clone)]
struct Nothing {
    end: u32,
    ended: bool,
}

impl Constraint for Nothing {
    fn allowed(&mut self, mask: &mut TokenMask) -> Result<(), ConstraintError> {
        if self.ended {
            return Err(ConstraintError::DeadEnd);
        }
        mask.allow(self.end);
        Ok(())
    }

    fn accept(&mut self, token: u32) -> Result<(), ConstraintError> {
        self.ended = token == self.end;
        Ok(())
    }

    fn forced(&mut self, out: &mut Vec<u32>) -> Result<(), ConstraintError> {
        out.push(self.end);
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.ended
    }

    fn fork(&self) -> Box<dyn Constraint> {
        Box::new(self.clone())
    }
}

#[test]
fn a_text_that_must_end_at_once_ends_once() {
    let tale = Tale::load();
    let mut engine = engine(&tale, &Shape::default());
    let end = (0..).find(|&token| tale.tokenizer.is_end_of_generation(token));
    let end = end.unwrap();
    for logprobs in [None, Some(1)] {
        let nothing = Nothing { end, ended: false };
        let request = Request {
            constraint: Some(Box::new(nothing)),
            logprobs,
            ..tale.request("Once upon a time", None)
        };
        engine.submit(request).unwrap();
        let mut ends = Vec::new();
        while !engine.is_idle() {
            engine.step(&mut |event| match event.kind {
                EventKind::Started { .. } => {}
                kind => ends.push(kind),
            });
        }
        let [EventKind::Finished { reason, .. }] = &ends[..] else {
            panic!("{ends:?}");
        };
        assert_eq!(*reason, FinishReason::EndOfTurn(end));
    }
    assert_eq!(
        (engine.counters().finished, engine.counters().failed),
        (2, 0)
    );
    assert_no_leak(&mut engine, 256);
}

#[test]
fn limits_are_kept_or_refused_with_the_reason() {
    let tale = Tale::load();
    let clock = Arc::new(HandClock::default());
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

    let mut engine = engine(&tale, &Shape::default()).with_clock(clock.clone());
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
    let page = engine.executor().page_table().layout().page_bytes();
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
    let clock = Arc::new(HandClock::default());
    let shape = Shape {
        requests: 2,
        queue: 3,
        ..Shape::default()
    };
    let mut engine = engine(&tale, &shape).with_clock(clock.clone());
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

#[test]
fn random_load_with_cancellations_leaves_nothing_behind() {
    let tale = Tale::load();
    let clock = Arc::new(HandClock::default());
    let mut random = Random::new(11, Stream::Token);
    let shape = Shape {
        pages: 24,
        requests: 6,
        queue: 10,
        max_draft: 3,
        ..Shape::default()
    };
    let mut engine = engine(&tale, &shape).with_clock(clock.clone());
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
