//! Looking inside a running engine: what is seen, and that it changes nothing.

use crate::tale::Tale;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use strata_engine::sampling::{Sampler, SamplerSettings, Workspace, Xtc};
use strata_engine::{EventKind, InspectError, Request, StepReport};
use strata_model::{Observer, PAGE};

/// Someone who looks and wants nothing.
struct Idle;

impl Observer for Idle {}

fn request(prompt: Vec<u32>, max_tokens: usize) -> Request {
    Request {
        prompt,
        max_tokens: Some(max_tokens),
        sampling: SamplerSettings::greedy(),
        ignore_end: true,
        ..Request::default()
    }
}

#[test]
fn a_look_in_between_changes_no_answer_and_leaves_nothing() {
    let tale = Tale::load();
    let prompt: Vec<u32> = (0..70).map(|i| 300 + i % 50).collect();
    let answer = |looks: bool| {
        let mut engine = tale.engine(64, 2);
        engine.submit(request(prompt.clone(), 12)).unwrap();
        let mut tokens = Vec::new();
        while !engine.is_idle() {
            engine.step(&mut |event| {
                if let EventKind::Token { token, .. } = event.kind {
                    tokens.push(token);
                }
            });
            if looks {
                let free = engine.free_pages();
                let logits = engine.inspect(&prompt[..40], &Idle).unwrap();
                assert_eq!(logits.len(), 8192);
                assert_eq!(engine.free_pages(), free);
            }
        }
        tokens
    };
    assert_eq!(answer(true), answer(false));
    let mut engine = tale.engine(64, 2);
    assert_eq!(engine.inspect(&[], &Idle), Err(InspectError::Empty));
    let long = engine.inspect(&[1; 65], &Idle);
    assert!(
        matches!(long, Err(InspectError::TooLong { .. })),
        "{long:?}"
    );
    let unknown = engine.inspect(&[9999], &Idle);
    assert!(
        matches!(unknown, Err(InspectError::Batch(_))),
        "{unknown:?}"
    );
    assert_eq!(engine.free_pages(), engine.counters().pages);
}

#[test]
fn steps_tell_their_batches_and_the_pages_that_are_shared() {
    let tale = Tale::load();
    let mut engine = tale.engine(256, 2);
    let steps = Arc::<Mutex<Vec<StepReport>>>::default();
    let kept = Arc::clone(&steps);
    engine.watch(Box::new(move |report| {
        let mut kept = kept.lock().unwrap();
        kept.push(report.clone());
        if kept.len() < 9 {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    }));
    let shared: Vec<u32> = (0..2 * PAGE as u32).map(|i| 300 + i).collect();
    let text = |end: &[u32]| [&shared[..], end].concat();
    let first = engine.submit(request(text(&[5, 6, 7]), 8)).unwrap();
    engine.step(&mut |_| {});
    let second = engine.submit(request(text(&[8]), 8)).unwrap();
    while !engine.is_idle() {
        engine.step(&mut |_| {});
    }
    // Whoever has seen enough is told no more.
    engine.submit(request(vec![1, 2], 4)).unwrap();
    while !engine.is_idle() {
        engine.step(&mut |_| {});
    }
    let steps = steps.lock().unwrap();
    assert_eq!(steps.len(), 9);
    let own = |step: &StepReport, id| {
        let mut all = step.sequences.iter();
        all.find(|sequence| sequence.request == id).cloned()
    };
    let begun = own(&steps[0], first).unwrap();
    assert_eq!((begun.tokens, begun.prefill), (2 * PAGE + 3, true));
    let filled: Vec<usize> = begun.pages.iter().map(|page| page.filled).collect();
    assert_eq!(filled, [PAGE, PAGE, 3]);
    let (one, two) = (
        own(&steps[1], first).unwrap(),
        own(&steps[1], second).unwrap(),
    );
    assert_eq!((one.tokens, one.prefill), (1, false));
    // Of the second text only what is its own was computed.
    assert_eq!((two.tokens, two.prefill), (1, true));
    assert_eq!(one.pages[..2], two.pages[..2]);
    assert_ne!(one.pages[2].page, two.pages[2].page);
    assert!(two.pages[0].users > two.pages[2].users);
}

/// Every stage of a chain is what the sampler itself leaves, and the last is what it draws from.
#[test]
fn stages_of_a_chain_end_where_the_sampler_ends() {
    let tale = Tale::load();
    let mut engine = tale.engine(64, 1);
    let prompt = [2050, 693, 261, 550];
    let logits = engine.inspect(&prompt, &Idle).unwrap();
    let mut settings = SamplerSettings {
        top_k: 40,
        top_p: 0.9,
        min_p: 0.02,
        temperature: 0.7,
        seed: 3,
        ..SamplerSettings::default()
    };
    let names = |settings: &SamplerSettings| {
        let mut sampler = Sampler::new(settings.clone(), logits.len()).unwrap();
        sampler.prime(&prompt);
        let (stages, choice) = sampler.stages(&logits).unwrap();
        let mut workspace = Workspace::new();
        assert_eq!(sampler.sample(&logits, &mut workspace), Ok(choice));
        let last = stages.last().unwrap();
        assert_eq!(last.candidates.len(), workspace.candidates().len());
        for pair in stages.windows(2) {
            assert!(pair[1].candidates.len() <= pair[0].candidates.len());
        }
        for stage in &stages {
            let sum: f32 = stage.candidates.iter().map(|one| one.probability).sum();
            assert!((sum - 1.0).abs() < 1e-3, "{}: {sum}", stage.name);
            let sorted = stage.candidates.is_sorted_by(|a, b| a.logit >= b.logit);
            assert!(sorted, "{}", stage.name);
        }
        assert_eq!(stages[0].candidates.len(), logits.len());
        stages.iter().map(|stage| stage.name).collect::<Vec<_>>()
    };
    assert_eq!(
        names(&settings),
        ["logits", "top_k", "top_p", "min_p", "temperature"]
    );
    settings.penalties.repeat = 1.3;
    settings.xtc = Xtc {
        probability: 1.0,
        threshold: 0.1,
    };
    settings.min_p = 0.0;
    assert_eq!(
        names(&settings),
        [
            "logits",
            "penalties",
            "top_k",
            "top_p",
            "xtc",
            "temperature"
        ]
    );
    settings.temperature = 0.0;
    assert_eq!(names(&settings).last(), Some(&"temperature"));
}
