//! The items of a conversation: messages, thinking, calls and their results each stand alone here, where chats and the
//! internal language have one message for all that the model said in a turn.

use crate::base64::BASE64;
use crate::gather::arguments;
use crate::request_fields::messages::{ROLES, custom_call, parts};
use crate::request_fields::unsupported;
use alloc::string::String;
use alloc::vec::Vec;
use base64::Engine;
use strata_chat::json::{Fields, Json, JsonPath};
use strata_chat::{Fault, Message, Role, ToolCall};

/// What stands before thinking that clients send back unread. It hides nothing: there is nobody to hide it from.
const SEAL: &str = "strata1.";

/// Thinking in a form that clients send back unread.
pub(super) fn seal(thinking: &str) -> String {
    alloc::format!("{SEAL}{}", BASE64.encode(thinking))
}

fn unseal(text: &str) -> Option<String> {
    let bytes = BASE64.decode(text.strip_prefix(SEAL)?).ok()?;
    String::from_utf8(bytes).ok()
}

/// `input`: a text, or items.
pub(super) fn messages(input: Json, path: &JsonPath) -> Result<Vec<Message>, Fault> {
    let items = match input {
        Json::String(text) => return Ok([Message::text(Role::User, text)].into()),
        list @ Json::Array(_) => path.list(list)?,
        other => return Err(path.expected("a string or an array of items", &other)),
    };
    let mut turns = Turns::default();
    for (path, item) in items {
        turns.item(path.object(item)?)?;
    }
    if turns.messages.is_empty() {
        Err(Fault::field(path, format_args!("must not be empty")))
    } else {
        Ok(turns.messages)
    }
}

#[derive(Default)]
struct Turns {
    messages: Vec<Message>,
}

impl Turns {
    fn item(&mut self, mut fields: Fields) -> Result<(), Fault> {
        let path = fields.at("type");
        let kind = fields.maybe_string("type")?;
        // Names and states that we gave them, and that mean nothing to the model.
        fields.ignore(&["id", "status", "phase"]);
        match kind.as_deref() {
            None | Some("message") => self.message(&mut fields)?,
            Some("function_call") => {
                let call = ToolCall {
                    id: fields.string("call_id")?,
                    name: fields.string("name")?,
                    arguments: arguments(&fields.string("arguments")?),
                };
                self.own(|_| true).tool_calls.push(call);
            }
            Some("custom_tool_call") => {
                let id = fields.string("call_id")?;
                let call = custom_call(&mut fields, id)?;
                self.own(|_| true).tool_calls.push(call);
            }
            Some("function_call_output" | "custom_tool_call_output") => {
                let mut message = Message::new(Role::Tool);
                message.tool_call_id = Some(fields.string("call_id")?);
                message.name = fields.maybe_string("name")?;
                let path = fields.at("output");
                let output = fields.take("output");
                let output = output.ok_or_else(|| fields.missing("output"))?;
                message.parts = parts(output, &path, Role::Tool)?;
                self.messages.push(message);
            }
            Some("reasoning") => {
                let thinking = reasoning(&mut fields)?;
                let fresh =
                    |message: &Message| message.parts.is_empty() && message.tool_calls.is_empty();
                let message = self.own(fresh);
                if !thinking.is_empty() {
                    message.thinking.get_or_insert_default().push_str(&thinking);
                }
            }
            Some(other) => return Err(unsupported(&path, &alloc::format!("{other:?}"))),
        }
        fields.finish()
    }

    fn message(&mut self, fields: &mut Fields) -> Result<(), Fault> {
        let role = fields.maybe_word("role", &ROLES[..4])?;
        let role = role.ok_or_else(|| fields.missing("role"))?;
        let path = fields.at("content");
        let content = fields.take("content");
        let content = content.ok_or_else(|| fields.missing("content"))?;
        let parts = parts(content, &path, role)?;
        if role == Role::Assistant {
            let unsaid =
                |message: &Message| message.parts.is_empty() && message.tool_calls.is_empty();
            self.own(unsaid).parts = parts;
        } else {
            let mut message = Message::new(role);
            message.parts = parts;
            self.messages.push(message);
        }
        Ok(())
    }

    /// The model's message that the item belongs to: the last one if it `fits`, else a new one.
    fn own(&mut self, fits: impl Fn(&Message) -> bool) -> &mut Message {
        let last = self.messages.last();
        if !last.is_some_and(|last| last.role == Role::Assistant && fits(last)) {
            self.messages.push(Message::new(Role::Assistant));
        }
        self.messages.last_mut().expect("one was pushed")
    }
}

/// What was thought: the text itself, else what we sealed, else its summary.
fn reasoning(fields: &mut Fields) -> Result<String, Fault> {
    let content = texts(fields, "content", "reasoning_text")?;
    let sealed = fields.maybe_string("encrypted_content")?;
    let summary = texts(fields, "summary", "summary_text")?;
    let unsealed = sealed.and_then(|text| unseal(&text));
    let known = [Some(content), unsealed, Some(summary)];
    let mut known = known.into_iter().flatten();
    Ok(known.find(|text| !text.is_empty()).unwrap_or_default())
}

fn texts(fields: &mut Fields, name: &str, kind: &str) -> Result<String, Fault> {
    let mut all = String::new();
    for (path, item) in fields.items(name)? {
        let mut part = path.object(item)?;
        part.maybe_word("type", &[(kind, ())])?;
        all.push_str(&part.string("text")?);
        part.finish()?;
    }
    Ok(all)
}
