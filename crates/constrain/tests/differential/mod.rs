//! Both matchers allow the same: `llguidance`, and ours, which needs no operating system. They are asked after each token of
//! random answers to grammars that are made at random, for several vocabularies.
//!
//! `STRATA_GRAMMARS` says how many of each kind there are; a run of thousands is a command of its own.

mod gbnf;
mod regexes;
mod schemas;

use crate::support::{BYTE_FALLBACK, BYTE_LEVEL, Random, Vocabulary};
use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex};
use strata_constrain::{
    CallCount, CallMarkers, Calls, CompileError, Grammar, Limits, Preamble, Tool, ToolCalls,
};
use strata_engine::{Constraint, ConstraintError, TokenMask};

type Ours = Mutex<strata_grammar::Compiler>;

static OURS: LazyLock<[(&'static Vocabulary, Ours); 2]> = LazyLock::new(|| {
    [&*BYTE_LEVEL, &*BYTE_FALLBACK].map(|vocabulary| {
        let compiler = strata_grammar::Compiler::new(&vocabulary.tokenizer);
        (vocabulary, Mutex::new(compiler.unwrap()))
    })
});

/// What was compared.
#[derive(Default, Debug)]
struct Tally {
    grammars: usize,
    masks: usize,
    both_refuse: usize,
    /// Refused by one alone, by the reason.
    alone: BTreeMap<String, usize>,
}

/// How many grammars of a kind are made.
fn count() -> u64 {
    let set = std::env::var("STRATA_GRAMMARS").ok();
    set.and_then(|count| count.parse().ok()).unwrap_or(12)
}

/// Reasons for which one of the two alone may refuse: their limits differ.
fn is_limit(error: &CompileError) -> bool {
    match error {
        CompileError::TooComplex { .. } | CompileError::TooSlow { .. } => true,
        CompileError::Refused { reason, .. } => [
            "fuel",
            "Unable to determine",
            "exceeded its limit",
            "too large",
            "can't determine",
        ]
        .iter()
        .any(|word| reason.contains(word)),
        _ => false,
    }
}

/// Compares the two for a grammar, along some random answers.
fn compare(grammar: &Grammar, seed: u64, tally: &mut Tally) {
    for (vocabulary, ours) in &*OURS {
        let limits = Limits {
            time: std::time::Duration::from_secs(60),
            ..Limits::default()
        };
        let theirs = vocabulary.compile(grammar);
        let ours = ours.lock().unwrap().compile(grammar, limits);
        tally.grammars += 1;
        let (theirs, ours) = match (theirs, ours) {
            (Ok(theirs), Ok(ours)) => (theirs, ours),
            (Err(_), Err(_)) => {
                tally.both_refuse += 1;
                continue;
            }
            (theirs, ours) => {
                let (who, error) = match (&theirs, &ours) {
                    (Err(error), _) => ("llguidance", error),
                    (_, Err(error)) => ("ours", error),
                    _ => continue,
                };
                assert!(is_limit(error), "{who} alone refuses {grammar:#?}: {error}");
                *tally.alone.entry(format!("{who}: {error}")).or_default() += 1;
                continue;
            }
        };
        for walk in 0..3 {
            let start = (theirs.fork(), ours.fork());
            follow(
                grammar,
                vocabulary,
                start,
                &mut Random(seed * 8 + walk),
                tally,
            );
        }
    }
}

/// A random answer, compared token by token.
fn follow(
    grammar: &Grammar,
    vocabulary: &Vocabulary,
    (mut theirs, mut ours): (Box<dyn Constraint>, Box<dyn Constraint>),
    random: &mut Random,
    tally: &mut Tally,
) {
    const STEPS: usize = 70;
    let mut text = Vec::new();
    for step in 0..STEPS {
        let place = || format!("after {:?} in {grammar:#?}", String::from_utf8_lossy(&text));
        assert_eq!(
            theirs.is_complete(),
            ours.is_complete(),
            "complete {}",
            place()
        );
        let ask = |matcher: &mut dyn Constraint| {
            let mut mask = TokenMask::new(vocabulary.tokenizer.vocab_size());
            let asked = matcher.allowed(&mut mask);
            asked.map(|()| mask)
        };
        let (their_mask, our_mask) = (ask(theirs.as_mut()), ask(ours.as_mut()));
        let (theirs_allow, ours_allow) = match (their_mask, our_mask) {
            (Ok(theirs), Ok(ours)) => (theirs, ours),
            (Err(ConstraintError::Limit { what, .. }), _)
            | (_, Err(ConstraintError::Limit { what, .. })) => {
                *tally.alone.entry(format!("mask: {what}")).or_default() += 1;
                return;
            }
            (Err(theirs), Err(ours)) => {
                assert_eq!(theirs, ours, "{}", place());
                return;
            }
            (theirs, ours) => panic!("{theirs:?} {ours:?} {}", place()),
        };
        tally.masks += 1;
        let all = 0..vocabulary.tokenizer.vocab_size() as u32;
        let differing = all.filter(|id| theirs_allow.is_allowed(*id) != ours_allow.is_allowed(*id));
        let differing: Vec<_> = differing
            .map(|id| {
                let text = vocabulary.tokenizer.token_text(id).unwrap_or_default();
                (id, text, ours_allow.is_allowed(id))
            })
            .take(12)
            .collect();
        assert!(
            differing.is_empty(),
            "{} {}: (token, text, ours allows it) {differing:?}",
            vocabulary.name,
            place()
        );
        if theirs.is_complete() {
            return;
        }
        let allowed: Vec<u32> = (0..ours_allow.vocabulary() as u32)
            .filter(|id| ours_allow.is_allowed(*id))
            .collect();
        let token = vocabulary.choose(&allowed, random, step > 25);
        let taken = (theirs.accept(token), ours.accept(token));
        assert_eq!(taken.0, taken.1, "{token} {}", place());
        if taken.0.is_err() {
            // A token that ends answers is no part of one.
            assert!(
                vocabulary.tokenizer.is_end_of_generation(token),
                "{}",
                place()
            );
            return;
        }
        if vocabulary.tokenizer.is_end_of_generation(token) {
            assert!(theirs.is_complete() && ours.is_complete());
            return;
        }
        text.extend_from_slice(&vocabulary.tokenizer.token_bytes(token).unwrap());
    }
}

fn compare_all(kind: &str, seed: u64, mut make: impl FnMut(&mut Random) -> Grammar) {
    let mut tally = Tally::default();
    for number in 0..count() {
        let seed = seed + number;
        let grammar = make(&mut Random(seed));
        compare(&grammar, seed, &mut tally);
    }
    println!("{kind}: {tally:?}");
    assert!(tally.masks as u64 > count());
}

#[test]
fn json_schemas_allow_the_same_tokens() {
    compare_all("schemas", 1 << 32, |random| {
        Grammar::JsonSchema(schemas::any(random).to_string())
    });
}

#[test]
fn regular_expressions_allow_the_same_tokens() {
    compare_all("regular expressions", 2 << 32, |random| {
        Grammar::Regex(regexes::any(random, 3))
    });
}

#[test]
fn gbnf_grammars_allow_the_same_tokens() {
    compare_all("GBNF", 3 << 32, |random| Grammar::Gbnf(gbnf::any(random)));
}

#[test]
fn choices_allow_the_same_tokens() {
    compare_all("choices", 4 << 32, |random| {
        let texts = (0..1 + random.below(6)).map(|_| {
            let words = ["yes", "no", " maybe", "\n", "ä", "日本", "42", "{", "yes"];
            let count = 1 + random.below(3);
            (0..count)
                .map(|_| words[random.below(words.len())])
                .collect()
        });
        Grammar::Choice(texts.collect())
    });
}

#[test]
fn calls_of_tools_allow_the_same_tokens() {
    let marks = ["<tool_call>", "[CALLS]", "<|endoftext|>", "</s>", ""];
    compare_all("calls", 5 << 32, |random| {
        let tools = (0..1 + random.below(3)).map(|i| Tool {
            name: format!("tool_{i}"),
            parameters: schemas::object(random, 1).to_string(),
        });
        let tools = tools.collect();
        let mark = marks[random.below(marks.len())];
        Grammar::ToolCalls(ToolCalls {
            tools,
            markers: match random.below(3) {
                0 => CallMarkers::tagged("<tool_call>", "</tool_call>"),
                1 => CallMarkers::tagged(mark, mark),
                _ => CallMarkers {
                    begin: mark.into(),
                    between: ", ".into(),
                    end: "]".into(),
                },
            },
            arguments_key: ["arguments", "parameters"][random.below(2)].into(),
            calls: [Calls::Optional, Calls::Required][random.below(2)],
            count: [CallCount::One, CallCount::Many][random.below(2)],
            preamble: [Preamble::Text, Preamble::Nothing][random.below(2)],
        })
    });
}

#[test]
fn any_object_allows_the_same_tokens() {
    let mut tally = Tally::default();
    for seed in 0..count() / 10 + 1 {
        compare(&Grammar::JsonObject, seed, &mut tally);
    }
    println!("objects: {tally:?}");
}
