//! A conversation as the values that chat templates read, with the names that Hugging Face gives them.

use super::Conversation;
use crate::json::Json;
use crate::{Effort, Message, Thinking, Tool};
use alloc::string::String;
use alloc::vec::Vec;
use strata_template::jinja::Value;
use strata_tokenizer::Tokenizer;

/// What a template is rendered with. `contents` are the messages' texts, or marks in their place.
pub(super) fn context(
    tokenizer: &Tokenizer,
    conversation: &Conversation<'_>,
    contents: &[&str],
) -> Value {
    let special = tokenizer.special();
    let text = |id: Option<u32>| id.and_then(|id| tokenizer.token_text(id)).unwrap_or("");
    let messages = conversation.messages.iter().zip(contents);
    let messages = messages.map(|(message, content)| said(message, content));
    let mut pairs: Vec<(&str, Value)> = [
        ("messages", Value::list(messages)),
        ("add_generation_prompt", (!conversation.closed).into()),
        ("bos_token", text(special.bos).into()),
        ("eos_token", text(special.eos).into()),
    ]
    .into();
    if !conversation.tools.is_empty() {
        let tools = conversation
            .tools
            .iter()
            .map(|tool| value(&tool_json(tool)));
        pairs.push(("tools", Value::list(tools)));
    }
    let (thinks, effort) = match conversation.thinking {
        Thinking::Default => (None, None),
        Thinking::Off | Thinking::Effort(Effort::None) => (Some(false), None),
        Thinking::On { .. } => (Some(true), None),
        Thinking::Effort(effort) => (Some(true), Some(effort)),
    };
    if let Some(thinks) = thinks {
        // Families differ in what they call it.
        pairs.push(("enable_thinking", thinks.into()));
        pairs.push(("thinking", thinks.into()));
    }
    if let Some(effort) = effort {
        pairs.push(("reasoning_effort", effort.name().into()));
    }
    Value::map(pairs)
}

fn said(message: &Message, content: &str) -> Value {
    let mut pairs: Vec<(&str, Value)> = [
        ("role", message.role.name().into()),
        ("content", content.into()),
    ]
    .into();
    if let Some(thinking) = &message.thinking {
        pairs.push(("reasoning_content", thinking.as_str().into()));
    }
    if let Some(name) = &message.name {
        pairs.push(("name", name.as_str().into()));
    }
    if let Some(id) = &message.tool_call_id {
        pairs.push(("tool_call_id", id.as_str().into()));
    }
    if !message.tool_calls.is_empty() {
        let calls = message.tool_calls.iter().map(|call| {
            let function = Value::map([
                ("name", call.name.as_str().into()),
                ("arguments", value(&call.arguments)),
            ]);
            Value::map([
                ("id", call.id.as_str().into()),
                ("type", "function".into()),
                ("function", function),
            ])
        });
        pairs.push(("tool_calls", Value::list(calls)));
    }
    Value::map(pairs)
}

/// A tool in the form that templates know.
pub(super) fn tool_json(tool: &Tool) -> Json {
    let mut function = Json::object([("name", tool.name.as_str().into())]);
    if let Some(description) = &tool.description {
        function.push("description", description.as_str());
    }
    if !tool.parameters.is_null() {
        function.push("parameters", tool.parameters.clone());
    }
    Json::object([("type", "function".into()), ("function", function)])
}

/// All texts but the messages' contents: the template may write them anywhere.
pub(super) fn other_texts(conversation: &Conversation<'_>) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for message in conversation.messages {
        texts.extend(message.thinking.clone());
        texts.extend(message.name.clone());
        texts.extend(message.tool_call_id.clone());
        for call in &message.tool_calls {
            texts.extend([call.id.clone(), call.name.clone(), call.arguments.text()]);
        }
    }
    texts.extend(conversation.tools.iter().map(|tool| tool_json(tool).text()));
    texts
}

/// JSON as a template's value.
fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::None,
        Json::Bool(truth) => (*truth).into(),
        Json::Int(number) => Value::Int(*number),
        Json::Large(number) => Value::Float(*number as f64),
        Json::Float(number) => Value::Float(*number),
        Json::String(text) => text.as_str().into(),
        Json::Array(items) => Value::list(items.iter().map(value)),
        Json::Object(pairs) => {
            Value::map(pairs.iter().map(|(key, item)| (key.as_str(), value(item))))
        }
    }
}
