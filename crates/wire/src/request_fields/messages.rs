//! Messages of chats: roles, pieces of content, pictures, audio, calls.

use super::unsupported;
use crate::gather::arguments;
use crate::image_url::image_at;
use alloc::string::String;
use alloc::vec::Vec;
use strata_chat::json::{Fields, Json, JsonPath};
use strata_chat::{ContentPart, Fault, Message, Role, ToolCall, name_results};

/// The words for who speaks.
pub(crate) const ROLES: [(&str, Role); 6] = [
    ("system", Role::System),
    ("developer", Role::System),
    ("user", Role::User),
    ("assistant", Role::Assistant),
    ("tool", Role::Tool),
    ("function", Role::Tool),
];

/// `messages`.
pub(crate) fn messages(fields: &mut Fields) -> Result<Vec<Message>, Fault> {
    let mut messages = Vec::new();
    for (path, item) in fields.items("messages")? {
        messages.push(message(path.object(item)?)?);
    }
    if messages.is_empty() {
        let path = fields.at("messages");
        return Err(Fault::field(&path, format_args!("must not be empty")));
    }
    name_results(&mut messages);
    Ok(messages)
}

fn message(mut fields: Fields) -> Result<Message, Fault> {
    let role = fields.maybe_word("role", &ROLES)?;
    let role = role.ok_or_else(|| fields.missing("role"))?;
    let mut message = Message::new(role);
    message.name = fields.maybe_string("name")?;
    let path = fields.at("content");
    let content = fields.take("content");
    let empty = content.is_none();
    if let Some(content) = content {
        message.parts = parts(content, &path, role)?;
    }
    match role {
        Role::Assistant => said(&mut fields, &mut message)?,
        Role::Tool => message.tool_call_id = fields.maybe_string("tool_call_id")?,
        Role::System | Role::User => {}
    }
    if empty && (role != Role::Assistant || says_nothing(&message)) {
        return Err(fields.missing("content"));
    }
    fields.ignore(&["cache_control"]);
    fields.finish()?;
    Ok(message)
}

fn says_nothing(message: &Message) -> bool {
    message.parts.is_empty() && message.tool_calls.is_empty() && message.thinking.is_none()
}

/// What only the model's own messages have.
fn said(fields: &mut Fields, message: &mut Message) -> Result<(), Fault> {
    let thinking = fields.maybe_string("reasoning_content")?;
    let other = fields.maybe_string("reasoning")?;
    message.thinking = thinking.or(other).filter(|text| !text.is_empty());
    if let Some(refusal) = fields.maybe_string("refusal")? {
        message.parts.push(ContentPart::Text(refusal));
    }
    for (path, item) in fields.items("tool_calls")? {
        let mut call = path.object(item)?;
        let id = call.string("id")?;
        let kind = call.maybe_string("type")?;
        let made = match kind.as_deref() {
            None | Some("function") => {
                let function = call.maybe_object("function")?;
                called(function.ok_or_else(|| call.missing("function"))?, id)?
            }
            Some("custom") => {
                let custom = call.maybe_object("custom")?;
                let mut custom = custom.ok_or_else(|| call.missing("custom"))?;
                let made = custom_call(&mut custom, id)?;
                custom.finish()?;
                made
            }
            Some(kind) => {
                return Err(unsupported(&call.at("type"), &alloc::format!("{kind:?}")));
            }
        };
        // A stream's number of the call, which some clients send back.
        call.ignore(&["index"]);
        call.finish()?;
        message.tool_calls.push(made);
    }
    if let Some(function) = fields.maybe_object("function_call")? {
        message.tool_calls.push(called(function, String::new())?);
    }
    // Notes on an answer of ours that came back as it went out.
    fields.ignore(&["annotations"]);
    Ok(())
}

/// A call of a tool that takes free text.
pub(crate) fn custom_call(fields: &mut Fields, id: String) -> Result<ToolCall, Fault> {
    Ok(ToolCall {
        id,
        name: fields.string("name")?,
        arguments: Json::object([("input", fields.string("input")?.into())]),
    })
}

fn called(mut function: Fields, id: String) -> Result<ToolCall, Fault> {
    let name = function.string("name")?;
    let arguments = match function.take("arguments") {
        None => Json::Object(Vec::new()),
        Some(Json::String(text)) => arguments(&text),
        Some(value @ Json::Object(_)) => value,
        Some(other) => {
            let path = function.at("arguments");
            return Err(path.expected("a string of JSON", &other));
        }
    };
    function.finish()?;
    Ok(ToolCall {
        id,
        name,
        arguments,
    })
}

/// `content`: a text, or pieces.
pub(crate) fn parts(content: Json, path: &JsonPath, role: Role) -> Result<Vec<ContentPart>, Fault> {
    match content {
        Json::String(text) => Ok([ContentPart::Text(text)].into()),
        list @ Json::Array(_) => path
            .list(list)?
            .map(|(path, item)| part(path.object(item)?, role))
            .collect(),
        other => Err(path.expected("a string or an array of parts", &other)),
    }
}

/// Hints to caches, and notes on an answer of ours that came back as it went out.
const PART_NOTES: [&str; 4] = [
    "cache_control",
    "prompt_cache_breakpoint",
    "annotations",
    "logprobs",
];

/// A piece in the words of chats or of responses.
fn part(mut fields: Fields, role: Role) -> Result<ContentPart, Fault> {
    let kind_place = fields.at("type");
    let kind = fields.string("type")?;
    let part = match kind.as_str() {
        "text" | "input_text" => ContentPart::Text(fields.string("text")?),
        "output_text" if role == Role::Assistant => ContentPart::Text(fields.string("text")?),
        "refusal" if role == Role::Assistant => ContentPart::Text(fields.string("refusal")?),
        "image_url" if role != Role::Assistant => chat_image(&mut fields)?,
        "input_image" if role != Role::Assistant => {
            detail(&mut fields)?;
            let path = fields.at("image_url");
            image_at(&fields.string("image_url")?, &path)?
        }
        "input_audio" if role != Role::Assistant => audio(&mut fields)?,
        _ => return Err(unsupported(&kind_place, &alloc::format!("{kind:?}"))),
    };
    fields.ignore(&PART_NOTES);
    fields.finish()?;
    Ok(part)
}

/// Audio in base64. What format it has the file itself says.
fn audio(fields: &mut Fields) -> Result<ContentPart, Fault> {
    let inner = fields.maybe_object("input_audio")?;
    let mut inner = inner.ok_or_else(|| fields.missing("input_audio"))?;
    let format = inner.maybe_word("format", &AUDIO_FORMATS)?;
    let path = inner.at("data");
    let audio = crate::base64::audio(format.map(Into::into), &inner.string("data")?, &path)?;
    inner.finish()?;
    Ok(ContentPart::Audio(audio))
}

/// The formats of audio files that are read.
const AUDIO_FORMATS: [(&str, &str); 4] = [
    ("wav", "wav"),
    ("mp3", "mp3"),
    ("flac", "flac"),
    ("ogg", "ogg"),
];

fn chat_image(fields: &mut Fields) -> Result<ContentPart, Fault> {
    let path = fields.at("image_url");
    match fields.take("image_url") {
        Some(Json::String(url)) => image_at(&url, &path),
        Some(value) => {
            let mut inner = path.object(value)?;
            let url = inner.string("url")?;
            detail(&mut inner)?;
            let image = image_at(&url, &inner.at("url"))?;
            inner.finish()?;
            Ok(image)
        }
        None => Err(fields.missing("image_url")),
    }
}

/// How finely to look at a picture is the model's affair here; a wish for less than it does is not granted.
fn detail(fields: &mut Fields) -> Result<(), Fault> {
    fields.maybe_word("detail", &[("auto", ()), ("high", ())])?;
    Ok(())
}
