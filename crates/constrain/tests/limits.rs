//! Grammars made to hurt: each gives an answer or an error, soon, and harms nothing else.

use std::time::{Duration, Instant};

use crate::support::{BYTE_LEVEL, Random};
use strata_constrain::{CompileError, Compiler, Grammar, Limits};
use strata_engine::{Constraint, TokenMask};

/// Four times what is promised: these machines are shared.
const TIMEOUT: Duration = Duration::from_secs(4);

fn hostile() -> Vec<(&'static str, Grammar)> {
    let regex = |text: String| Grammar::Regex(text);
    let schema = |text: String| Grammar::JsonSchema(text);
    let gbnf = |text: String| Grammar::Gbnf(text);
    let lark = |text: String| Grammar::Lark(text);
    let doubling: String = (0..40)
        .map(|i| format!("r{i} ::= r{} r{}\n", i + 1, i + 1))
        .collect();
    let chain: String = (0..3000)
        .map(|i| format!("r{i} ::= r{}\n", i + 1))
        .collect();
    vec![
        ("nested groups", regex("(".repeat(27_000) + "a" + &")".repeat(27_000))),
        ("a million repeats", regex("a{1000000}".into())),
        ("repeats of repeats", regex("((a{1000}){1000}){60}".into())),
        ("repeats of choices", regex("(a|b|ab){60000}c".into())),
        ("a long text", regex("ab".repeat(28_000))),
        ("many branches", regex(vec!["abc"; 14_000].join("|"))),
        ("stars of stars", regex("(((a*)*)*)*b".into())),
        ("backtracking", regex("(a+)+b".into())),
        ("late choice", regex("(a|b)*a(a|b){18}".into())),
        ("unicode", regex(r"(\w{1,400}\W{1,400}){1,400}".into())),
        ("not closed", regex("(a".into())),
        ("open braces", regex("{".repeat(55_000))),
        ("nothing", regex(String::new())),
        ("deep schema", schema("{\"items\":".repeat(100) + "{}" + &"}".repeat(100))),
        ("deep brackets", schema("[".repeat(55_000))),
        ("many items", schema("{\"type\":\"array\",\"minItems\":60000,\"items\":{\"type\":\"array\",\"minItems\":60000}}".into())),
        ("long strings", schema("{\"type\":\"string\",\"maxLength\":4000000000}".into())),
        ("many constants", schema(format!("{{\"enum\":[{}]}}", (0..9000).map(|i| i.to_string()).collect::<Vec<_>>().join(",")))),
        ("circles", schema("{\"$ref\":\"#\"}".into())),
        ("circles of sums", schema("{\"$defs\":{\"a\":{\"allOf\":[{\"$ref\":\"#/$defs/a\"},{\"$ref\":\"#/$defs/a\"}]}},\"$ref\":\"#/$defs/a\"}".into())),
        ("products", schema(format!("{{\"allOf\":[{}]}}", vec!["{\"anyOf\":[{\"minimum\":1},{\"maxLength\":2},{\"maxItems\":3}]}"; 20].join(",")))),
        ("optional properties", schema(format!("{{\"properties\":{{{}}}}}", (0..1500).map(|i| format!("\"p{i}\":{{\"type\":\"integer\"}}")).collect::<Vec<_>>().join(",")))),
        ("doubling rules", gbnf(format!("root ::= r0\n{doubling}r40 ::= \"a\""))),
        ("chained rules", gbnf(format!("root ::= r0\n{chain}r3000 ::= \"a\""))),
        ("ambiguous", gbnf("root ::= root root | \"a\" | \"\"".into())),
        ("open brackets", gbnf("root ::= ".to_string() + &"(".repeat(55_000))),
        ("many characters", gbnf(format!("root ::= x\nx ::= {} | \"(\" x \")\"", (0..2000).map(|i| format!("[\\u{:04x}-\\uffff]", 0x100 + i)).collect::<Vec<_>>().join(" | ")))),
        ("itself", gbnf("root ::= root".into())),
        ("lark brackets", lark("start: ".to_string() + &"(".repeat(55_000))),
        ("lark repeats", lark("start: a~60000..65000\na: \"x\"~60000 \"y\"".into())),
        ("lark itself", lark("start: start | start start".into())),
        ("no text", lark("\u{0}".into())),
        ("too long", regex("a".repeat(70_000))),
    ]
}

#[test]
fn every_hostile_grammar_ends_soon() {
    for (name, grammar) in hostile() {
        let begun = Instant::now();
        let compiled = BYTE_LEVEL.compiler.compile(&grammar, Limits::default());
        let took = begun.elapsed();
        eprintln!("{name}: {took:?} {:?}", compiled.as_ref().err());
        assert!(took < TIMEOUT, "{name} took {took:?}");
        let Ok(mut matcher) = compiled else {
            continue;
        };
        // What compiles must not hurt later either, on a small stack.
        let walk = std::thread::Builder::new()
            .stack_size(1 << 20)
            .spawn(move || {
                let mut random = Random(1);
                let mut slowest = Duration::ZERO;
                for _ in 0..30 {
                    let mut mask = TokenMask::new(BYTE_LEVEL.tokenizer.vocab_size());
                    let begun = Instant::now();
                    let allowed = matcher.allowed(&mut mask);
                    slowest = slowest.max(begun.elapsed());
                    if allowed.is_err() || matcher.is_complete() {
                        break;
                    }
                    let all: Vec<u32> = (0..mask.vocabulary() as u32)
                        .filter(|id| mask.is_allowed(*id))
                        .collect();
                    if matcher.accept(all[random.below(all.len())]).is_err() {
                        break;
                    }
                }
                slowest
            });
        let slowest = walk.unwrap().join().expect("no panic");
        eprintln!("{name}: slowest mask {slowest:?}");
        assert!(slowest < TIMEOUT, "{name}: a mask took {slowest:?}");
    }
    let after = BYTE_LEVEL.compile(&Grammar::JsonObject);
    assert!(after.is_ok(), "{after:?}");
}

#[test]
fn limits_are_named() {
    // One of its own: the other tests keep the shared one busy.
    let compiler = Compiler::new(&BYTE_LEVEL.tokenizer).unwrap();
    let compile = |grammar: Grammar| compiler.compile(&grammar, Limits::default()).unwrap_err();
    assert!(matches!(
        compile(Grammar::Regex("a".repeat(70_000))),
        CompileError::TooLong {
            bytes: 70_000,
            limit: 57_344
        }
    ));
    assert!(matches!(
        compile(Grammar::Regex("a{70000}".into())),
        CompileError::TooManyRepeats {
            count: 70_000,
            limit: 65_536,
            ..
        }
    ));
    assert!(matches!(
        compile(Grammar::Gbnf("root ::= \"a\"{99999999999999999999}".into())),
        CompileError::TooManyRepeats {
            count: u64::MAX,
            ..
        }
    ));
    let braces = compile(Grammar::Regex("{".repeat(55_000)));
    assert!(!matches!(braces, CompileError::TooSlow { .. }), "{braces}");
    assert!(matches!(
        compile(Grammar::Regex("(".repeat(65) + &")".repeat(65))),
        CompileError::TooDeep { limit: 64, .. }
    ));
    assert!(matches!(
        compile(Grammar::Regex("(x(a{300}b){10}|c){40}".into())),
        CompileError::TooManyRepeats { count: 120_000, .. }
    ));
    assert!(matches!(
        compile(Grammar::Choice(Vec::new())),
        CompileError::Empty { .. }
    ));
    let none = Limits {
        time: Duration::ZERO,
        ..Limits::default()
    };
    // Long enough that it cannot be done before anybody waits for it.
    let slow = compiler.compile(&Grammar::Regex("ab".repeat(27_000)), none);
    assert!(
        matches!(slow, Err(CompileError::TooSlow { .. })),
        "{slow:?}"
    );
}

#[test]
fn compiled_grammars_are_kept_within_bytes() {
    let compiler = Compiler::with_cache(&BYTE_LEVEL.tokenizer, 1 << 20).unwrap();
    let limits = Limits {
        time: Duration::from_secs(20),
        ..Limits::default()
    };
    for i in 0..40 {
        let grammar = Grammar::Regex(format!("{i}[a-z]*"));
        compiler.compile(&grammar, limits).unwrap();
        let (entries, bytes) = compiler.cached();
        assert!(bytes <= 1 << 20, "{bytes}");
        assert!(entries >= 1);
    }
    let (entries, _) = compiler.cached();
    assert!((2..40).contains(&entries), "{entries}");
}
