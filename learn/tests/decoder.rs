//! The decoder against Hugging Face transformers, and on the built-in model.

use strata_learn::decoder::{Decoder, DecoderError};
use strata_weights::Gguf;

use crate::{repository, tale};

/// Transformers' logits of a golden case: (positions, n_vocab).
struct Golden {
    file: Vec<u8>,
    tokens: Vec<u32>,
    logits: Vec<f32>,
}

fn golden(case: &str) -> Golden {
    let folder = repository().join("crates/model/tests/golden");
    let file =
        std::fs::read(folder.join(format!("{case}.gguf"))).expect("the golden file is there");
    let json =
        std::fs::read(folder.join(format!("{case}.json"))).expect("the golden logits are there");
    let json: serde_json::Value =
        serde_json::from_slice(&json).expect("the golden logits are JSON");
    let tokens = json["tokens"].as_array().expect("tokens");
    let base64 = json["logits_f32_le_base64"].as_str().expect("logits");
    let bytes = decode_base64(base64);
    Golden {
        file,
        tokens: tokens
            .iter()
            .map(|token| token.as_u64().expect("a token") as u32)
            .collect(),
        logits: bytes
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect(),
    }
}

fn decode_base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = Vec::new();
    let (mut bits, mut held) = (0u32, 0);
    for byte in text.bytes().filter(|&byte| byte != b'=') {
        let digit = DIGITS
            .iter()
            .position(|&digit| digit == byte)
            .expect("a base64 digit");
        bits = bits << 6 | digit as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
        }
    }
    out
}

fn largest_difference(case: &str) -> f32 {
    let golden = golden(case);
    let gguf = Gguf::parse(&golden.file).expect("a valid file");
    let mut decoder = Decoder::from_gguf(&gguf).expect("a supported model");
    let n_vocab = decoder.config().n_vocab;
    assert_eq!(golden.logits.len(), golden.tokens.len() * n_vocab);
    let mut largest = 0.0f32;
    for (position, &token) in golden.tokens.iter().enumerate() {
        let logits = decoder.forward(token, position);
        for (ours, theirs) in logits.iter().zip(&golden.logits[position * n_vocab..]) {
            largest = largest.max((ours - theirs).abs());
        }
    }
    largest
}

#[test]
fn agrees_with_transformers() {
    for case in ["llama", "llama-llama3-rope", "llama-linear"] {
        let difference = largest_difference(case);
        eprintln!("{case}: {difference:.1e}");
        assert!(difference <= 1e-4, "{case} differs by {difference}");
    }
}

#[test]
fn refuses_what_it_would_get_wrong() {
    let refusal = |case: &str| {
        let golden = golden(case);
        let gguf = Gguf::parse(&golden.file).expect("a valid file");
        Decoder::from_gguf(&gguf).expect_err("a refusal")
    };
    assert_eq!(refusal("qwen3"), DecoderError::Architecture("qwen3".into()));
    assert_eq!(
        refusal("llama-bias"),
        DecoderError::SurplusTensor("blk.0.attn_k.bias".into())
    );
    assert_eq!(
        refusal("llama-yarn"),
        DecoderError::Unsupported("llama.rope.scaling.type")
    );
    assert_eq!(
        refusal("mixtral"),
        DecoderError::Unsupported("llama.expert_count")
    );
    assert_eq!(
        refusal("mistral-window"),
        DecoderError::Unsupported("llama.attention.sliding_window")
    );
}

/// The golden `llama` file with another number under a key.
fn altered(key: &str, value: u32) -> Vec<u8> {
    let mut file = golden("llama").file;
    let at = file
        .windows(key.len())
        .position(|window| window == key.as_bytes())
        .expect("the key is there");
    let value_at = at + key.len() + size_of::<u32>();
    file[value_at..][..4].copy_from_slice(&value.to_le_bytes());
    file
}

#[test]
fn names_the_tensor_or_key_that_is_wrong() {
    let cases = [
        (
            "llama.feed_forward_length",
            41,
            "tensor blk.0.ffn_gate.weight has the shape [32, 40] instead of [32, 41]",
        ),
        (
            "llama.block_count",
            4_000_000_000,
            "tensor blk.2.attn_norm.weight is missing",
        ),
        (
            "llama.attention.head_count_kv",
            3,
            "the value of llama.attention.head_count_kv is not one that this decoder can run",
        ),
        (
            "llama.attention.key_length",
            0,
            "the value of llama.attention.key_length is not one that this decoder can run",
        ),
    ];
    for (key, value, message) in cases {
        let file = altered(key, value);
        let gguf = Gguf::parse(&file).expect("a valid file");
        let error = Decoder::from_gguf(&gguf).expect_err("a refusal");
        assert_eq!(error.to_string(), message);
    }
}

#[test]
fn an_earlier_position_can_be_fed_again() {
    let golden = golden("llama");
    let gguf = Gguf::parse(&golden.file).expect("a valid file");
    let mut decoder = Decoder::from_gguf(&gguf).expect("a supported model");
    decoder.forward(5, 0);
    let straight = decoder.forward(6, 1).to_vec();
    decoder.forward(9, 1);
    decoder.forward(9, 2);
    decoder.forward(5, 0);
    assert_eq!(decoder.forward(6, 1), straight);
}

/// The text that the model was trained on goes on in English; a wrong turn of one pair makes noise of it.
#[test]
fn the_built_in_model_expects_english() {
    use strata_tokenizer::{EncodeOptions, Tokenizer};

    let Some(file) = tale() else { return };
    let gguf = Gguf::parse(&file).expect("a valid file");
    let tokenizer = Tokenizer::from_gguf(gguf.metadata()).expect("a tokenizer");
    let mut decoder = Decoder::from_gguf(&gguf).expect("a supported model");
    let text = "Once upon a time, there was a little girl named Lily. She loved to play outside in the park.";
    let tokens = tokenizer.encode(text, EncodeOptions::default());
    let mut loss = 0.0;
    for (position, pair) in tokens.windows(2).enumerate() {
        let logits = decoder.forward(pair[0], position);
        let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let sum: f32 = logits.iter().map(|logit| (logit - max).exp()).sum();
        loss += max + sum.ln() - logits[pair[1] as usize];
    }
    let perplexity = (loss / (tokens.len() - 1) as f32).exp();
    eprintln!("perplexity {perplexity:.2} over {} tokens", tokens.len());
    assert!(perplexity < 20.0, "perplexity {perplexity}");
}
