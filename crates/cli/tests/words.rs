//! What is in a file: metadata, tokens, templates; and files of our own making.

mod program;

use program::{Scratch, scratch, strata, strata_reading};
use serde_json::Value;
use std::path::Path;
use strata_weights::Gguf;

#[test]
fn inspect_shows_everything() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../models/tale/tale-q4_k_m.gguf");
    let bytes = std::fs::read(path).unwrap();
    let gguf = Gguf::parse(&bytes).unwrap();
    let json: Value = serde_json::from_str(&strata(&["inspect", "tale", "--json"]).text()).unwrap();
    let metadata = json["metadata"].as_object().unwrap();
    assert_eq!(metadata.len(), gguf.metadata().len());
    assert!(
        gguf.metadata()
            .iter()
            .all(|(key, _)| metadata.contains_key(key))
    );
    assert_eq!(
        metadata["tokenizer.ggml.tokens"].as_array().unwrap().len(),
        8192
    );
    let tensors = json["tensors"].as_array().unwrap();
    assert_eq!(tensors.len(), gguf.tensors().len());
    for (shown, tensor) in tensors.iter().zip(gguf.tensors()) {
        assert_eq!(shown["name"], tensor.name);
        let dims: Vec<u64> = shown["dims"]
            .as_array()
            .unwrap()
            .iter()
            .map(|d| d.as_u64().unwrap())
            .collect();
        assert_eq!(dims, tensor.dims.to_vec());
    }
    let text = strata(&["inspect", "tale"]).text();
    for words in [
        "general.architecture",
        "\"llama\"",
        "token_embd.weight",
        "29.4 million",
    ] {
        assert!(text.contains(words), "{words}");
    }
}

#[test]
fn text_survives_its_tokens() {
    for text in [
        "Once upon a time",
        "  two  spaces\n\n\tand a tab",
        "naïve 漢字 🦙",
        "<|im_start|>",
    ] {
        for special in [&[][..], &["--no-special"]] {
            let encode = [&["tokenize", "tale", "--json", text], special].concat();
            let ids = strata(&encode).text();
            let read = strata_reading(&["detokenize", "tale"], &ids).text();
            assert_eq!(read, format!("{text}\n"));
            let plain = ids.split(',').count() > 1;
            assert_eq!(
                plain,
                text != "<|im_start|>" || !special.is_empty(),
                "{ids}"
            );
        }
    }
}

#[test]
fn a_template_is_rendered() {
    let input = r#"{"messages": [{"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello"}], "add_generation_prompt": true}"#;
    let text = strata_reading(&["template", "tale", "--input", "-"], input).text();
    let expected = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n\
                    <|im_start|>assistant\n";
    assert_eq!(text, expected);
}

#[test]
fn the_same_seed_makes_the_same_model() {
    for mix in [
        "f32", "f16", "bf16", "q8_0", "q4_0", "q4_k_m", "q5_k_m", "q6_k",
    ] {
        let synth = |seed: &str| {
            let file = Scratch(scratch(&format!("synth-{mix}-{seed}")));
            strata(&["synth", file.path(), "--mix", mix, "--seed", seed]).text();
            let answer = ["run", file.path(), "--temp", "0", "-n", "4", "x"];
            (std::fs::read(&file.0).unwrap(), strata(&answer).text())
        };
        let (one, again, two) = (synth("1"), synth("1"), synth("2"));
        assert!(one == again, "{mix}");
        assert_ne!(one.0, two.0, "{mix}");
    }
}
