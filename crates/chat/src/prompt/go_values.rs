//! A conversation as the values that Go templates read, with the names that Ollama gives them.

use super::{Conversation, values};
use crate::json::Json;
use crate::{Effort, Message, Thinking};
use alloc::string::String;
use alloc::vec::Vec;
use strata_template::go::{GoChat, GoMessage, GoValue};

/// What a template is given. `contents` are the messages' texts, or marks in their place.
pub(super) fn chat(conversation: &Conversation<'_>, contents: &[&str]) -> GoChat {
    let messages = conversation.messages.iter().zip(contents);
    let tools = conversation.tools.iter().map(values::tool_json);
    let (think, effort) = match conversation.thinking {
        Thinking::Default => (None, None),
        Thinking::Off | Thinking::Effort(Effort::None) => (Some(false), None),
        Thinking::On { .. } => (Some(true), None),
        Thinking::Effort(effort) => (Some(true), Some(effort.name())),
    };
    GoChat {
        messages: messages
            .map(|(message, content)| said(message, content))
            .collect(),
        tools: GoValue::list(tools.map(|tool| go_value(&tool))),
        think,
        think_level: effort,
    }
}

fn said(message: &Message, content: &str) -> GoMessage {
    let text = |text: &Option<String>| GoValue::from(text.as_deref().unwrap_or_default());
    let calls: Vec<GoValue> = message
        .tool_calls
        .iter()
        .enumerate()
        .map(|(index, call)| {
            let function = GoValue::map([
                ("index", GoValue::Int(index as i64)),
                ("name", call.name.as_str().into()),
                ("arguments", go_value(&call.arguments)),
            ]);
            GoValue::map([("id", call.id.as_str().into()), ("function", function)])
        })
        .collect();
    GoMessage {
        role: message.role.name().into(),
        content: content.into(),
        others: [
            ("thinking", text(&message.thinking)),
            ("tool_calls", GoValue::list(calls)),
            ("tool_name", text(&message.name)),
            ("tool_call_id", text(&message.tool_call_id)),
            ("images", GoValue::Nil),
        ]
        .into(),
    }
}

/// JSON as a template's value.
pub fn go_value(json: &Json) -> GoValue {
    match json {
        Json::Null => GoValue::Nil,
        Json::Bool(truth) => GoValue::Bool(*truth),
        Json::Int(number) => GoValue::Int(*number),
        Json::Large(number) => GoValue::Float(*number as f64),
        Json::Float(number) => GoValue::Float(*number),
        Json::String(text) => text.as_str().into(),
        Json::Array(items) => GoValue::list(items.iter().map(go_value)),
        Json::Object(pairs) => GoValue::map(
            pairs
                .iter()
                .map(|(key, item)| (key.as_str(), go_value(item))),
        ),
    }
}
