//! Messages of a conversation.

use crate::fault::Fault;
use crate::json::Json;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// The author of a message.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Instructions; `developer` in newer APIs.
    System,
    /// The user.
    User,
    /// The model.
    Assistant,
    /// A tool's result.
    Tool,
}

impl Role {
    /// The role's name in chat templates.
    pub fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// A message of a conversation.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The author.
    pub role: Role,
    /// The content, in order.
    pub parts: Vec<ContentPart>,
    /// The model's thinking that led to the message.
    pub thinking: Option<String>,
    /// Tool calls made by the model.
    pub tool_calls: Vec<ToolCall>,
    /// For a tool's result, the id of the call.
    pub tool_call_id: Option<String>,
    /// The name of the author or of the tool.
    pub name: Option<String>,
}

impl Message {
    /// An empty message.
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

    /// A message of plain text.
    pub fn text(role: Role, text: impl Into<String>) -> Self {
        Self {
            parts: [ContentPart::Text(text.into())].into(),
            ..Self::new(role)
        }
    }

    /// The text of all parts.
    pub fn joined(&self) -> String {
        let texts = self.parts.iter().map(|part| match part {
            ContentPart::Text(text) => text.as_str(),
            ContentPart::Image(_) | ContentPart::ImageUrl(_) | ContentPart::Audio(_) => "",
        });
        texts.collect()
    }
}

/// Fills in the tool names of results that only have a call id.
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

/// A part of a message's content.
#[derive(Clone, Debug, PartialEq)]
pub enum ContentPart {
    /// Text.
    Text(String),
    /// An image.
    Image(Image),
    /// An image that is somewhere else. Who takes the request replaces it with the image, or it is refused.
    ImageUrl(ImageUrl),
    /// Audio.
    Audio(Audio),
}

/// Where an image is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageUrl {
    /// An address that begins with `https://`.
    pub url: String,
    /// The request's field that names it.
    pub field: String,
}

impl ImageUrl {
    /// Refuses it; `problem` follows the field's name.
    pub fn refused(&self, problem: impl fmt::Display) -> Fault {
        Fault {
            field: Some(self.field.clone()),
            ..Fault::bad_request(format_args!("{}: {problem}", self.field))
        }
    }

    /// Nobody fetched it.
    pub(crate) fn not_fetched(&self) -> Fault {
        self.refused(
            "must be a data: URL; a server fetches images from elsewhere only with --allow-image-urls",
        )
    }
}

/// An image file, not decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The media type the client gave, such as `image/png`.
    pub media_type: Option<String>,
    /// The file's bytes.
    pub bytes: Vec<u8>,
}

/// An audio file, not decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audio {
    /// The format the client gave, such as `wav`. The file's first bytes say what it is.
    pub format: Option<String>,
    /// The file's bytes.
    pub bytes: Vec<u8>,
}

/// A tool call made by the model.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The call's id.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments, usually an object.
    pub arguments: Json,
}
