//! The variables of a chat template in JSON, as those that Go templates read.

use crate::failure::{Failure, Kind};
use std::fmt::Display;
use strata_chat::json::Json;
use strata_chat::prompt::go_value;
use strata_template::go::{GoChat, GoMessage, GoOptions, GoTemplate, GoValue};
use strata_template::jinja::DateTime;

/// Renders a template on `input`, JSON that came from `place`.
pub(super) fn render(
    source: &str,
    input: &str,
    now: Option<DateTime>,
    place: &dyn Display,
) -> Result<String, Failure> {
    let wrong = |what: &str| Failure::new(Kind::Usage, format_args!("{place}: {what}"));
    let input = Json::parse(input.as_bytes()).map_err(|error| wrong(&error.to_string()))?;
    let options = GoOptions {
        now,
        ..GoOptions::default()
    };
    let template =
        GoTemplate::parse(source).map_err(|error| Failure::new(Kind::BadModel, error))?;
    let messages = input.get("messages").and_then(Json::as_array);
    let text = |key| input.get(key).and_then(Json::as_str);
    let text = match (messages, text("prompt"), text("suffix")) {
        (Some(messages), ..) => {
            let messages = messages.iter().map(message).collect::<Option<_>>();
            let messages = messages
                .ok_or_else(|| wrong("each message must be an object with a role and text"))?;
            let (think, think_level) = thinking(input.get("think"));
            let chat = GoChat {
                messages,
                tools: input.get("tools").map_or(GoValue::Nil, go_value),
                think,
                think_level,
            };
            template.chat(&chat, &options)
        }
        (None, Some(prefix), Some(suffix)) => template.fill(prefix, suffix, &options),
        _ => return Err(wrong("expected messages, or a prompt and a suffix")),
    };
    text.map_err(|error| Failure::new(Kind::Failed, error))
}

fn message(message: &Json) -> Option<GoMessage> {
    let text = |key: &str| GoValue::from(string(message, key));
    let calls = message.get("tool_calls").and_then(Json::as_array);
    let calls = calls.into_iter().flatten().enumerate();
    let calls = calls.map(|(index, call)| self::call(index, call));
    Some(GoMessage {
        role: message.get("role")?.as_str()?.into(),
        content: content(message.get("content"))?,
        others: vec![
            ("thinking", text("thinking")),
            ("tool_calls", GoValue::list(calls)),
            ("tool_name", text("tool_name")),
            ("tool_call_id", text("tool_call_id")),
            ("images", GoValue::Nil),
        ],
    })
}

/// A text of an object, or an empty one.
fn string<'j>(object: &'j Json, key: &str) -> &'j str {
    object.get(key).and_then(Json::as_str).unwrap_or_default()
}

/// A text, or the texts of a list of parts.
fn content(content: Option<&Json>) -> Option<String> {
    match content {
        None | Some(Json::Null) => Some(String::new()),
        Some(Json::String(text)) => Some(text.clone()),
        Some(Json::Array(parts)) => parts
            .iter()
            .map(|part| part.get("text")?.as_str())
            .collect(),
        Some(_) => None,
    }
}

fn call(index: usize, call: &Json) -> GoValue {
    let nothing = Json::Object(Vec::new());
    let function = call.get("function").unwrap_or(&nothing);
    let arguments = match function.get("arguments").unwrap_or(&nothing) {
        // As OpenAI writes them.
        Json::String(text) => {
            Json::parse(text.as_bytes()).map_or(text.as_str().into(), |json| go_value(&json))
        }
        arguments => go_value(arguments),
    };
    let function = GoValue::map([
        ("index", GoValue::Int(index as i64)),
        ("name", string(function, "name").into()),
        ("arguments", arguments),
    ]);
    GoValue::map([("id", string(call, "id").into()), ("function", function)])
}

fn thinking(think: Option<&Json>) -> (Option<bool>, Option<&'static str>) {
    match think {
        Some(Json::Bool(think)) => (Some(*think), None),
        Some(Json::String(level)) => {
            let levels = ["low", "medium", "high"];
            let level = levels.into_iter().find(|known| known == level);
            (level.map(|_| true), level)
        }
        _ => (None, None),
    }
}
