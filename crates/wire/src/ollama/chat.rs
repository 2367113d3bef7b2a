//! `/api/chat`: an answer to a conversation.

use super::write::{LineAnswer, Words, message};
use super::{load, model, options};
use crate::call::Call;
use crate::gather::{Gathered, arguments};
use crate::request_fields::tools::{self, Form};
use crate::stamp::Stamp;
use alloc::boxed::Box;
use alloc::vec::Vec;
use strata_chat::json::{Fields, Json};
use strata_chat::{ContentPart, Fault, Generate, Message, Prompt, Role, ToolCall, name_results};

pub(super) fn open(body: &[u8], stamp: &Stamp) -> Result<Call, Fault> {
    let mut fields = Fields::parse(body)?;
    let model = model(&mut fields)?;
    let messages = messages(&mut fields)?;
    let mut request = Generate::new(model, Prompt::text(""));
    options::read(&mut fields, &mut request)?;
    request.tools = tools::read(&mut fields, Form::Nested)?;
    fields.finish()?;
    if messages.is_empty() {
        let done = Words::Chat.line(&request.model, stamp);
        let done = done.with("message", message(&Gathered::default(), 0));
        return Ok(load(request, done));
    }
    // A last message of the model's own is one that it shall go on with.
    request.continues = messages.last().is_some_and(|last| {
        last.role == Role::Assistant && last.tool_calls.is_empty() && !last.joined().is_empty()
    });
    request.prompts = [Prompt::Chat(messages)].into();
    let answer = LineAnswer::new(Words::Chat, &request, stamp);
    Ok(Call::Generate(Box::new(request), Box::new(answer)))
}

/// `messages`, of chats and of models to create.
pub(super) fn messages(fields: &mut Fields) -> Result<Vec<Message>, Fault> {
    let mut messages = Vec::new();
    for (path, item) in fields.items("messages")? {
        messages.push(one(path.object(item)?)?);
    }
    name_results(&mut messages);
    Ok(messages)
}

fn one(mut fields: Fields) -> Result<Message, Fault> {
    let roles = [
        ("system", Role::System),
        ("user", Role::User),
        ("assistant", Role::Assistant),
        ("tool", Role::Tool),
    ];
    let role = fields.maybe_word("role", &roles)?;
    let role = role.ok_or_else(|| fields.missing("role"))?;
    let mut message = Message::new(role);
    let content = fields.maybe_string("content")?;
    message.parts.extend(content.map(ContentPart::Text));
    message.parts.extend(options::images(&mut fields)?);
    let thinking = fields.maybe_string("thinking")?;
    message.thinking = thinking.filter(|text| !text.is_empty());
    message.name = fields.maybe_string("tool_name")?;
    message.tool_call_id = fields.maybe_string("tool_call_id")?;
    for (path, item) in fields.items("tool_calls")? {
        message.tool_calls.push(call(path.object(item)?)?);
    }
    fields.finish()?;
    Ok(message)
}

fn call(mut fields: Fields) -> Result<ToolCall, Fault> {
    let id = fields.maybe_string("id")?.unwrap_or_default();
    fields.maybe_word("type", &[("function", ())])?;
    let function = fields.maybe_object("function")?;
    let mut function = function.ok_or_else(|| fields.missing("function"))?;
    fields.finish()?;
    let name = function.string("name")?;
    let arguments = match function.take("arguments") {
        None => Json::Object(Vec::new()),
        // As OpenAI's clients write them.
        Some(Json::String(text)) => arguments(&text),
        Some(value @ Json::Object(_)) => value,
        Some(other) => return Err(function.at("arguments").expected("an object", &other)),
    };
    // The number of the call, as it was told.
    function.ignore(&["index"]);
    function.finish()?;
    Ok(ToolCall {
        id,
        name,
        arguments,
    })
}
