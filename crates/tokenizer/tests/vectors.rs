//! Vocabularies made for the purpose, with the ids that Hugging Face `tokenizers` and SentencePiece give for tricky
//! texts. `tools/token_vectors.py vectors` makes them.

use std::path::{Path, PathBuf};

use strata_tokenizer::{EncodeOptions, PreTokenizer, Tokenizer, Vocab};
use strata_weights::Gguf;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).expect("a committed vector")
}

fn vocab(name: &str) -> Vocab {
    let bytes = std::fs::read(folder().join(name)).expect("a committed vocabulary");
    let gguf = Gguf::parse(&bytes).expect("a good GGUF file");
    Vocab::from_gguf(gguf.metadata()).expect("a good vocabulary")
}

fn ids(line: &str) -> Vec<u32> {
    let numbers = line.split_whitespace();
    numbers.map(|id| id.parse().expect("an id")).collect()
}

/// Lines of a text as JSON, a tab, and its ids.
fn cases(name: &str) -> Vec<(String, Vec<u32>)> {
    let case = |line: &str| {
        let (text, numbers) = line.split_once('\t').expect("a tab");
        (
            serde_json::from_str(text).expect("a JSON string"),
            ids(numbers),
        )
    };
    read(name).lines().map(case).collect()
}

/// Compares all cases of a vocabulary, so that a failure shows every text it concerns.
fn check(
    name: &str,
    tokenizer: &Tokenizer,
    options: EncodeOptions,
    cases: &[(String, Vec<u32>)],
) -> usize {
    let mut wrong = 0;
    for (text, expected) in cases {
        let got = tokenizer.encode(text, options);
        if got != *expected {
            wrong += 1;
            let spell = |ids: &[u32]| {
                ids.iter()
                    .map(|id| tokenizer.token_text(*id).unwrap_or("?"))
                    .collect::<Vec<_>>()
                    .join("·")
            };
            eprintln!(
                "{name} {text:?}\n  expected {}\n  got      {}",
                spell(expected),
                spell(&got)
            );
        }
    }
    wrong
}

#[test]
fn every_pattern_splits_as_published() {
    let texts: Vec<String> = serde_json::from_str(&read("texts.json")).expect("a JSON array");
    let recorded = read("bytes.ids");
    let mut lines = recorded.lines();
    let (mut wrong, mut families) = (0, 0);
    while let Some(family) = lines.next() {
        let mut vocab = vocab("bytes.gguf");
        vocab.pre = PreTokenizer::by_name(family).expect("a known pattern");
        let tokenizer = Tokenizer::from_vocab(vocab).expect("a good vocabulary");
        let expected: Vec<_> = texts
            .iter()
            .map(|text| (text.clone(), ids(lines.next().expect("ids"))))
            .collect();
        wrong += check(family, &tokenizer, EncodeOptions::default(), &expected);
        families += 1;
        for (text, ids) in &expected {
            assert_eq!(tokenizer.decode(ids, Default::default()), *text, "{family}");
        }
    }
    assert_eq!((wrong, families), (0, 29));
}

#[test]
fn other_models_encode_to_the_recorded_ids() {
    let mut wrong = 0;
    for name in [
        "gemma",
        "spm",
        "spm_bare",
        "spm_unk",
        "unigram",
        "unigram_bytes",
        "wordpiece",
        "wordpiece_cased",
        "rwkv",
    ] {
        let tokenizer =
            Tokenizer::from_vocab(vocab(&format!("{name}.gguf"))).expect("a good vocabulary");
        wrong += check(
            name,
            &tokenizer,
            EncodeOptions::default(),
            &cases(&format!("{name}.ids")),
        );
    }
    assert_eq!(wrong, 0);
}

#[test]
fn special_tokens_are_found_when_asked_for() {
    let tokenizer = Tokenizer::from_vocab(vocab("bytes.gguf")).expect("a good vocabulary");
    for (parse_special, name) in [(true, "special_on.ids"), (false, "special_off.ids")] {
        let options = EncodeOptions {
            parse_special,
            ..EncodeOptions::default()
        };
        assert_eq!(check(name, &tokenizer, options, &cases(name)), 0);
    }
}

#[test]
fn lossless_vocabularies_give_the_text_back() {
    for name in ["gemma", "spm", "spm_bare", "rwkv"] {
        let tokenizer =
            Tokenizer::from_vocab(vocab(&format!("{name}.gguf"))).expect("a good vocabulary");
        for (text, ids) in cases(&format!("{name}.ids")) {
            assert_eq!(tokenizer.decode(&ids, Default::default()), text, "{name}");
        }
    }
}
