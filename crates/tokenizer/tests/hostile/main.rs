//! Vocabularies that somebody broke, by accident or on purpose: a typed error or a tokenizer that works, never a panic.

mod mutants;

use std::path::Path;

use strata_tokenizer::{
    EncodeOptions, MAX_TOKENS, ModelKind, PreTokenizer, TokenKind, TokenTable, Tokenizer,
    TokenizerError, Vocab,
};
use strata_weights::gguf::Builder;
use strata_weights::{Gguf, Value};

const KEY: &str = "tokenizer.ggml.";

/// The file with what `fill` sets.
fn file(fill: impl FnOnce(&mut Builder)) -> Vec<u8> {
    let mut builder = Builder::new();
    fill(&mut builder);
    builder.finish().expect("a layout").header
}

fn load(bytes: &[u8]) -> Result<Tokenizer, TokenizerError> {
    let gguf = Gguf::parse(bytes).expect("a good GGUF file");
    Tokenizer::from_gguf(gguf.metadata())
}

fn set(builder: &mut Builder, key: &str, value: impl strata_weights::gguf::Element) {
    builder
        .set(&format!("{KEY}{key}"), value)
        .expect("a new key");
}

fn set_array<E: strata_weights::gguf::Element>(
    builder: &mut Builder,
    key: &str,
    elements: impl IntoIterator<Item = E>,
) {
    builder
        .set_array(&format!("{KEY}{key}"), elements)
        .expect("a new key");
}

/// Runs everything a user can call.
fn exercise(tokenizer: &Tokenizer) {
    for text in [
        "",
        " a b  <s></s>é漢😀\n\u{0}",
        "<0x41>aa▁aa",
        "'s 123 <|im_end|>",
    ] {
        for (add_special, parse_special) in [(false, false), (true, true)] {
            let ids = tokenizer.encode(
                text,
                EncodeOptions {
                    add_special,
                    parse_special,
                },
            );
            assert!(
                ids.iter().all(|id| (*id as usize) < tokenizer.vocab_size()),
                "{ids:?}"
            );
            tokenizer.decode(&ids, Default::default());
        }
    }
    let mut stream = tokenizer.stream(Default::default());
    for id in (0..tokenizer.vocab_size() as u32)
        .step_by(17)
        .chain([u32::MAX, u32::MAX - 1])
    {
        tokenizer.token_bytes(id);
        tokenizer.is_end_of_generation(id);
        stream.push(id);
    }
    stream.finish();
}

#[test]
fn what_is_missing_or_wrong_is_named() {
    let error = |fill: fn(&mut Builder)| load(&file(fill)).expect_err("an error");
    assert!(matches!(
        error(|_| {}),
        TokenizerError::Missing {
            key: "tokenizer.ggml.model"
        }
    ));
    assert!(matches!(
        error(|b| set(b, "model", "llama")),
        TokenizerError::Missing {
            key: "tokenizer.ggml.tokens"
        }
    ));
    let unknown = error(|b| {
        set(b, "model", "gpt5");
        set_array(b, "tokens", ["a"]);
    });
    assert_eq!(
        unknown,
        TokenizerError::UnknownModel {
            name: "gpt5".into()
        }
    );
    let unknown = error(|b| {
        set(b, "model", "gpt2");
        set(b, "pre", "llama-bpe-9");
        set_array(b, "tokens", ["a"]);
        set_array(b, "merges", ["a a"]);
    });
    assert_eq!(
        unknown.to_string(),
        "the pre-tokenizer \"llama-bpe-9\" is not known"
    );
    assert!(matches!(
        error(|b| {
            set(b, "model", "gpt2");
            set_array(b, "tokens", ["a"]);
        }),
        TokenizerError::Missing {
            key: "tokenizer.ggml.merges"
        }
    ));
    assert!(matches!(
        error(|b| {
            set(b, "model", "llama");
            set_array(b, "tokens", ["a", "b"]);
            set_array(b, "scores", [1.0_f32]);
        }),
        TokenizerError::Length {
            key: "tokenizer.ggml.scores",
            tokens: 2,
            found: 1
        }
    ));
    assert!(matches!(
        error(|b| {
            set(b, "model", "llama");
            set_array(b, "tokens", [1_u32]);
        }),
        TokenizerError::ElementType { .. }
    ));
    assert!(matches!(
        error(|b| {
            set(b, "model", "llama");
            set_array(b, "tokens", ["a"]);
            set_array(b, "token_type", ["normal"]);
        }),
        TokenizerError::ElementType { .. }
    ));
    assert!(matches!(
        error(|b| {
            set(b, "model", "llama");
            set_array(b, "tokens", ["a"]);
            set(b, "add_bos_token", "yes");
        }),
        TokenizerError::Metadata(_)
    ));
}

#[test]
fn what_would_change_answers_in_silence_is_refused() {
    let spm = |fill: &dyn Fn(&mut Builder)| {
        load(&file(|b| {
            set(b, "model", "llama");
            set_array(b, "tokens", ["<unk>", "<s>", "</s>", "<0x0A>", "a"]);
            set_array(b, "scores", [0.0_f32; 5]);
            fill(b);
        }))
    };
    let error = |fill: &dyn Fn(&mut Builder)| spm(fill).unwrap_err().to_string();
    for key in [
        "bos_token_id",
        "eos_token_id",
        "eot_token_id",
        "unknown_token_id",
    ] {
        let message = error(&|b| set(b, key, 5_u32));
        let expected = format!("tokenizer.ggml.{key} is 5, and there are only 5 tokens");
        assert_eq!(message, expected);
        // This is how files say that there is none.
        assert!(spm(&|b| set(b, key, -1_i32)).is_ok());
        assert!(spm(&|b| set(b, key, u32::MAX)).is_ok());
    }
    assert!(spm(&|b| set(b, "padding_token_id", 9_u32)).is_ok());
    assert_eq!(
        error(&|b| set_array(b, "token_type", [2, 3, 3, 6, 7])),
        "token 4 is of type 7, which is not known"
    );
    assert_eq!(
        error(&|b| set_array(b, "token_type", [2, 3, 3, 6, 6])),
        "token 4 is a byte, but its text is \"a\" and not of the form <0x0A>"
    );
    let encoder = load(&file(|b| {
        set(b, "model", "bert");
        set_array(b, "tokens", ["[CLS]", "[SEP]", "▁a"]);
        set(b, "seperator_token_id", 3_u32);
    }));
    let message = encoder.unwrap_err().to_string();
    assert!(message.contains("seperator_token_id is 3"), "{message}");
    let not_a_number = load(&file(|b| {
        set(b, "model", "t5");
        set_array(b, "tokens", ["a", "b"]);
        set_array(b, "scores", [0.0, f32::NAN]);
    }));
    let message = not_a_number.unwrap_err().to_string();
    assert_eq!(message, "the score of token 1 is not a number");
}

#[test]
fn an_absent_pre_tokenizer_is_the_default_one() {
    let loaded = load(&file(|b| {
        set(b, "model", "gpt2");
        set_array(b, "tokens", ["a", "b", "ab"]);
        set_array(b, "merges", ["a b"]);
    }));
    assert_eq!(
        loaded
            .expect("a tokenizer")
            .encode("ab", EncodeOptions::default()),
        [2]
    );
}

#[test]
fn odd_vocabularies_behave() {
    for model in [
        "llama",
        "gpt2",
        "bert",
        "t5",
        "rwkv",
        "gemma4",
        "whitespace",
    ] {
        let tokenizer = load(&file(|b| {
            set(b, "model", model);
            set(
                b,
                "pre",
                if model == "whitespace" {
                    "whitespace"
                } else {
                    "gpt-2"
                },
            );
            set_array(
                b,
                "tokens",
                ["", "a", "a", "aa", "", "</s>", "<0xZZ>", "▁", "\\x", "aaaa"],
            );
            set_array(
                b,
                "scores",
                [
                    f32::MIN,
                    f32::INFINITY,
                    -0.0,
                    f32::NEG_INFINITY,
                    1.0,
                    f32::MAX,
                    0.0,
                    1e-40,
                    -1.0,
                    -1e38,
                ],
            );
            set_array(b, "token_type", [0_i32, 1, 1, 0, 5, 3, 2, 1, 4, 4]);
            set_array(
                b,
                "merges",
                [
                    "", " ", "a", "a a", "a a", "aa aa", "x y", "a  ", "nope a", "a nope",
                ],
            );
            for role in [
                "bos",
                "eos",
                "unknown",
                "padding",
                "seperator",
                "cls",
                "mask",
            ] {
                set(b, &format!("{role}_token_id"), u32::MAX);
            }
        }))
        .expect(model);
        assert_eq!(tokenizer.special().bos.filter(|id| *id > 9), None);
        assert_eq!(tokenizer.token_id("a"), Some(1), "the first of equals");
        exercise(&tokenizer);
    }
    let empty = load(&file(|b| {
        set(b, "model", "llama");
        set_array(b, "tokens", [""; 0]);
    }));
    exercise(&empty.expect("an empty vocabulary"));
}

#[test]
fn control_tokens_never_come_out_of_plain_text() {
    // Merges and scores that would build the control token from its letters.
    let tokens = ["<", "s", ">", "<s", "<s>", "▁", "a"];
    for (model, pre) in [
        ("llama", ""),
        ("gpt2", "llama-bpe"),
        ("gemma4", ""),
        ("t5", ""),
        ("rwkv", ""),
    ] {
        let tokenizer = load(&file(|b| {
            set(b, "model", model);
            set(b, "pre", pre);
            set_array(b, "tokens", tokens);
            set_array(b, "scores", tokens.map(|token| token.len() as f32));
            set_array(b, "token_type", [1, 1, 1, 1, 3, 1, 1]);
            set_array(b, "merges", ["< s", "<s >"]);
        }))
        .expect(model);
        let plain = tokenizer.encode("a<s>a", EncodeOptions::default());
        assert!(!plain.contains(&4), "{model} {plain:?}");
        let parsed = tokenizer.encode(
            "a<s>a",
            EncodeOptions {
                parse_special: true,
                ..Default::default()
            },
        );
        assert!(parsed.contains(&4), "{model}");
    }
}

#[test]
fn hostile_character_maps_are_refused_or_bounded() {
    let with = |charsmap: Vec<u8>| {
        load(&file(|b| {
            set(b, "model", "t5");
            set_array(b, "tokens", ["<pad>", "</s>", "<unk>", "▁", "a", "▁a"]);
            set_array(b, "precompiled_charsmap", charsmap);
        }))
    };
    for broken in [
        vec![1],
        vec![9, 0, 0, 0, 0],
        vec![2, 0, 0, 0, 0, 0],
        vec![255; 64],
    ] {
        assert!(matches!(
            with(broken),
            Err(TokenizerError::CharsmapTable { .. })
        ));
    }
    // A replacement that does not end, and one that is absurdly long.
    for replacements in [b"abc".to_vec(), [vec![b'x'; 100_000], vec![0]].concat()] {
        let map = [vec![4, 0, 0, 0, 0, 0, 0, 0], replacements].concat();
        assert!(matches!(
            with(map),
            Err(TokenizerError::CharsmapReplacement { offset: 8, .. })
        ));
    }
    // Random tries: cycles, values out of range.
    let mut seed = 1_u64;
    for _ in 0..500 {
        let mut map = vec![0, 4, 0, 0];
        for _ in 0..256 {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let label = (seed >> 40) as u32 & 0xff;
            let unit = label | 1 << 8 | ((seed >> 33) as u32 & 0xff) << 10;
            map.extend(unit.to_le_bytes());
        }
        map.extend(b"x\0yy\0 \0\0\xff\xfe\0");
        let tokenizer = with(map).expect("a usable map");
        exercise(&tokenizer);
        let text: String = (0..2000_u32)
            .filter_map(|i| char::from_u32(i % 300))
            .collect();
        assert!(tokenizer.encode(&text, EncodeOptions::default()).len() <= 300 * text.len());
    }
}

#[test]
fn limits_hold() {
    let mut tokens = TokenTable::default();
    for id in 0..MAX_TOKENS {
        tokens
            .push("", TokenKind::Normal, 0.0)
            .unwrap_or_else(|error| panic!("{id}: {error}"));
    }
    assert!(matches!(
        tokens.push("a", TokenKind::Normal, 0.0),
        Err(TokenizerError::TooMany { .. })
    ));
    let mut tokens = TokenTable::default();
    tokens
        .push(&"a".repeat(100_000), TokenKind::Control, 0.0)
        .expect("room");
    let error = Tokenizer::from_vocab(Vocab::new(ModelKind::Spm, tokens))
        .expect_err("too long to look for");
    assert!(matches!(
        error,
        TokenizerError::TokenTooLong {
            id: 0,
            len: 100_000,
            ..
        }
    ));
}
