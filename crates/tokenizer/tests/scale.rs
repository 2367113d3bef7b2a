//! A quarter of a megabyte of anything, through every pattern and every algorithm, in less than a quarter of a second each.

use std::path::Path;
use std::time::{Duration, Instant};

use strata_tokenizer::{
    EncodeOptions, ModelKind, PreTokenizer, TokenKind, TokenTable, Tokenizer, Vocab,
};
use strata_weights::Gguf;

const SIZE: usize = 250_000;
/// The promise is a megabyte in a second; the rest is for machines that are slow or busy. What is quadratic takes longer.
const LIMIT: Duration = Duration::from_secs(5);

fn vocab(name: &str) -> Vocab {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/vectors")
        .join(name);
    let bytes = std::fs::read(path).expect("a committed vocabulary");
    let gguf = Gguf::parse(&bytes).expect("a good GGUF file");
    Vocab::from_gguf(gguf.metadata()).expect("a good vocabulary")
}

/// What one thing repeated can do to a pattern or to merging.
const UNITS: [&str; 16] = [
    " ",
    "\n",
    " \n",
    "a",
    "Aa",
    "漢",
    "\u{301}",
    "😀",
    "1",
    "1a",
    "!\n",
    "'s",
    "<tool",
    "<sentinel:1",
    "\u{a0}x",
    "Ab漢1 ,\n",
];

/// Encodes as much of each unit and checks that none takes long.
fn run(name: &str, tokenizer: &Tokenizer) {
    let options = EncodeOptions {
        parse_special: true,
        ..EncodeOptions::default()
    };
    let mut slowest = (Duration::ZERO, "");
    for unit in UNITS {
        let text = unit.repeat(SIZE / unit.len());
        let start = Instant::now();
        let ids = tokenizer.encode(&text, options);
        let took = start.elapsed();
        assert!(took < LIMIT, "{name} took {took:?} for {unit:?}");
        assert!(ids.len() <= 4 * text.len());
        slowest = slowest.max((took, unit));
    }
    eprintln!("{name}: slowest {:?} for {:?}", slowest.0, slowest.1);
}

#[test]
fn a_long_text_goes_through_every_pattern() {
    // One name of each pattern; the others share them.
    for name in [
        "default",
        "gpt-2",
        "falcon",
        "starcoder",
        "llama-bpe",
        "jais-2",
        "minicpm5",
        "qwen2",
        "qwen35",
        "ufakzeka",
        "laguna",
        "seed-coder",
        "exaone-moe",
        "gpt-4o",
        "tiny_aya",
        "tekken",
        "kimi-k2",
        "youtu",
        "deepseek-llm",
        "deepseek-coder",
        "deepseek-v3",
        "spark2_5",
        "afmoe",
        "bloom",
        "viking",
        "chameleon",
        "superbpe",
    ] {
        let mut vocab = vocab("bytes.gguf");
        vocab.pre = PreTokenizer::by_name(name).expect("a known name");
        // Only the cutting is at stake here.
        vocab.merges.clear();
        run(
            name,
            &Tokenizer::from_vocab(vocab).expect("a good vocabulary"),
        );
    }
}

#[test]
fn a_long_text_goes_through_every_algorithm() {
    for name in [
        "bytes",
        "gemma",
        "spm",
        "spm_bare",
        "spm_unk",
        "unigram",
        "unigram_bytes",
        "wordpiece",
        "rwkv",
    ] {
        run(
            name,
            &Tokenizer::from_vocab(vocab(&format!("{name}.gguf"))).expect("a good vocabulary"),
        );
    }
}

/// Tokens that are every power of two of a letter, so that merging goes on through all levels of a giant word.
#[test]
fn a_giant_word_merges_to_the_top() {
    let mut tokens = TokenTable::default();
    for level in 0..10 {
        tokens
            .push(&"a".repeat(1 << level), TokenKind::Normal, -(level as f32))
            .expect("room");
    }
    let spm = Vocab {
        space_prefix: false,
        ..Vocab::new(ModelKind::Spm, tokens)
    };
    let mut bpe = Vocab {
        model: ModelKind::Bpe,
        pre: PreTokenizer::by_name("superbpe").expect("a known name"),
        ..spm.clone()
    };
    for level in 0..9 {
        let half = "a".repeat(1 << level);
        bpe.push_merge(&half, &half);
    }
    for vocab in [spm, bpe] {
        let tokenizer = Tokenizer::from_vocab(vocab).expect("a good vocabulary");
        let start = Instant::now();
        let ids = tokenizer.encode(&"a".repeat(1 << 20), EncodeOptions::default());
        assert!(ids.iter().all(|id| *id == 9) && ids.len() == 1 << 11);
        assert!(start.elapsed() < LIMIT);
    }
}

#[test]
fn a_large_vocabulary_loads_at_once() {
    let start = Instant::now();
    let mut tokens = TokenTable::with_capacity(256_000);
    for id in 0..256_000 {
        tokens
            .push(&format!("token{id:x}"), TokenKind::Normal, -(id as f32))
            .expect("room");
    }
    for model in [
        ModelKind::Spm,
        ModelKind::Unigram,
        ModelKind::WordPiece,
        ModelKind::Rwkv,
    ] {
        let loaded =
            Tokenizer::from_vocab(Vocab::new(model, tokens.clone())).expect("a good vocabulary");
        assert_eq!(loaded.vocab_size(), 256_000);
    }
    assert!(start.elapsed() < LIMIT, "{:?}", start.elapsed());
    eprintln!("five tables of 256,000 tokens in {:?}", start.elapsed());
}
