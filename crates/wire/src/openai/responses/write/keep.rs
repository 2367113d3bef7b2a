//! What is kept of a response: its document, its turn, and what it adds to a conversation.

use super::ResponseAnswer;
use crate::call::Kept;
use crate::openai::responses::document::Kind;
use crate::openai::responses::input_items;
use strata_chat::json::Json;
use strata_chat::{ContentPart, Message, Role};

impl ResponseAnswer {
    /// Keeps the answer, and what it adds to a conversation, if they are to be kept.
    pub(super) fn keep(&mut self, document: &Json) {
        let mut messages = core::mem::take(&mut self.options.conversation);
        let added = self.options.kept_conversation.take().map(|id| {
            let new = messages.get(self.options.earlier..).unwrap_or_default();
            let mut items = input_items::items(new, &self.stamp.id);
            let sealed = self.options.sealed;
            items.extend(self.items.iter().map(|item| item.document(sealed)));
            (id, items)
        });
        messages.push(self.message());
        if self.options.store || added.is_some() {
            self.kept = Some(Kept {
                id: self.id(),
                document: if self.options.store {
                    document.clone()
                } else {
                    Json::Null
                },
                messages,
                added,
            });
        }
    }

    /// The answer as a turn of the conversation.
    fn message(&self) -> Message {
        let mut message = Message::new(Role::Assistant);
        for item in &self.items {
            match &item.kind {
                Kind::Reasoning(text) => message.thinking.get_or_insert_default().push_str(text),
                Kind::Message { text, .. } => message.parts.push(ContentPart::Text(text.clone())),
                Kind::Call { call, .. } => message.tool_calls.push(call.read()),
            }
        }
        message
    }
}
