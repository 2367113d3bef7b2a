//! Published templates (`STRATA_FIXTURES/templates`): a conversation with calls is rendered, and what the template makes the
//! model say is read back as the same calls, in pieces of any length.

use super::CallFormat;
use super::schemas::ArgumentSchemas;
use crate::json::Json;
use crate::prompt::{ChatTemplate, Conversation};
use crate::splitter::{AnswerPart, SplitOptions, Splitter};
use crate::{Effort, Message, Role, Thinking, ThinkingMarks, Tool, ToolCall};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use strata_template::jinja::DateTime;
use strata_tokenizer::{ModelKind, TokenKind, TokenTable, Tokenizer, Vocab};

/// Every template that is told of tools, with its family, and whether it writes several calls of a message.
const TEMPLATES: &[(&str, CallFormat)] = &[
    ("Apertus-8B-Instruct", CallFormat::Apertus),
    ("Apriel-1.6-15b-Thinker-fixed", CallFormat::Apriel),
    ("ByteDance-Seed-OSS", CallFormat::Seed),
    ("Cohere2MoE", CallFormat::Command),
    (
        "CohereForAI-c4ai-command-r7b-12-2024-tool_use",
        CallFormat::Command,
    ),
    ("GLM-4.6", CallFormat::Glm),
    ("GigaChat3-10B-A1.8B", CallFormat::GigaChat),
    ("GigaChat3.1-10B-A1.8B", CallFormat::GigaChat),
    ("Kimi-K2-Instruct", CallFormat::Kimi),
    ("Kimi-K2-Thinking", CallFormat::Kimi),
    ("LFM2-8B-A1B", CallFormat::Lfm2),
    ("LFM2.5-8B-A1B", CallFormat::Lfm2),
    ("MiMo-VL", CallFormat::Hermes),
    ("MiniMax-M1", CallFormat::MiniMax),
    ("MiniMax-M3", CallFormat::MiniMaxM3),
    ("Mistral-Small-3.2-24B-Instruct-2506", CallFormat::Mistral),
    ("NVIDIA-Nemotron-Nano-v2", CallFormat::Nemotron),
    (
        "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use",
        CallFormat::Hermes,
    ),
    ("Qwen-QwQ-32B", CallFormat::Hermes),
    ("Qwen-Qwen2.5-7B-Instruct", CallFormat::Hermes),
    ("Qwen3-Coder", CallFormat::QwenCoder),
    ("Qwen3.5-4B", CallFormat::QwenCoder),
    ("StepFun3.5-Flash", CallFormat::QwenCoder),
    (
        "deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
        CallFormat::DeepSeek,
    ),
    ("deepseek-ai-DeepSeek-V3.1", CallFormat::DeepSeek),
    ("deepseek-ai-DeepSeek-V3.2", CallFormat::DeepSeekMarkup),
    ("deepseek-ai-DeepSeek-V4", CallFormat::DeepSeekMarkup),
    (
        "fireworks-ai-llama-3-firefunction-v2",
        CallFormat::FireFunction,
    ),
    ("google-gemma-4-31B-it", CallFormat::Gemma4),
    ("google-gemma-4-31B-it-interleaved", CallFormat::Gemma4),
    ("ibm-granite-granite-4.0", CallFormat::Hermes),
    ("ibm-granite-granite-4.1", CallFormat::Hermes),
    ("meetkai-functionary-medium-v3.1", CallFormat::Functionary31),
    ("meta-llama-Llama-3.1-8B-Instruct", CallFormat::Llama3),
    ("meta-llama-Llama-3.2-3B-Instruct", CallFormat::Llama3),
    (
        "mistralai-Ministral-3-14B-Reasoning-2512",
        CallFormat::Mistral,
    ),
    ("moonshotai-Kimi-K2", CallFormat::Kimi),
    ("muse-glimmer", CallFormat::Glimmer),
    ("openbmb-MiniCPM5-1B", CallFormat::MiniCpm5),
    ("poolside-Laguna-S-2.1", CallFormat::Glm),
    ("poolside-Laguna-XS.2", CallFormat::Glm),
    ("tencent-Hy3", CallFormat::Hunyuan3),
    ("unsloth-mistral-Devstral-Small-2507", CallFormat::Mistral),
    ("upstage-Solar-Open-100B", CallFormat::Solar),
];

/// Those that know no tools.
const WITHOUT_TOOLS: [&str; 2] = ["llama-cpp-rwkv-world", "microsoft-Phi-3.5-mini-instruct"];

/// Those that write no calls, fail to, or are told of no tools, so that calls stand in the text.
const IN_TEXT: [&str; 5] = [
    "Kimi-K2-Instruct",
    "Kimi-K2-Thinking",
    "LFM2-8B-A1B",
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
    "deepseek-ai-DeepSeek-V3.1",
];

/// What ends a turn: tokens that end generation, so that no reader sees them.
const ENDS: &[&str] = &[
    "<|im_end|>",
    "</s>",
    "<|end_of_text|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<｜end▁of▁sentence｜>",
    "<end_of_sentence>",
    "<|END_OF_TURN_TOKEN|>",
    "[e~[",
    "<seed:eos>",
    "<SPECIAL_12>",
    "<|tool_response>",
    "<turn|>",
    "<|eot|>",
    "<｜hy_eos:opensource｜>",
    "<|observation|>",
    "</assistant>",
    "\n<|end|>\n<|begin_tool_result|>",
    "<|message_sep|>\n\nfunction result",
    "<|begin|>tool",
    "[TOOL_RESULTS]",
    "[[RESULT_F",
    "[RESULT_F",
];

fn templates() -> Option<Vec<(String, String)>> {
    let Ok(folder) = std::env::var("STRATA_FIXTURES") else {
        std::eprintln!("skipped: STRATA_FIXTURES is not set");
        return None;
    };
    let folder = std::fs::read_dir(std::format!("{folder}/templates")).unwrap();
    let read = folder.map(|entry| {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        (name, std::fs::read_to_string(&path).unwrap())
    });
    Some(read.collect())
}

/// A token for each ASCII character.
fn tokenizer() -> Tokenizer {
    let mut tokens = TokenTable::with_capacity(129);
    for byte in 0..=127u8 {
        let text = char::from(byte).to_string();
        tokens.push(&text, TokenKind::Normal, 0.0).unwrap();
    }
    tokens.push("▁", TokenKind::Normal, 0.0).unwrap();
    Tokenizer::from_vocab(Vocab::new(ModelKind::Spm, tokens)).unwrap()
}

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

/// Some templates sort the members of objects.
fn sorted(json: Json) -> Json {
    match json {
        Json::Object(mut members) => {
            members.sort_by(|(a, _), (b, _)| a.cmp(b));
            Json::Object(members)
        }
        json => json,
    }
}

fn tools() -> [Tool; 2] {
    let parameters = json(
        r#"{"type": "object", "required": ["city"], "properties": {
            "city": {"type": "string", "description": "Where."}, "zip": {"type": "string", "description": "Digits."},
            "days": {"type": "integer", "description": "How long."}, "list": {"type": "array", "description": "Some."},
            "o": {"type": "object", "description": "More."}}}"#,
    );
    let tool = |name: &str, parameters: &Json| Tool {
        name: name.into(),
        description: Some("Does it.".into()),
        parameters: parameters.clone(),
        strict: false,
    };
    let none = json(r#"{"type": "object", "properties": {}}"#);
    [tool("get_it", &parameters), tool("ping", &none)]
}

fn arguments() -> [Json; 2] {
    let text =
        r#"{"city": "New York", "zip": "12345", "days": 3, "list": [1, "x"], "o": {"k": true}}"#;
    [json(text), json("{}")]
}

/// A question, an answer with two calls, and their results.
fn conversation() -> Vec<Message> {
    let mut answer = Message::text(Role::Assistant, "SAYS");
    answer.thinking = Some("THINKS".into());
    let ids = ["abcdefghi", "abcdefghj"];
    let calls = tools().into_iter().zip(arguments()).zip(ids);
    answer.tool_calls = calls
        .map(|((tool, arguments), id)| ToolCall {
            id: id.into(),
            name: tool.name,
            arguments,
        })
        .collect();
    let results = answer.tool_calls.iter().zip(["[RESULT_F", "[RESULT_G"]);
    let results: Vec<Message> = results
        .map(|(call, text)| Message {
            tool_call_id: Some(call.id.clone()),
            name: Some(call.name.clone()),
            ..Message::text(Role::Tool, text)
        })
        .collect();
    let question = Message::text(Role::User, "QUESTION");
    [question, answer].into_iter().chain(results).collect()
}

fn rendered(template: &ChatTemplate, messages: &[Message], thinking: Thinking) -> String {
    let conversation = Conversation {
        messages,
        tools: &tools(),
        thinking,
        now: Some(DateTime::from_unix(0)),
        ..Conversation::default()
    };
    let prompt = template.prompt(&tokenizer(), &conversation);
    prompt.unwrap_or_else(|error| panic!("{error}")).text
}

/// Thinking, text, and calls with their arguments.
fn split(
    options: &SplitOptions,
    text: &str,
    step: usize,
) -> (String, String, Vec<(String, String)>) {
    let mut splitter = Splitter::new(options.clone());
    let (mut parts, chars) = (Vec::new(), text.chars().collect::<Vec<_>>());
    for piece in chars.chunks(step) {
        splitter.push(&piece.iter().collect::<String>(), &mut parts);
    }
    splitter.finish(&mut parts);
    let (mut thinking, mut said, mut calls) = (String::new(), String::new(), Vec::new());
    for part in parts {
        match part {
            AnswerPart::Thinking(text) => thinking += &text,
            AnswerPart::Text(text) => said += &text,
            AnswerPart::Call((name, arguments)) => calls.push((name, arguments.text())),
            AnswerPart::CallBegin(name) => calls.push((name, String::new())),
            AnswerPart::CallArguments(text) => calls.last_mut().unwrap().1 += &text,
            AnswerPart::CallEnd => {}
        }
    }
    (thinking, said, calls)
}

#[test]
fn every_published_template_is_known() {
    let Some(templates) = templates() else { return };
    for (name, source) in &templates {
        let known = TEMPLATES.iter().find(|(known, _)| known == name);
        let format = CallFormat::of_template(source);
        match known {
            Some((_, expected)) => assert_eq!(format, *expected, "{name}"),
            None => assert!(WITHOUT_TOOLS.contains(&name.as_str()), "{name} is new"),
        }
        assert_eq!(format == CallFormat::Generic, known.is_none(), "{name}");
    }
    assert_eq!(templates.len(), TEMPLATES.len() + WITHOUT_TOOLS.len());
}

#[test]
fn what_templates_write_is_read_back() {
    let Some(templates) = templates() else { return };
    let on = Thinking::On { budget: None };
    let whole = conversation();
    for (name, source) in &templates {
        let Some((_, format)) = TEMPLATES.iter().find(|(known, _)| known == name) else {
            continue;
        };
        let template = ChatTemplate::new(source).unwrap();
        let prompt = rendered(&template, &whole[..1], on);
        let whole = rendered(&template, &whole, on);
        for result in ["RESULT_F", "RESULT_G"] {
            assert!(whole.contains(result), "{name}: {whole}");
        }
        if IN_TEXT.contains(&name.as_str()) {
            let call = "SAYS\n[{\"name\":\"get_it\",\"arguments\":{\"city\":\"New York\"";
            assert!(whole.contains(call), "{name}: {whole}");
            continue;
        }
        let shared = prompt.chars().zip(whole.chars());
        let shared: usize = shared
            .take_while(|(a, b)| a == b)
            .map(|(a, _)| a.len_utf8())
            .sum();
        let end = ENDS.iter().filter_map(|end| whole[shared..].find(end));
        let mut answer = String::from(&whole[shared..shared + end.min().unwrap_or(0)]);
        let marks = ThinkingMarks::of_template(source);
        let opened = marks.filter(|marks| marks.opened_by(&prompt));
        if let Some(marks) = opened.filter(|marks| !answer.contains(marks.end)) {
            // Earlier thinking is left out of the history.
            answer = ["THINKS", marks.end, answer.trim_start_matches(marks.begin)].concat();
        }
        let options = SplitOptions {
            thinking: marks,
            begins_thinking: opened.is_some(),
            calls: Some(*format),
            tools: tools().map(|tool| tool.name).into(),
            schemas: ArgumentSchemas::of(&tools()),
            ..SplitOptions::default()
        };
        // These write one call a message.
        let single = [CallFormat::Llama3, CallFormat::GigaChat].contains(format);
        let expected: Vec<(String, Json)> = tools()
            .into_iter()
            .map(|tool| tool.name)
            .zip(arguments().map(sorted))
            .take(if single { 1 } else { 2 })
            .collect();
        let once = split(&options, &answer, usize::MAX);
        let (thinking, said, calls) = &once;
        let calls: Vec<(String, Json)> = calls
            .iter()
            .map(|(name, arguments)| (name.clone(), sorted(json(arguments))))
            .collect();
        assert_eq!(calls, expected, "{name}: {answer}");
        assert!(
            ["", "SAYS"].contains(&said.trim()),
            "{name}: {said:?} of {answer}"
        );
        assert!(
            ["", "THINKS"].contains(&thinking.trim()),
            "{name}: {thinking:?} of {answer}"
        );
        for step in [1, 2, 3, 7, 50] {
            assert_eq!(split(&options, &answer, step), once, "{name} by {step}");
        }
    }
}

#[test]
fn calls_of_one_message_keep_their_results() {
    let Some(templates) = templates() else { return };
    for single in ["meta-llama-Llama-3.1-8B-Instruct", "GigaChat3-10B-A1.8B"] {
        let (_, source) = templates.iter().find(|(name, _)| name == single).unwrap();
        let template = ChatTemplate::new(source).unwrap();
        let text = rendered(&template, &conversation(), Thinking::Default);
        let order = [r#""get_it", "#, "RESULT_F", r#""ping", "#, "RESULT_G"];
        let after_question = text.rfind("QUESTION").unwrap();
        let places = order.map(|part| text[after_question..].find(part));
        assert!(places.iter().all(Option::is_some), "{single}: {text}");
        assert!(places.is_sorted(), "{single}: {text}");
    }
}

/// Every effort is one that the template knows.
#[test]
fn templates_take_every_effort() {
    let Some(templates) = templates() else { return };
    let efforts = [
        Effort::None,
        Effort::Minimal,
        Effort::Low,
        Effort::Medium,
        Effort::High,
    ];
    let efforts = efforts.map(Thinking::Effort);
    for (_, source) in &templates {
        let template = ChatTemplate::new(source).unwrap();
        for thinking in [Thinking::Default, Thinking::Off]
            .into_iter()
            .chain(efforts)
        {
            rendered(&template, &conversation()[..1], thinking);
        }
    }
    let closed = |name: &str, thinking: Thinking| {
        let (_, source) = templates.iter().find(|(known, _)| known == name).unwrap();
        let template = ChatTemplate::new(source).unwrap();
        rendered(&template, &conversation()[..1], thinking)
    };
    for (name, end) in [
        ("tencent-Hy3", "<think:opensource></think:opensource>"),
        ("Cohere2MoE", "<|START_THINKING|><|END_THINKING|>"),
        ("MiniMax-M3", "</mm:think>"),
        (
            "upstage-Solar-Open-100B",
            "<|think|><|end|><|begin|>assistant",
        ),
    ] {
        assert!(closed(name, Thinking::Off).ends_with(end), "{name}");
        let on = Thinking::On { budget: None };
        assert!(!closed(name, on).ends_with(end), "{name}");
    }
}
