//! Vocabularies as Hugging Face and SentencePiece publish them, with the ids that those libraries give.
//! `tools/vocabulary_vectors.py` makes them.

use std::path::Path;
use std::time::{Duration, Instant};

use strata_tokenizer::vocabulary::{Files, Vocabulary, VocabularyError};
use strata_tokenizer::{EncodeOptions, Tokenizer};
use strata_weights::Gguf;
use strata_weights::gguf::Builder;

const SPECIAL: EncodeOptions = EncodeOptions {
    add_special: true,
    parse_special: true,
};

fn read(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/published");
    std::fs::read(folder.join(name)).expect("a committed vocabulary")
}

fn header(files: &Files<'_>) -> Result<Vec<u8>, VocabularyError> {
    let vocabulary = Vocabulary::read(files)?.expect("a vocabulary");
    let mut builder = Builder::new();
    vocabulary
        .write(&mut builder)
        .expect("keys that are set once");
    Ok(builder.finish().expect("a small file").header)
}

fn tokenizer(files: &Files<'_>) -> Tokenizer {
    let header = header(files).expect("a good vocabulary");
    let gguf = Gguf::parse(&header).expect("a good header");
    Tokenizer::from_gguf(gguf.metadata()).expect("a good tokenizer")
}

fn check(name: &str, tokenizer: &Tokenizer) {
    let text = String::from_utf8(read(name)).expect("text");
    let (mut wrong, mut count) = (0, 0);
    for line in text.lines() {
        let (text, ids) = line.split_once('\t').expect("a tab");
        let text: String = serde_json::from_str(text).expect("a JSON string");
        let expected: Vec<u32> = ids
            .split_whitespace()
            .map(|id| id.parse().expect("an id"))
            .collect();
        let got = tokenizer.encode(&text, SPECIAL);
        count += 1;
        if got != expected {
            wrong += 1;
            eprintln!("{name} {text:?}\n  expected {expected:?}\n  got      {got:?}");
        }
    }
    assert!(count > 50, "only {count} texts");
    assert_eq!(wrong, 0, "of {count} texts");
}

#[test]
fn byte_level_bpe() {
    let json = read("qwen2.json");
    let files = Files {
        tokenizer_json: Some(&json),
        ..Files::default()
    };
    check("qwen2.ids", &tokenizer(&files));
}

#[test]
fn sentencepiece_bpe_from_either_file() {
    let (json, model) = (read("llama.json"), read("llama.model"));
    let from_json = Files {
        tokenizer_json: Some(&json),
        ..Files::default()
    };
    check("llama.ids", &tokenizer(&from_json));
    let from_model = Files {
        sentencepiece: Some(&model),
        tokenizer_config: Some(br#"{"bos_token": "<s>"}"#),
        ..Files::default()
    };
    check("llama.model.ids", &tokenizer(&from_model));
    let both = Files {
        tokenizer_json: Some(&json),
        ..from_model
    };
    check("llama.model.ids", &tokenizer(&both));
}

#[test]
fn sentencepiece_unigram() {
    let model = read("t5.model");
    let files = Files {
        sentencepiece: Some(&model),
        ..Files::default()
    };
    check("t5.model.ids", &tokenizer(&files));
}

#[test]
fn word_pieces() {
    let json = read("bert.json");
    let files = Files {
        tokenizer_json: Some(&json),
        tokenizer_config: Some(
            br#"{"cls_token": "[CLS]", "sep_token": {"content": "[SEP]"}, "unk_token": "[UNK]", "pad_token": "[PAD]"}"#,
        ),
        ..Files::default()
    };
    check("bert.ids", &tokenizer(&files));
}

#[test]
fn configs_give_roles_ends_templates_and_padding() {
    let json = read("qwen2.json");
    let files = Files {
        tokenizer_json: Some(&json),
        tokenizer_config: Some(
            br#"{"eos_token": {"content": "<|im_end|>"}, "add_bos_token": false,
                 "chat_template": [{"name": "default", "template": "A"}, {"name": "tool_use", "template": "B"}]}"#,
        ),
        generation_config: Some(br#"{"eos_token_id": [1400, 7, 9]}"#),
        config: Some(br#"{"vocab_size": 1500, "bos_token_id": 3, "pad_token_id": 99999}"#),
        ..Files::default()
    };
    let header = header(&files).expect("a good vocabulary");
    let gguf = Gguf::parse(&header).expect("a good header");
    let meta = gguf.metadata();
    assert_eq!(meta.str("tokenizer.chat_template"), Ok(Some("A")));
    assert_eq!(meta.str("tokenizer.chat_template.tool_use"), Ok(Some("B")));
    assert_eq!(meta.u32("tokenizer.ggml.bos_token_id"), Ok(Some(3)));
    assert_eq!(meta.u32("tokenizer.ggml.eot_token_id"), Ok(Some(7)));
    assert_eq!(meta.u32("tokenizer.ggml.padding_token_id"), Ok(None));
    assert_eq!(meta.bool("tokenizer.ggml.add_bos_token"), Ok(Some(false)));
    let tokenizer = Tokenizer::from_gguf(meta).expect("a good tokenizer");
    assert_eq!(tokenizer.vocab_size(), 1500);
    assert_eq!(tokenizer.token_text(1450), Some("[PAD1450]"));
    let own = Files {
        chat_template: Some(b"{{ own }}"),
        ..files
    };
    let own = Vocabulary::read(&own).expect("a good vocabulary");
    assert!(format!("{own:?}").contains("{{ own }}"));
    assert!(
        Vocabulary::read(&Files::default())
            .expect("no files")
            .is_none()
    );
}

#[test]
fn hostile_vocabularies_are_refused() {
    let json = |text: &str| {
        let files = Files {
            tokenizer_json: Some(text.as_bytes()),
            ..Files::default()
        };
        Vocabulary::read(&files).map(|_| ()).expect_err(text)
    };
    type E = VocabularyError;
    for bad in [
        "",
        "[]",
        "{",
        r#"{"model": 1}"#,
        r#"{"model":{"vocab":{"a":-1}}}"#,
    ] {
        assert!(matches!(json(bad), E::Json { .. }), "{bad}");
    }
    let far = r#"{"model":{"type":"Unigram","vocab":[["a",0]]},"added_tokens":[{"id":4294967295,"content":"x"}]}"#;
    assert!(matches!(json(far), E::TooManyTokens { .. }));
    let gap = r#"{"model":{"type":"WordPiece","vocab":{"a":4000000}}}"#;
    assert!(matches!(json(gap), E::TooManyTokens { .. }));
    let kind = r#"{"model":{"type":"WordLevel","vocab":{"a":0}}}"#;
    assert!(matches!(json(kind), E::Model { .. }));
    let pattern = r#"{"model":{"type":"BPE","vocab":{"a":0},"merges":[]},"pre_tokenizer":{"type":"Sequence","pretokenizers":[
        {"type":"Split","pattern":{"Regex":"(a+)+b"}},{"type":"ByteLevel","use_regex":false}]}}"#;
    assert!(json(pattern).to_string().contains("(a+)+b"));
    let merge = r#"{"model":{"type":"BPE","vocab":{"a":0},"merges":["ab"]}}"#;
    assert!(matches!(json(merge), E::Merge { .. }));
    for bad in [
        &b"\x0a\xff"[..],
        b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        b"\x07",
    ] {
        let files = Files {
            sentencepiece: Some(bad),
            ..Files::default()
        };
        let error = Vocabulary::read(&files)
            .map(|_| ())
            .expect_err("a bad model");
        assert!(matches!(error, E::Protobuf { .. }), "{error}");
    }
}

#[test]
fn mutants_end_in_an_error_or_a_vocabulary() {
    let seeds = [
        read("bert.json"),
        read("llama.json"),
        read("llama.model"),
        read("t5.model"),
    ];
    let mut state = 1u64;
    let mut random = move |n: usize| {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (state >> 33) as usize % n.max(1)
    };
    for number in 0..2_000 {
        let mut file = seeds[number % seeds.len()].clone();
        for _ in 0..1 + random(4) {
            let at = random(file.len());
            match random(4) {
                0 => file[at] ^= 1 << random(8),
                1 => file[at] = [0, 0xff, b'9', b'"', b'[', b'}', 0x80][random(7)],
                2 => file.truncate(at.max(1)),
                _ => drop(file.drain(at..(at + random(30)).min(file.len()))),
            }
            if file.is_empty() {
                file.push(b'{');
            }
        }
        let start = Instant::now();
        let model = number % 4 >= 2;
        let files = Files {
            tokenizer_json: (!model).then_some(&file),
            sentencepiece: model.then_some(&file),
            ..Files::default()
        };
        if let Ok(header) = header_or_none(&files) {
            let gguf = Gguf::parse(&header).expect("a header that was just written");
            let _ = Tokenizer::from_gguf(gguf.metadata());
        }
        assert!(start.elapsed() < Duration::from_secs(1), "mutant {number}");
    }
}

fn header_or_none(files: &Files<'_>) -> Result<Vec<u8>, VocabularyError> {
    match Vocabulary::read(files)? {
        None => Ok(Builder::new().finish().expect("an empty file").header),
        Some(_) => header(files),
    }
}
