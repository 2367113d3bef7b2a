//! Families are told apart by their templates, and their calls are read as published models write them.

use super::CallFormat;
use super::block::Block;
use super::schemas::ArgumentSchemas;
use alloc::string::ToString;
use alloc::vec::Vec;

fn read(block: Block, text: &str) -> Option<Vec<(alloc::string::String, alloc::string::String)>> {
    let calls = block.read(text, &ArgumentSchemas::default())?;
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
            Block::KeysAndValues(""),
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

#[test]
fn templates_that_are_not_at_hand_are_recognised() {
    for (template, format) in [
        (
            "{%- set toolcall_begin_token = '<minimax:tool_call>' -%}",
            CallFormat::MiniMaxM2,
        ),
        (
            "within <function_calls></function_calls> XML tags",
            CallFormat::Olmo3,
        ),
        (
            "{{- '<|header_start|>assistant' }}{{- '\"parameters\": ' }}",
            CallFormat::Llama3,
        ),
        ("<|channel|>commentary to=functions.", CallFormat::Harmony),
        (
            "{% for m in messages %}{{ m.content }}{% endfor %}",
            CallFormat::Generic,
        ),
    ] {
        assert_eq!(CallFormat::of_template(template), format, "{template}");
    }
}
