//! However a text is cut into pieces, the same thinking, text and calls come out of it.

use super::{AnswerPart, SplitOptions, Splitter, ThinkingMarks};
use crate::tools::CallFormat;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

fn options(calls: Option<CallFormat>) -> SplitOptions {
    SplitOptions {
        thinking: ThinkingMarks::of_template("<think>"),
        begins_thinking: false,
        calls,
        tools: ["f".to_string(), "g".to_string()].into(),
        ..SplitOptions::default()
    }
}

#[test]
fn a_required_call_that_is_cut_short_leaves_no_text() {
    for (format, text) in [
        (
            CallFormat::Generic,
            r#"[{"name": "f", "arguments": {"x": 1}}]"#,
        ),
        (
            CallFormat::Hermes,
            "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>",
        ),
        (
            CallFormat::Llama3,
            r#"{"name": "f", "parameters": {"x": 1}}"#,
        ),
    ] {
        let options = SplitOptions {
            only_calls: true,
            ..options(Some(format))
        };
        for cut in 0..=text.len() {
            let (thinking, said, _) = split(&options, &text[..cut], 1);
            assert_eq!((&*thinking, &*said), ("", ""), "{format:?} {cut}");
        }
        assert_eq!(split(&options, text, 1).2.len(), 1, "{format:?}");
    }
}

/// Thinking, text and calls, with neighbouring pieces joined.
type Said = (String, String, Vec<String>);

fn split(options: &SplitOptions, text: &str, step: usize) -> Said {
    let chars: Vec<char> = text.chars().collect();
    let pieces = chars.chunks(step).map(|chunk| chunk.iter().collect());
    gather(options, pieces.collect::<Vec<String>>())
}

fn gather<T: AsRef<str>>(options: &SplitOptions, texts: impl IntoIterator<Item = T>) -> Said {
    let mut splitter = Splitter::new(options.clone());
    let mut pieces = Vec::new();
    for text in texts {
        splitter.push(text.as_ref(), &mut pieces);
    }
    splitter.finish(&mut pieces);
    join(pieces)
}

fn join(pieces: Vec<AnswerPart>) -> Said {
    let (mut thinking, mut answer, mut calls) = (String::new(), String::new(), Vec::new());
    for piece in pieces {
        match piece {
            AnswerPart::Thinking(text) => thinking.push_str(&text),
            AnswerPart::Text(text) => answer.push_str(&text),
            AnswerPart::Call((name, arguments)) => calls.push(std::format!("{name}{arguments}")),
            AnswerPart::CallBegin(name) => calls.push(name),
            AnswerPart::CallArguments(text) => calls.last_mut().unwrap().push_str(&text),
            AnswerPart::CallEnd => {}
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

/// Each family with calls of `f` and `g` as its models write them, around arguments that try its reader.
const FAMILIES: &[(CallFormat, &str)] = &[
    (
        CallFormat::Hermes,
        "<tool_call>\n{\"name\": \"f\", \"arguments\": @F}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": @G}\n</tool_call>",
    ),
    (
        CallFormat::Llama3,
        "<|python_tag|>{\"type\": \"function\", \"name\": \"f\", \"parameters\": @F}; {\"name\": \"g\", \"parameters\": @G}",
    ),
    (
        CallFormat::Llama3,
        "{\"name\": \"f\", \"parameters\": @F}; {\"type\": \"function\", \"function\": {\"name\": \"g\", \"parameters\": @G}}",
    ),
    (
        CallFormat::Mistral,
        "[TOOL_CALLS]f[ARGS]@F[TOOL_CALLS]g[CALL_ID]abcdefghi[ARGS]@G",
    ),
    (
        CallFormat::Mistral,
        "[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": @F}, {\"name\": \"g\", \"arguments\": @G, \"id\": \"abcdefghi\"}]",
    ),
    (
        CallFormat::DeepSeek,
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n@F\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>g\n```json\n@G\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    ),
    (
        CallFormat::DeepSeek,
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>@F<｜tool▁call▁end｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>@G<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    ),
    (
        CallFormat::Functionary31,
        "<function=f>@F</function><function=g>@G</function>",
    ),
    (CallFormat::Functionary32, ">>>f\n@F>>>g\n@G"),
    (
        CallFormat::FireFunction,
        "functools[{\"name\": \"f\", \"arguments\": @F}, {\"name\": \"g\", \"arguments\": @G}]",
    ),
    (
        CallFormat::Granite3,
        "<|tool_call|>[{\"name\": \"f\", \"arguments\": @F}, {\"name\": \"g\", \"arguments\": @G}]",
    ),
    (
        CallFormat::Nemotron,
        "<TOOLCALL>[{\"name\": \"f\", \"arguments\": @F}, {\"name\": \"g\", \"arguments\": @G}]</TOOLCALL>",
    ),
    (
        CallFormat::MiniMax,
        "<tool_calls>\n{\"name\": \"f\", \"arguments\": @F}\n{\"name\": \"g\", \"arguments\": @G}\n</tool_calls>",
    ),
    (
        CallFormat::Command,
        "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": @F},\n    {\"tool_call_id\": \"1\", \"tool_name\": \"g\", \"parameters\": @G}\n]<|END_ACTION|>",
    ),
    (
        CallFormat::CommandR,
        "Action: ```json\n[\n    {\n        \"tool_name\": \"f\",\n        \"parameters\": @F\n    },\n    {\n        \"tool_name\": \"g\",\n        \"parameters\": @G\n    }\n]```",
    ),
    (
        CallFormat::Kimi,
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>@F<|tool_call_end|><|tool_call_begin|>functions.g:1<|tool_call_argument_begin|>@G<|tool_call_end|><|tool_calls_section_end|>",
    ),
    (
        CallFormat::Harmony,
        "<|channel|>commentary to=functions.f <|constrain|>json<|message|>@F<|call|><|start|>assistant<|channel|>commentary to=functions.g <|constrain|>json<|message|>@G<|call|>",
    ),
    (
        CallFormat::Solar,
        "<|tool_calls|><|tool_call:begin|>a1b2c3d4e5<|tool_call:name|>f<|tool_call:args|>@F<|tool_call:end|><|tool_call:begin|>a1b2c3d4e6<|tool_call:name|>g<|tool_call:args|>@G<|tool_call:end|><|calls|>",
    ),
    (
        CallFormat::GigaChat,
        "<|message_sep|>\n\nfunction call<|role_sep|>\n{\"name\": \"f\", \"arguments\": @F}<|message_sep|>\n\n<|function_call|>{\"name\": \"g\", \"arguments\": @G}",
    ),
    (
        CallFormat::Generic,
        "[{\"name\": \"f\", \"arguments\": @F}, {\"name\": \"g\", \"arguments\": @G}]",
    ),
];

/// Families whose calls are read as a whole.
#[test]
fn calls_in_tags_are_read() {
    let tags = "<invoke name=\"f\">\n<parameter name=\"a\">x < y</parameter>\n</invoke>\n<invoke name=\"g\">\n</invoke>\n";
    let prefixed = tags.replace("</", "</atem:").replace("<i", "<atem:i");
    let prefixed = prefixed.replace("<p", "<atem:p");
    for (format, before, text, after) in [
        (
            CallFormat::MiniMaxM2,
            "<minimax:tool_call>\n",
            tags,
            "</minimax:tool_call>",
        ),
        (
            CallFormat::Olmo3,
            "<function_calls>",
            "f(a='x < y')\ng()",
            "</function_calls>",
        ),
        (
            CallFormat::Llama3,
            "<|python_start|>",
            "[f(a='x < y'), g()]",
            "<|python_end|>",
        ),
        (
            CallFormat::Glimmer,
            " to=self<|message|>hm<|eom|><|start|>assistant to=user<|message|>See.<|eom|><|start|>assistant to=f<|message|><atem:function_calls>\n",
            prefixed.as_str(),
            "</atem:function_calls><|eot|>",
        ),
    ] {
        let options = options(Some(format));
        let (thinking, said) = match format {
            CallFormat::Glimmer => ("hm", "See."),
            _ => ("", ""),
        };
        let calls = ["f{\"a\":\"x < y\"}", "g{}"];
        let whole = [before, text, after].concat();
        check(&options, &whole, thinking, said, &calls);
        // What is no call is text.
        let unknown = whole
            .replace("name=\"g\"", "name=\"h\"")
            .replace("g()", "h()");
        let (_, said, calls) = split(&options, &unknown, 3);
        assert!(
            calls.is_empty() && said.contains("x < y"),
            "{format:?}: {said}"
        );
    }
}

#[test]
fn a_model_that_was_told_of_tools_may_write_a_bare_list_or_marks() {
    let deepseek = options(Some(CallFormat::DeepSeek));
    let list = "[{\"name\": \"f\", \"arguments\": {}}]";
    check(&deepseek, list, "", list, &[]);
    let explained = SplitOptions {
        explained: true,
        ..deepseek
    };
    check(&explained, list, "", "", &["f{}"]);
    let marked = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>";
    check(&explained, marked, "", "", &["f{}"]);
}

#[test]
fn solar_and_gigachat_end_their_messages() {
    let solar = options(Some(CallFormat::Solar));
    check(
        &solar,
        "<|think|>hm<|end|><|begin|>assistant<|content|>yes < no<|end|>",
        "hm",
        "yes < no",
        &[],
    );
    let gigachat = options(Some(CallFormat::GigaChat));
    check(&gigachat, "yes<|message_sep|>\n\n", "", "yes", &[]);
}

const ARGUMENTS: [&str; 2] = [
    "{\"a\": \"}\\\"{[漢 😀 <b> > \", \"b\": [1, {\"c\": null}]}",
    "{ }",
];

/// What a family's models write, with arguments in their places.
fn written(text: &str, [f, g]: [&str; 2]) -> String {
    text.replace("@F", f).replace("@G", g)
}

#[test]
fn wherever_a_call_is_cut_the_same_bytes_come() {
    let [f, g] = ARGUMENTS;
    let calls = [std::format!("f{f}"), std::format!("g{g}")];
    for (format, text) in FAMILIES {
        let options = options(Some(*format));
        let text = written(text, ARGUMENTS);
        for (cut, _) in text.char_indices().chain([(text.len(), ' ')]) {
            let pieces = [&text[..cut], &text[cut..]];
            let (_, answer, told) = gather(&options, pieces);
            assert_eq!(told, calls, "{format:?} cut at {cut}: {text}");
            assert_eq!(answer, "", "{format:?} cut at {cut}: {text}");
        }
        check(&options, &text, "", "", &[&calls[0], &calls[1]]);
    }
}

#[test]
fn arguments_come_as_they_are_written() {
    for (format, text) in FAMILIES {
        let mut splitter = Splitter::new(options(Some(*format)));
        let mut pieces = Vec::new();
        let (before, after) = text.split_once("@F").unwrap();
        splitter.push(before, &mut pieces);
        splitter.push("{", &mut pieces);
        assert_eq!(pieces[0], AnswerPart::CallBegin("f".into()), "{format:?}");
        for part in ["\"a\": 1", ", \"b\": \"x"] {
            splitter.push(part, &mut pieces);
            let told = AnswerPart::CallArguments(part.into());
            assert_eq!(pieces.last(), Some(&told), "{format:?}");
        }
        splitter.push("\"}", &mut pieces);
        splitter.push(&after.replace("@G", "{}"), &mut pieces);
        splitter.finish(&mut pieces);
        let (_, answer, calls) = join(pieces);
        let both = ["f{\"a\": 1, \"b\": \"x\"}", "g{}"];
        assert_eq!(calls, both, "{format:?}");
        assert_eq!(answer, "", "{format:?}");
    }
}

#[test]
fn malformed_calls_are_text_unless_their_arguments_were_told() {
    for (format, text) in FAMILIES {
        let all = options(Some(*format));
        let (before, _) = text.split_once("@F").unwrap();
        // One that never gets to its arguments is text, whole. Marks of messages are not for clients.
        if ![CallFormat::Harmony, CallFormat::Solar].contains(format) {
            check(&all, before, "", before, &[]);
        }
        // What was told stays a call: with what there is of it, and no JSON if the model wrote none.
        let cut = std::format!("{before}{{\"a\": 1");
        check(&all, &cut, "", "", &["f{\"a\": 1"]);
        let wrong = written(text, ["{\"a\": nothing}", "{}"]);
        check(&all, &wrong, "", "", &["f{\"a\": nothing}", "g{}"]);
        // A call of a tool that is not there is text, and does not hide the one after it.
        let one = SplitOptions {
            tools: ["g".to_string()].into(),
            ..all
        };
        let unknown = written(text, ["{\"b\": 1}", "{}"]);
        let (_, answer, calls) = gather(&one, [&unknown]);
        assert!(answer.contains("{\"b\": 1}"), "{format:?}: {answer}");
        assert!(
            calls == ["g{}"] || (calls.is_empty() && unknown.contains(&answer)),
            "{format:?}: {calls:?} {answer}"
        );
        let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
        check(&one, &unknown, "", &answer, &calls);
    }
}

#[test]
fn functionary_says_whom_its_answers_are_for() {
    let functionary = options(Some(CallFormat::Functionary32));
    let split = |text, answer, calls: &[&str]| check(&functionary, text, "", answer, calls);
    split(
        "all\nHello {x}>>>f\n{\"a\":1}",
        "Hello {x}",
        &["f{\"a\":1}"],
    );
    split("f\n{}", "", &["f{}"]);
    split("f\n{}>>>all\nDone.\n", "Done.\n", &["f{}"]);
    split("allure\nis not a name", "allure\nis not a name", &[]);
    split("Hi >> there", "Hi >> there", &[]);
    split("al", "al", &[]);
    let alone = SplitOptions {
        tools: Vec::new(),
        ..functionary.clone()
    };
    check(&alone, "all\nHello.", "", "Hello.", &[]);
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
