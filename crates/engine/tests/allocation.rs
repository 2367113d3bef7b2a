//! Steps that only write texts on take no memory.

#[path = "../../model/tests/counting/mod.rs"]
mod counting;
mod tale;

use counting::allocations;
use std::sync::Arc;
use strata_engine::{Engine, EngineOptions, EventKind, Request};
use strata_host::{MonotonicClock, ThreadPool};
use strata_model::PAGE;
use tale::{ExecutorSetup, Tale};

/// The only test in its program: others would allocate beside it.
#[test]
fn steps_that_write_on_allocate_nothing_but_places_for_full_pages() {
    let tale = Tale::load();
    let options = EngineOptions {
        context: 512,
        requests: 4,
        ..EngineOptions::default()
    };
    let setup = ExecutorSetup {
        pool: Arc::new(ThreadPool::new(Some(2)).unwrap()),
        ..ExecutorSetup::default()
    };
    let executor = setup.executor(&tale.model, &options);
    let mut engine = Engine::new(executor, Arc::clone(&tale.tokenizer), options)
        .with_clock(Arc::new(MonotonicClock::default()));
    let prompts = [
        "Once upon a time",
        "The king",
        "In a small village by the sea",
    ];
    let mut lengths = Vec::new();
    for (i, prompt) in prompts.iter().enumerate() {
        // Greedy, with a seed, and with what looks back over the text.
        let mut request = tale.request(prompt, (i > 0).then_some(i as u64));
        if i == 2 {
            request.sampling.penalties.repeat = 1.1;
        }
        lengths.push(request.prompt.len());
        let request = Request {
            stop: vec!["no such text".into()],
            max_tokens: Some(120),
            ignore_end: true,
            ..request
        };
        engine.submit(request).unwrap();
    }
    let (mut bytes, mut tokens, mut quiet) = (0, 0, 0);
    for step in 0..110 {
        let before = allocations();
        engine.step(&mut |event| {
            if let EventKind::Token { text, .. } = event.kind {
                bytes += text.len();
                tokens += 1;
            }
        });
        let taken = allocations() - before;
        // The text has one token that is not computed.
        let full = lengths
            .iter()
            .filter(|&&prompt| (prompt + step).is_multiple_of(PAGE))
            .count();
        // Buffers grow at first; those of the text itself get twice as long each time.
        let doubles = |&prompt: &usize| {
            let text = prompt + step;
            text.is_power_of_two() || (0..6).any(|times| prompt << times == text)
        };
        let grows = step < 40 || lengths.iter().any(doubles);
        match (grows, full) {
            (true, _) => {}
            (false, 0) => {
                assert_eq!(taken, 0, "step {step}");
                quiet += 1;
            }
            (false, full) => assert!(taken <= 12 * full, "step {step}: {taken} for {full} pages"),
        }
    }
    assert!(quiet > 50, "{quiet} steps");
    assert!(
        tokens == 330 && bytes > 330,
        "{tokens} tokens, {bytes} bytes"
    );
}
