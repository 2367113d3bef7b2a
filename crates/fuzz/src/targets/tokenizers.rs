//! Vocabularies in each of their files, and the texts that they encode.

use crate::outcome::magnitude;
use crate::{Outcome, Target};
use strata_tokenizer::vocabulary::{Files, Vocabulary};
use strata_tokenizer::{DecodeOptions, EncodeOptions, Tokenizer};
use strata_weights::Gguf;
use strata_weights::gguf::Builder;

/// How much of the end of an input is encoded as a text.
const TEXT: usize = 512;

pub(super) const TOKENIZER: Target = Target {
    more_seeds: &[("crates/tokenizer/tests/vectors", ".gguf")],
    words: &[
        "tokenizer.ggml.model",
        "tokenizer.ggml.tokens",
        "tokenizer.ggml.scores",
        "tokenizer.ggml.merges",
        "tokenizer.ggml.token_type",
        "tokenizer.ggml.pre",
        "gpt2",
        "llama",
        "bert",
        "t5",
        "rwkv",
        "<0x0A>",
        "▁",
        "Ġ",
        "<|im_end|>",
        "</s>",
        "\u{fffd}",
        "e\u{301}",
    ],
    ..Target::new(
        "tokenizer",
        "a vocabulary in GGUF and a text to the tokenizers: the text is encoded and decoded",
        tokenizer,
    )
};

pub(super) const TOKENIZER_JSON: Target = Target {
    more_seeds: &[("crates/tokenizer/tests/published", ".json")],
    words: &[
        "\"model\"",
        "\"vocab\"",
        "\"merges\"",
        "\"added_tokens\"",
        "\"pre_tokenizer\"",
        "\"normalizer\"",
        "\"decoder\"",
        "\"type\"",
        "\"BPE\"",
        "\"Unigram\"",
        "\"WordPiece\"",
        "\"ByteLevel\"",
        "\"Split\"",
        "\"pattern\"",
        "\"Regex\"",
        "\"special\"",
        "\"id\"",
        "\"content\"",
        "null",
        "true",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
    ],
    ..Target::new(
        "tokenizer_json",
        "tokenizer.json, and the configs beside it; what they give is written and loaded",
        tokenizer_json,
    )
};

pub(super) const SENTENCEPIECE: Target = Target {
    more_seeds: &[("crates/tokenizer/tests/published", ".model")],
    words: &[
        "\n", "\u{12}", "\u{8}", "▁", "<unk>", "<s>", "<0x00>", "\u{15}", "\u{1a}",
    ],
    ..Target::new(
        "sentencepiece",
        "tokenizer.model; what it gives is written and loaded",
        sentencepiece,
    )
};

fn tokenizer(bytes: &[u8]) -> Outcome {
    let gguf = match Gguf::parse(bytes) {
        Ok(gguf) => gguf,
        Err(error) => return Outcome::refused(&error),
    };
    match Tokenizer::from_gguf(gguf.metadata()) {
        Ok(tokenizer) => encode(&tokenizer, bytes),
        Err(error) => Outcome::refused(&error),
    }
}

/// Encodes and decodes the input itself, as far as it is a text.
fn encode(tokenizer: &Tokenizer, bytes: &[u8]) -> Outcome {
    let tail = &bytes[bytes.len().saturating_sub(TEXT)..];
    let text = String::from_utf8_lossy(tail) + " Héllo  wörld 12 🦙\r\n</s>";
    let mut count = 0;
    for special in [false, true] {
        let options = EncodeOptions {
            add_special: special,
            parse_special: special,
        };
        let ids = tokenizer.encode(&text, options);
        assert!(ids.iter().all(|&id| (id as usize) < tokenizer.vocab_size()));
        let options = DecodeOptions {
            show_special: special,
        };
        tokenizer.decode(&ids, options);
        let mut stream = tokenizer.stream(options);
        for &id in &ids {
            stream.push(id);
        }
        stream.finish();
        count += ids.len();
    }
    Outcome::taken((magnitude(count), magnitude(tokenizer.vocab_size())))
}

fn tokenizer_json(bytes: &[u8]) -> Outcome {
    vocabulary(
        &Files {
            tokenizer_json: Some(bytes),
            tokenizer_config: Some(bytes),
            generation_config: Some(bytes),
            config: Some(bytes),
            ..Files::default()
        },
        bytes,
    )
}

fn sentencepiece(bytes: &[u8]) -> Outcome {
    vocabulary(
        &Files {
            sentencepiece: Some(bytes),
            ..Files::default()
        },
        bytes,
    )
}

fn vocabulary(files: &Files<'_>, bytes: &[u8]) -> Outcome {
    let vocabulary = match Vocabulary::read(files) {
        Ok(Some(vocabulary)) => vocabulary,
        Ok(None) => return Outcome::ignored(),
        Err(error) => return Outcome::refused(&error),
    };
    let mut builder = Builder::new();
    vocabulary
        .write(&mut builder)
        .expect("keys that are set once");
    let header = builder.finish().expect("a header").header;
    let gguf = Gguf::parse(&header).expect("a header that was just written");
    match Tokenizer::from_gguf(gguf.metadata()) {
        Ok(tokenizer) => encode(&tokenizer, bytes),
        Err(error) => Outcome::refused(&error),
    }
}
