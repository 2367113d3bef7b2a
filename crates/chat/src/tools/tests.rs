//! Families are told apart by their templates, and their calls are read as published models write them.

use super::CallFormat;
use super::block::Block;
use alloc::string::ToString;
use alloc::vec::Vec;

fn read(block: Block, text: &str) -> Option<Vec<(alloc::string::String, alloc::string::String)>> {
    let calls = block.read(text)?;
    Some(
        calls
            .into_iter()
            .map(|(name, args)| (name, args.text()))
            .collect(),
    )
}

fn one(name: &str, arguments: &str) -> Option<Vec<(alloc::string::String, alloc::string::String)>> {
    Some([(name.to_string(), arguments.to_string())].into())
}

#[test]
fn json_blocks_know_each_familys_words() {
    for text in [
        r#"{"name": "f", "arguments": {"a": 1}}"#,
        r#" {"name":"f","parameters":{"a":1}} "#,
        r#"[{"tool_call_id":"0","tool_name":"f","parameters":{"a":1}}]"#,
        r#"{"type":"function","function":{"name":"f","arguments":"{\"a\": 1}"}}"#,
        r#"{"tool_calls":[{"name":"f","arguments":{"a":1}}]}"#,
    ] {
        assert_eq!(read(Block::Json, text), one("f", r#"{"a":1}"#), "{text}");
    }
    let two = read(
        Block::Json,
        "{\"name\":\"f\",\"arguments\":{}}; {\"name\":\"g\"}",
    )
    .unwrap();
    assert_eq!(two.len(), 2);
    for text in [
        "",
        "{",
        "[]",
        "{}",
        "[1]",
        r#"{"name":3}"#,
        r#"{"name":"f","arguments":[1]}"#,
    ] {
        assert_eq!(read(Block::Json, text), None, "{text}");
    }
}

#[test]
fn other_blocks_are_read() {
    assert_eq!(
        read(
            Block::NameThenJson("[ARGS]"),
            "f[CALL_ID]abc[ARGS]{\"a\":1}"
        ),
        one("f", r#"{"a":1}"#)
    );
    assert_eq!(
        read(Block::NameThenJson(">"), "f>{\"a\":1}"),
        one("f", r#"{"a":1}"#)
    );
    assert_eq!(
        read(
            Block::Parameters,
            "\n<function=f>\n<parameter=a>\n1\n</parameter>\n<parameter=b>\ntwo words\n</parameter>\n</function>\n"
        ),
        one("f", r#"{"a":1,"b":"two words"}"#)
    );
    assert_eq!(
        read(
            Block::KeysAndValues,
            "f\n<arg_key>a</arg_key>\n<arg_value>x y</arg_value>\n"
        ),
        one("f", r#"{"a":"x y"}"#)
    );
    let deep =
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\":1}\n```<｜tool▁call▁end｜>";
    assert_eq!(read(Block::DeepSeek, deep), one("f", r#"{"a":1}"#));
    let newer = "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\":1}<｜tool▁call▁end｜>";
    assert_eq!(read(Block::DeepSeek, newer), one("f", r#"{"a":1}"#));
    let kimi =
        "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\":1}<|tool_call_end|>";
    assert_eq!(read(Block::Kimi, kimi), one("f", r#"{"a":1}"#));
}

/// The published templates, where they are at hand.
#[test]
fn published_templates_are_recognised() {
    let Ok(folder) = std::env::var("STRATA_FIXTURES") else {
        std::eprintln!("skipped: STRATA_FIXTURES is not set");
        return;
    };
    for (name, format) in [
        ("Qwen-Qwen2.5-7B-Instruct", CallFormat::Hermes),
        (
            "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use",
            CallFormat::Hermes,
        ),
        ("Qwen3-Coder", CallFormat::QwenCoder),
        ("GLM-4.6", CallFormat::Glm),
        ("ByteDance-Seed-OSS", CallFormat::Seed),
        ("meta-llama-Llama-3.1-8B-Instruct", CallFormat::Llama3),
        ("meta-llama-Llama-3.2-3B-Instruct", CallFormat::Llama3),
        ("Mistral-Small-3.2-24B-Instruct-2506", CallFormat::Mistral),
        (
            "deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
            CallFormat::DeepSeek,
        ),
        ("deepseek-ai-DeepSeek-V3.1", CallFormat::DeepSeek),
        ("meetkai-functionary-medium-v3.1", CallFormat::Functionary31),
        (
            "fireworks-ai-llama-3-firefunction-v2",
            CallFormat::FireFunction,
        ),
        ("NVIDIA-Nemotron-Nano-v2", CallFormat::Nemotron),
        (
            "CohereForAI-c4ai-command-r7b-12-2024-tool_use",
            CallFormat::Command,
        ),
        ("Kimi-K2-Instruct", CallFormat::Kimi),
        ("LFM2-8B-A1B", CallFormat::Lfm2),
        ("google-gemma-4-31B-it", CallFormat::Gemma4),
        ("MiniMax-M1", CallFormat::MiniMax),
        ("Apertus-8B-Instruct", CallFormat::Apertus),
        ("ibm-granite-granite-4.0", CallFormat::Hermes),
        ("microsoft-Phi-3.5-mini-instruct", CallFormat::Generic),
    ] {
        let path = std::format!("{folder}/templates/{name}.jinja");
        let template = std::fs::read_to_string(&path).expect(&path);
        assert_eq!(CallFormat::of_template(&template), format, "{name}");
    }
}
