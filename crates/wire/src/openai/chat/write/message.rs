//! A choice's message, and what calls of tools that take free text add to it.

use crate::gather::{Gathered, arguments_text, custom_input};
use crate::request_fields::chat::ReplyOptions;
use strata_chat::CallPart;
use strata_chat::json::Json;

/// What a part of a call to a tool that takes free text adds: its text is told when it is complete.
pub(super) fn custom_delta(index: usize, part: &CallPart) -> Option<Json> {
    let mut call = Json::object([("index", index.into())]);
    let custom = match part {
        CallPart::Begin { id, name } => {
            call.push("id", id.as_str());
            call.push("type", "custom");
            Json::object([("name", name.as_str().into()), ("input", "".into())])
        }
        CallPart::Arguments(_) => return None,
        CallPart::End(call) => {
            let input = custom_input(&arguments_text(&call.arguments));
            Json::object([("input", input.into())])
        }
    };
    call.push("custom", custom);
    Some(Json::object([("tool_calls", Json::array([call]))]))
}

/// The whole message of a choice.
pub(super) fn message(gathered: &Gathered, options: &ReplyOptions) -> Json {
    let content = if gathered.text.is_empty() && !gathered.calls.is_empty() {
        Json::Null
    } else {
        gathered.text.as_str().into()
    };
    let mut message = Json::object([
        ("role", "assistant".into()),
        ("content", content),
        ("refusal", Json::Null),
    ]);
    if !gathered.thinking.is_empty() {
        message.push("reasoning_content", gathered.thinking.as_str());
        message.push("reasoning", gathered.thinking.as_str());
    }
    let mut calls = gathered.calls.iter().map(|call| {
        let name = ("name", call.name.as_str().into());
        let (kind, called) = if options.custom.contains(&call.name) {
            let input = custom_input(&call.arguments).into();
            ("custom", Json::object([name, ("input", input)]))
        } else {
            let arguments = call.arguments.as_str().into();
            ("function", Json::object([name, ("arguments", arguments)]))
        };
        (call.id.as_str(), kind, called)
    });
    if options.legacy {
        if let Some((_, _, function)) = calls.next() {
            message.push("function_call", function);
        }
    } else if !gathered.calls.is_empty() {
        let calls = calls.map(|(id, kind, called)| {
            Json::object([("id", id.into()), ("type", kind.into()), (kind, called)])
        });
        message.push("tool_calls", Json::array(calls));
    }
    message
}
