//! How long masks take: `cargo test --release -p strata-constrain --test mask_time -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use crate::support::{BYTE_LEVEL, Random, Vocabulary};
use strata_constrain::{Compiler, Grammar};
use strata_engine::{Constraint, TokenMask};
use strata_tokenizer::{ModelKind, TokenKind, TokenTable, Tokenizer, Vocab};

const SCHEMA: &str = r#"{"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0},
  "tags": {"type": "array", "items": {"type": "string", "maxLength": 20}}, "kind": {"enum": ["a", "b", "other"]}},
  "required": ["name", "age", "tags", "kind"], "additionalProperties": false}"#;

/// A vocabulary of this many made-up words, each with and without a space, beside all bytes.
fn synthetic(size: usize) -> Tokenizer {
    let mut tokens = TokenTable::with_capacity(size);
    tokens.push("</s>", TokenKind::Control, 0.0).unwrap();
    for byte in 0..=255 {
        tokens
            .push(&format!("<0x{byte:02X}>"), TokenKind::Byte, 0.0)
            .unwrap();
    }
    let mut random = Random(1);
    while tokens.len() < size {
        let length = 1 + random.below(9);
        let mut word: String = (0..length)
            .map(|_| char::from(b"etaoinshrdlucmfwygpbvk.,:{}\"[]0123456789"[random.below(40)]))
            .collect();
        if random.below(2) == 0 {
            word.insert(0, '▁');
        }
        if tokens.find(&word).is_none() {
            tokens.push(&word, TokenKind::Normal, -1.0).unwrap();
        }
    }
    let mut vocab = Vocab::new(ModelKind::Spm, tokens);
    vocab.special.eos = Some(0);
    vocab.end_of_generation = vec![0];
    Tokenizer::from_vocab(vocab).unwrap()
}

fn measure(vocabulary: &Vocabulary, what: &str, grammar: &Grammar) {
    let begun = Instant::now();
    let mut matcher = vocabulary.compile(grammar).unwrap();
    let compiled = begun.elapsed();
    let mut times = Vec::new();
    let mut accepts = Duration::ZERO;
    let mut random = Random(9);
    while times.len() < 400 {
        if matcher.is_complete() {
            matcher = vocabulary.compile(grammar).unwrap();
        }
        let mut mask = TokenMask::new(vocabulary.tokenizer.vocab_size());
        let begun = Instant::now();
        matcher.allowed(&mut mask).unwrap();
        times.push(begun.elapsed());
        let allowed: Vec<u32> = (0..mask.vocabulary() as u32)
            .filter(|id| mask.is_allowed(*id))
            .collect();
        let begun = Instant::now();
        matcher
            .accept(allowed[random.below(allowed.len())])
            .unwrap();
        accepts += begun.elapsed();
    }
    let tokens = times.len() as u32;
    let mean = times.iter().sum::<Duration>() / tokens;
    times.sort_unstable();
    eprintln!(
        "{}, {what}: compiled in {compiled:?}; mask {mean:?} on average, {:?} median, {:?} p99; accept {:?}",
        vocabulary.name,
        times[times.len() / 2],
        times[times.len() * 99 / 100],
        accepts / tokens
    );
}

#[test]
#[ignore = "a measurement"]
fn masks_take_this_long() {
    let begun = Instant::now();
    let tokenizer = synthetic(32_000);
    let compiler = Compiler::new(&tokenizer).unwrap();
    eprintln!("32,000 tokens: compiler made in {:?}", begun.elapsed());
    let large = Vocabulary {
        name: "32,000 tokens",
        tokenizer: tokenizer.into(),
        compiler,
    };
    for vocabulary in [&*BYTE_LEVEL, &large] {
        measure(vocabulary, "schema", &Grammar::JsonSchema(SCHEMA.into()));
        measure(vocabulary, "any object", &Grammar::JsonObject);
        measure(
            vocabulary,
            "regex",
            &Grammar::Regex("[a-z ]+(, [a-z ]+){0,1000}[.]".into()),
        );
    }
}
