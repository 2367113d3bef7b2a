//! Grammars made to hold up the engine's steps: their requests fail, soon, with the reason, and nobody else notices.

use crate::support::BYTE_LEVEL;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};
use strata_constrain::{CompileError, Grammar, Limits};
use strata_engine::sampling::SamplerSettings;
use strata_engine::{
    ConstraintError, Engine, EngineOptions, EventKind, Request, RequestError, RequestId,
};
use strata_model::KvType;

/// Far more than the budget of a token: these machines are shared.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Rules that each repeat the next in several ways, so that the same letters are read in more ways than can be counted.
fn nested(depth: usize) -> String {
    let rules: String = (0..depth)
        .map(|i| format!("a{i} ::= (a{} | \"a\")* (a{} | \"aa\")*\n", i + 1, i + 1))
        .collect();
    format!("root ::= a0\n{rules}a{depth} ::= \"a\" | \"aa\" | \"aaa\"\n")
}

fn hostile() -> Vec<(&'static str, Grammar)> {
    vec![
        ("five levels", Grammar::Gbnf(nested(5))),
        ("sixty levels", Grammar::Gbnf(nested(60))),
        (
            "sums of itself",
            Grammar::Gbnf("root ::= root root root | root root | \"a\" | \"b\" | \"ab\"".into()),
        ),
        (
            "trees",
            Grammar::Gbnf("root ::= [a-z] root | [a-z] root root | [a-z]".into()),
        ),
    ]
}

#[derive(Default)]
struct Answer {
    tokens: Vec<u32>,
    failure: Option<RequestError>,
}

/// Runs all, and gives the answers and how long the slowest step took.
fn run(engine: &mut Engine) -> (BTreeMap<RequestId, Answer>, Duration) {
    let mut answers = BTreeMap::<RequestId, Answer>::new();
    let mut slowest = Duration::ZERO;
    while !engine.is_idle() {
        let begun = Instant::now();
        engine.step(&mut |event| {
            let answer = answers.entry(event.request).or_default();
            match event.kind {
                EventKind::Token { token, .. } => answer.tokens.push(token),
                EventKind::Failed(error) => answer.failure = Some(error),
                _ => {}
            }
        });
        slowest = slowest.max(begun.elapsed());
    }
    (answers, slowest)
}

#[test]
fn a_hostile_grammar_fails_alone_and_soon() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tale/tale-q4_k_m.gguf");
    let bytes = std::fs::read(path).unwrap();
    let options = EngineOptions {
        context: 512,
        requests: 8,
        ..EngineOptions::default()
    };
    let mut engine = BYTE_LEVEL.engine(&bytes, (KvType::F16, 4096), options);
    let plain = Request {
        prompt: vec![300, 17, 560],
        sampling: SamplerSettings {
            seed: 5,
            ..SamplerSettings::llama_cpp()
        },
        max_tokens: Some(40),
        ignore_end: true,
        ..Request::default()
    };
    let id = engine.submit(plain.clone()).unwrap();
    let alone = run(&mut engine).0.remove(&id).unwrap();
    let limits = Limits {
        time: Duration::from_secs(30),
        token_time: Duration::from_millis(40),
        ..Limits::default()
    };
    let mut bad = Vec::new();
    for (name, grammar) in hostile() {
        match BYTE_LEVEL.compiler.compile(&grammar, limits) {
            Ok(matcher) => {
                let request = Request {
                    constraint: Some(Box::new(matcher)),
                    max_tokens: Some(200),
                    ..plain.clone()
                };
                bad.push((name, engine.submit(request).unwrap()));
            }
            // One that is refused beforehand holds up nobody.
            Err(CompileError::Refused { .. }) => {}
            Err(error) => panic!("{name}: {error}"),
        }
    }
    assert!(!bad.is_empty());
    let id = engine.submit(plain).unwrap();
    let (answers, slowest) = run(&mut engine);
    assert_eq!(answers[&id].tokens, alone.tokens, "the others go on");
    assert!(answers[&id].failure.is_none());
    assert!(slowest < TIMEOUT, "a step took {slowest:?}");
    let mut limited = 0;
    for (name, id) in bad {
        match &answers[&id].failure {
            Some(RequestError::Constraint(error)) => {
                eprintln!("{name}: {error} after {} tokens", answers[&id].tokens.len());
                limited += usize::from(matches!(error, ConstraintError::Limit { .. }));
            }
            // Some come to their end before they hurt.
            None => eprintln!("{name}: {} tokens", answers[&id].tokens.len()),
            Some(error) => panic!("{name}: {error}"),
        }
    }
    // A quick machine may be done with all of them within their budget.
    assert!(
        limited > 0 || slowest < TIMEOUT / 5,
        "a step took {slowest:?} and no limit was named"
    );
    engine.clear_cache();
    assert_eq!(engine.free_pages(), 4096 / 32, "no page is lost");
}
