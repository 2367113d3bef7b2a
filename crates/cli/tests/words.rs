//! What is in a file: metadata, tokens, templates; and files of our own making.

use crate::program::{Scratch, scratch, strata, strata_reading};
use serde_json::Value;
use std::path::Path;
use strata_weights::Gguf;

#[test]
fn inspect_lists_the_architectures() {
    let text = strata(&["inspect", "--architectures"]).text();
    let line = |name: &str| {
        let mut lines = text.lines();
        let line = lines.find(|line| line.trim_start().starts_with(name));
        line.unwrap_or_else(|| panic!("no {name} in {text}"))
            .to_owned()
    };
    assert!(line("gpt-oss ").contains("transformers, GptOss"));
    assert!(line("bert ").contains("transformers"));
    assert!(line("mamba ").contains("transformers, Mamba"));
    assert!(line("plamo2 ").contains("state spaces"));
    assert!(!text.contains('|'), "{text}");
}

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
fn a_storys_opening_goes_on_as_a_story() {
    let render = |messages: Value, tools: Value| {
        let input = serde_json::json!({
            "messages": messages, "tools": tools, "add_generation_prompt": true,
        });
        strata_reading(&["template", "tale", "--input", "-"], &input.to_string()).text()
    };
    let user = |text: &str| serde_json::json!([{"role": "user", "content": text}]);
    let none = serde_json::json!([]);
    for opening in [
        "Once upon a time",
        "one day, a fox went to the river.",
        "There was a king who ",
    ] {
        let text = render(user(opening), none.clone());
        let end = format!("<|im_start|>assistant\n{}", opening.trim());
        assert!(text.ends_with(&end), "{text}");
    }
    for request in [
        "Tell me a story.",
        "There was a fox, but what did it eat?",
        "Onceler",
    ] {
        let text = render(user(request), none.clone());
        let end = format!("{request}<|im_end|>\n<|im_start|>assistant\n");
        assert!(text.ends_with(&end), "{text}");
    }
    // A conversation that goes on, or one with functions, is a conversation.
    let longer = serde_json::json!([
        {"role": "user", "content": "Once upon a time"},
        {"role": "assistant", "content": "there was a fox."},
        {"role": "user", "content": "One day it slept."},
    ]);
    assert!(render(longer, none).ends_with("<|im_start|>assistant\n"));
    let tool =
        serde_json::json!([{"type": "function", "function": {"name": "f", "parameters": {}}}]);
    let text = render(user("Once upon a time"), tool);
    assert!(text.ends_with("<|im_start|>assistant\n"), "{text}");

    let opening = "Once upon a time there was a little fox";
    let flags = ["--temp", "0", "-n", "24", "-t", "1"];
    let told = strata(&[&["run", "tale", opening], &flags[..]].concat()).text();
    let raw = render(user(opening), serde_json::json!([]));
    let raw = strata(&[&["run", "tale", "--raw", &raw], &flags[..]].concat()).text();
    assert_eq!(told, raw);
    assert!(
        told.starts_with([' ', ',', '.']),
        "the sentence goes on: {told}"
    );
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
