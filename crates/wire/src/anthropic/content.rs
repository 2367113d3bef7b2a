//! Messages and their blocks.

use crate::base64::image;
use crate::image_url::image_at;
use alloc::string::String;
use alloc::vec::Vec;
use strata_chat::json::{Fields, Json, JsonPath};
use strata_chat::{ContentPart, Fault, Message, Role, ToolCall};

/// A client's note to its provider, different in every request; before a prompt it would spoil every cache.
const BILLING: &str = "x-anthropic-billing-header:";

/// Hints to caches of prompts, which find their prefixes by themselves here.
pub(super) const HINTS: [&str; 1] = ["cache_control"];

/// A value that cannot be honoured.
pub(super) fn unsupported(path: &JsonPath, value: &str) -> Fault {
    Fault::field(path, format_args!("{value:?} is not supported"))
}

/// `system`: a text, or blocks of it.
pub(super) fn system(fields: &mut Fields) -> Result<Option<Message>, Fault> {
    let path = fields.at("system");
    let mut message = Message::new(Role::System);
    match fields.take("system") {
        None => return Ok(None),
        Some(Json::String(text)) => message.parts.push(ContentPart::Text(text)),
        Some(list) => {
            for (path, item) in path.list(list)? {
                let mut block = path.object(item)?;
                block_type(&mut block, &["text"])?;
                let text = text(block)?;
                if !text.starts_with(BILLING) {
                    message.parts.push(ContentPart::Text(text));
                }
            }
        }
    }
    Ok((!message.parts.is_empty()).then_some(message))
}

/// One of `messages`, which is several in the internal language if it has results of tools.
pub(super) fn message(mut fields: Fields, messages: &mut Vec<Message>) -> Result<(), Fault> {
    let roles = [
        ("user", Role::User),
        ("assistant", Role::Assistant),
        ("system", Role::System),
    ];
    let role = fields.maybe_word("role", &roles)?;
    let role = role.ok_or_else(|| fields.missing("role"))?;
    let mut message = Message::new(role);
    let path = fields.at("content");
    match fields.take("content") {
        None => return Err(fields.missing("content")),
        Some(Json::String(text)) => message.parts.push(ContentPart::Text(text)),
        Some(list @ Json::Array(_)) => {
            for (path, item) in path.list(list)? {
                let block = path.object(item)?;
                match role {
                    Role::Assistant => said(block, &mut message)?,
                    Role::System => told(block, &mut message)?,
                    _ => heard(block, &mut message, messages)?,
                }
            }
        }
        Some(other) => return Err(path.expected("a string or an array of blocks", &other)),
    }
    fields.finish()?;
    // A message of nothing but results has nothing left to say.
    let own = role == Role::Assistant;
    if own || !message.parts.is_empty() || !ends_with_result(messages) {
        messages.push(message);
    }
    Ok(())
}

/// A block of a system message.
fn told(mut block: Fields, message: &mut Message) -> Result<(), Fault> {
    block_type(&mut block, &["text"])?;
    message.parts.push(ContentPart::Text(text(block)?));
    Ok(())
}

fn ends_with_result(messages: &[Message]) -> bool {
    messages.last().is_some_and(|last| last.role == Role::Tool)
}

/// A block of the model's.
fn said(mut block: Fields, message: &mut Message) -> Result<(), Fault> {
    let kinds = ["text", "tool_use", "thinking", "redacted_thinking"];
    match block_type(&mut block, &kinds)? {
        "tool_use" => {
            let call = ToolCall {
                id: block.string("id")?,
                name: block.string("name")?,
                arguments: input(&mut block)?,
            };
            // Who called it: always the model itself here.
            block.ignore(&["caller"]);
            message.tool_calls.push(call);
        }
        "thinking" => {
            let thinking = block.string("thinking")?;
            message.thinking.get_or_insert_default().push_str(&thinking);
            block.maybe_string("signature")?;
        }
        // Only the one who wrote it can read it, and that was not us.
        "redacted_thinking" => {
            block.maybe_string("data")?;
        }
        _ => {
            message.parts.push(ContentPart::Text(text(block)?));
            return Ok(());
        }
    }
    block.ignore(&HINTS);
    block.finish()
}

fn input(block: &mut Fields) -> Result<Json, Fault> {
    let path = block.at("input");
    match block.take("input") {
        None => Err(block.missing("input")),
        Some(input @ Json::Object(_)) => Ok(input),
        Some(other) => Err(path.expected("an object", &other)),
    }
}

/// A block of the user's.
fn heard(
    mut block: Fields,
    message: &mut Message,
    messages: &mut Vec<Message>,
) -> Result<(), Fault> {
    match block_type(&mut block, &["text", "image", "tool_result"])? {
        "tool_result" => messages.push(result(block)?),
        "image" => message.parts.push(picture(block)?),
        _ => message.parts.push(ContentPart::Text(text(block)?)),
    }
    Ok(())
}

fn result(mut block: Fields) -> Result<Message, Fault> {
    let mut message = Message::new(Role::Tool);
    message.tool_call_id = Some(block.string("tool_use_id")?);
    let path = block.at("content");
    match block.take("content") {
        None => {}
        Some(Json::String(text)) => message.parts.push(ContentPart::Text(text)),
        Some(list) => {
            for (path, item) in path.list(list)? {
                let mut inner = path.object(item)?;
                message
                    .parts
                    .push(match block_type(&mut inner, &["text", "image"])? {
                        "image" => picture(inner)?,
                        _ => ContentPart::Text(text(inner)?),
                    });
            }
        }
    }
    if block.maybe_boolean("is_error")? == Some(true) {
        // Templates have no place for it, and the model must know.
        message.parts.insert(0, ContentPart::Text("Error: ".into()));
    }
    block.ignore(&HINTS);
    block.finish()?;
    Ok(message)
}

fn picture(mut block: Fields) -> Result<ContentPart, Fault> {
    let source = block.maybe_object("source")?;
    let mut source = source.ok_or_else(|| block.missing("source"))?;
    let path = source.at("type");
    let picture = match source.string("type")?.as_str() {
        "base64" => {
            let kind = source.maybe_string("media_type")?;
            let path = source.at("data");
            ContentPart::Image(image(kind, &source.string("data")?, &path)?)
        }
        "url" => {
            let path = source.at("url");
            image_at(&source.string("url")?, &path)?
        }
        other => return Err(unsupported(&path, other)),
    };
    source.finish()?;
    block.ignore(&HINTS);
    block.finish()?;
    Ok(picture)
}

fn text(mut block: Fields) -> Result<String, Fault> {
    let text = block.string("text")?;
    if let Some((path, _)) = block.items("citations")?.first() {
        return Err(Fault::field(path, format_args!("is not supported")));
    }
    block.ignore(&HINTS);
    block.finish()?;
    Ok(text)
}

/// Which of these blocks it is.
fn block_type(block: &mut Fields, known: &[&'static str]) -> Result<&'static str, Fault> {
    let path = block.at("type");
    let kind = block.string("type")?;
    let found = known.iter().find(|known| **known == kind);
    if found.is_none() && ["audio", "input_audio"].contains(&&*kind) {
        let problem = "is audio, which this API has no blocks for: use /v1/chat/completions";
        return Err(Fault::field(&path, format_args!("{problem}")));
    }
    found.copied().ok_or_else(|| unsupported(&path, &kind))
}
