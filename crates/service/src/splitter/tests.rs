//! However a text is cut into pieces, the same thinking, text and calls come out of it.

use super::{Piece, SplitOptions, Splitter, ThinkingMarks};
use crate::tools::CallFormat;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

fn options(calls: Option<CallFormat>) -> SplitOptions {
    SplitOptions {
        thinking: ThinkingMarks::of_template("<think>"),
        begins_thinking: false,
        calls,
        tools: ["f".to_string(), "g".to_string()].into(),
    }
}

/// Thinking, text and calls, with neighbouring pieces joined.
fn split(options: &SplitOptions, text: &str, step: usize) -> (String, String, Vec<String>) {
    let mut splitter = Splitter::new(options.clone());
    let mut pieces = Vec::new();
    let chars: Vec<char> = text.chars().collect();
    for chunk in chars.chunks(step) {
        splitter.push(&chunk.iter().collect::<String>(), &mut pieces);
    }
    splitter.finish(&mut pieces);
    let (mut thinking, mut answer, mut calls) = (String::new(), String::new(), Vec::new());
    for piece in pieces {
        match piece {
            Piece::Thinking(text) => thinking.push_str(&text),
            Piece::Text(text) => answer.push_str(&text),
            Piece::Call((name, arguments)) => calls.push(std::format!("{name}{arguments}")),
            Piece::CallBegin(name) => calls.push(name),
            Piece::CallArguments(text) => calls.last_mut().unwrap().push_str(&text),
            Piece::CallEnd => {}
        }
    }
    (thinking, answer, calls)
}

fn check(options: &SplitOptions, text: &str, thinking: &str, answer: &str, calls: &[&str]) {
    for step in [1, 2, 3, 7, 1000] {
        let (t, a, c) = split(options, text, step);
        assert_eq!(
            (t.as_str(), a.as_str()),
            (thinking, answer),
            "{text:?} by {step}"
        );
        assert_eq!(c, calls, "{text:?} by {step}");
    }
}

#[test]
fn thinking_is_told_apart() {
    let plain = options(None);
    check(&plain, "<think>a < b</think>\n\nyes", "a < b", "yes", &[]);
    check(
        &plain,
        "no <think>thought</think>",
        "",
        "no <think>thought</think>",
        &[],
    );
    check(&plain, "<thinking", "", "<thinking", &[]);
    check(&plain, "<think>never ends", "never ends", "", &[]);
    let open = SplitOptions {
        begins_thinking: true,
        ..options(None)
    };
    check(&open, "so</think>é漢😀", "so", "é漢😀", &[]);
}

#[test]
fn text_without_tools_or_thinking_passes_unchanged() {
    check(
        &SplitOptions::default(),
        "  <tool_call> x\n",
        "",
        "  <tool_call> x\n",
        &[],
    );
}

#[test]
fn calls_are_found_between_text() {
    let hermes = options(Some(CallFormat::Hermes));
    let call = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": \"<b>\"}}\n</tool_call>";
    check(&hermes, call, "", "", &["f{\"a\": \"<b>\"}"]);
    let text = std::format!("<think>hm</think>Let me see.\n{call}\n{call}");
    let twice = ["f{\"a\": \"<b>\"}", "f{\"a\": \"<b>\"}"];
    check(&hermes, &text, "hm", "Let me see.", &twice);
    check(&hermes, "a <tool b", "", "a <tool b", &[]);
}

#[test]
fn what_cannot_be_read_is_text() {
    let hermes = options(Some(CallFormat::Hermes));
    for text in [
        "<tool_call>{\"name\": \"f\", </tool_call>",
        "<tool_call>{\"name\": \"unknown\", \"arguments\": {}}</tool_call>",
        "<tool_call>",
        "x <tool_call>{\"name\": \"f\"",
    ] {
        for step in [1, 3, 1000] {
            let (_, answer, calls) = split(&hermes, text, step);
            assert_eq!(calls.len(), 0, "{text}");
            assert_eq!(answer.replace(' ', ""), text.replace(' ', ""), "{text}");
        }
    }
    let llama = options(Some(CallFormat::Llama3));
    check(
        &llama,
        "{\"not\": \"a call\"}",
        "",
        "{\"not\": \"a call\"}",
        &[],
    );
}

#[test]
fn bare_json_and_open_marks() {
    let llama = options(Some(CallFormat::Llama3));
    check(
        &llama,
        "{\"name\": \"f\", \"parameters\": {}}",
        "",
        "",
        &["f{}"],
    );
    check(&llama, "<|python_tag|>{\"name\": \"g\"}", "", "", &["g{}"]);
    check(&llama, "Hello {x}", "", "Hello {x}", &[]);
    let mistral = options(Some(CallFormat::Mistral));
    check(
        &mistral,
        "[TOOL_CALLS]f[ARGS]{\"a\":1}[TOOL_CALLS]g[ARGS]{}",
        "",
        "",
        &["f{\"a\":1}", "g{}"],
    );
}

#[test]
fn channels_are_told_apart() {
    let harmony = options(Some(CallFormat::Harmony));
    check(
        &harmony,
        "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>yes < no",
        "hm",
        "yes < no",
        &[],
    );
    check(
        &harmony,
        "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\":1}<|call|>",
        "",
        "",
        &["f{\"a\":1}"],
    );
}

#[test]
fn arguments_come_as_they_are_written() {
    let texts = [
        (CallFormat::Hermes, "<tool_call>", "</tool_call>"),
        (CallFormat::Generic, "[", "]"),
        (CallFormat::Llama3, "<|python_tag|>", ""),
    ];
    for (format, begin, end) in texts {
        let mut splitter = Splitter::new(options(Some(format)));
        let mut pieces = Vec::new();
        splitter.push(begin, &mut pieces);
        splitter.push("{\"name\": \"f\", \"arguments\": {", &mut pieces);
        assert_eq!(pieces[0], Piece::CallBegin("f".into()), "{format:?}");
        splitter.push("\"a\": 1", &mut pieces);
        let told = Piece::CallArguments("\"a\": 1".into());
        assert_eq!(pieces.last(), Some(&told), "{format:?}");
        splitter.push("}}", &mut pieces);
        assert_eq!(pieces.last(), Some(&Piece::CallEnd), "{format:?}");
        let count = pieces.len();
        splitter.push(end, &mut pieces);
        splitter.finish(&mut pieces);
        assert_eq!(pieces.len(), count, "{format:?}");
    }
}

#[test]
fn a_call_that_is_cut_short_ends_with_what_there_is() {
    let hermes = options(Some(CallFormat::Hermes));
    let text = "<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"漢";
    check(&hermes, text, "", "", &["f{\"a\":\"漢"]);
    let harmony = options(Some(CallFormat::Harmony));
    let text = "<|channel|>commentary to=functions.f<|message|> {\"a\": [1";
    check(&harmony, text, "", "", &["f{\"a\": [1"]);
    let text = "<tool_call>{\"name\":\"f\",\"arguments\":{}} and so on</tool_call>.";
    check(&hermes, text, "", "and so on.", &["f{}"]);
}
