//! What was said in a conversation.

use crate::json::Json;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

/// Who speaks.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// The one who sets the rules; `developer` in newer dialects.
    System,
    /// The person.
    User,
    /// The model.
    Assistant,
    /// A tool's result.
    Tool,
}

impl Role {
    /// The word that chat templates know.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said, in order.
    pub parts: Vec<ContentPart>,
    /// What the model thought before it spoke.
    pub thinking: Option<String>,
    /// The tools that the model called.
    pub tool_calls: Vec<ToolCall>,
    /// Of a tool's result: the call that it answers.
    pub tool_call_id: Option<String>,
    /// The speaker's or tool's name.
    pub name: Option<String>,
}

impl Message {
    /// A message that says nothing yet.
    pub fn new(role: Role) -> Self {
        Self {
            role,
            parts: Vec::new(),
            thinking: None,
            tool_calls: Vec::new(),
            tool_call_id: None,
            name: None,
        }
    }

    /// A message that is only text.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self {
            parts: [ContentPart::Text(text.into())].into(),
            ..Self::new(role)
        }
    }

    /// All its text.
    pub fn joined(&self) -> String {
        let texts = self.parts.iter().map(|part| match part {
            ContentPart::Text(text) => text.as_str(),
            ContentPart::Image(_) => "",
        });
        texts.collect()
    }
}

/// Gives each tool's result the name of the tool, from the call that it answers, where the client did not say it.
pub fn name_results(messages: &mut [Message]) {
    let mut names = BTreeMap::new();
    for message in messages {
        for call in &message.tool_calls {
            names.insert(call.id.clone(), call.name.clone());
        }
        if message.role == Role::Tool && message.name.is_none() {
            let id = message.tool_call_id.as_ref();
            message.name = id.and_then(|id| names.get(id)).cloned();
        }
    }
}

/// A part of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum ContentPart {
    /// Text.
    Text(String),
    /// A picture.
    Image(Image),
}

/// A picture as it was sent: its bytes, undecoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// What the client says it is, such as `image/png`.
    pub media_type: Option<String>,
    /// The file's bytes.
    pub bytes: Vec<u8>,
}

/// A call of a tool by the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// Names the call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments, usually an object.
    pub arguments: Json,
}
