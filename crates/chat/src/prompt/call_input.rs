//! How a chat template wants a model's past calls, found by rendering a small conversation with two of them.
//!
//! Templates differ in what they read: arguments as values or as JSON, a message with calls as one without content, several
//! calls in a message or one. Some write no calls at all.

use super::values::{self, TemplateInput};
use super::{Conversation, told_in_text};
use crate::json::Json;
use crate::tools::CallFormat;
use crate::{Message, Role, Tool, ToolCall};
use alloc::borrow::Cow;
use alloc::vec::Vec;
use strata_template::jinja::{DateTime, RenderOptions, Template};
use strata_tokenizer::Tokenizer;

/// What a template reads.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct CallInput {
    /// Arguments as a text of JSON.
    pub(super) text_arguments: bool,
    /// No content beside calls.
    pub(super) no_content: bool,
    calls: Calls,
}

/// What a template writes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
enum Calls {
    /// All of a message.
    #[default]
    All,
    /// The only one of a message.
    One,
    /// None.
    None,
}

const NAMES: [&str; 2] = ["first_probe", "second_probe"];
const KEY: &str = "probe_key";
const VALUE: &str = "probe value";

impl CallInput {
    /// Of a template whose family writes calls in this format.
    pub(super) fn of(template: &Template, tokenizer: &Tokenizer, format: CallFormat) -> Self {
        for (calls, count) in [(Calls::All, 2), (Calls::One, 1)] {
            for (text_arguments, no_content) in
                [(false, false), (false, true), (true, false), (true, true)]
            {
                let input = Self {
                    text_arguments,
                    no_content,
                    calls,
                };
                if input.is_written(count, template, tokenizer, format) {
                    return input;
                }
            }
        }
        Self {
            calls: Calls::None,
            ..Self::default()
        }
    }

    /// Whether the template writes so many calls that it is given in this way.
    fn is_written(
        self,
        count: usize,
        template: &Template,
        tokenizer: &Tokenizer,
        format: CallFormat,
    ) -> bool {
        let ids = ["probe0000", "probe0001"];
        let call = |index: usize| ToolCall {
            id: ids[index].into(),
            name: NAMES[index].into(),
            arguments: Json::object([(KEY, VALUE.into())]),
        };
        let mut answer = Message::new(Role::Assistant);
        answer.tool_calls = (0..count).map(call).collect();
        let conversation = Conversation {
            messages: &[Message::text(Role::User, "Probe."), answer],
            tools: &[Tool {
                name: "probe".into(),
                description: Some("Probes.".into()),
                // Some templates go through the properties, whatever there are.
                parameters: Json::object([
                    ("type", "object".into()),
                    ("properties", Json::object([])),
                ]),
                strict: false,
            }],
            closed: true,
            ..Conversation::default()
        };
        let input = TemplateInput {
            format,
            calls: self,
        };
        let context = values::context(tokenizer, &conversation, &["Probe.", ""], input);
        let options = RenderOptions {
            now: Some(DateTime::from_unix(0)),
            ..RenderOptions::default()
        };
        let Ok(text) = template.render(&context, &options) else {
            return false;
        };
        // JSON within a text is quoted twice.
        let twice = text.contains("\\\"probe_key");
        let all = NAMES[..count].iter().all(|name| text.contains(name));
        all && text.contains(KEY) && text.contains(VALUE) && !twice
    }

    /// The messages as the template writes their calls.
    pub(super) fn arranged(self, messages: &[Message]) -> Cow<'_, [Message]> {
        let splits = |message: &Message| {
            let calls = message.tool_calls.len();
            calls > 1 && self.calls == Calls::One
                || calls > 0 && self.calls == Calls::None
                || calls > 0 && self.no_content && !message.joined().is_empty()
        };
        if !messages.iter().any(splits) {
            return messages.into();
        }
        let mut arranged: Vec<Message> = Vec::with_capacity(messages.len() + 1);
        let mut rest = messages;
        while let Some((message, after)) = rest.split_first() {
            rest = after;
            if !splits(message) {
                arranged.push(message.clone());
            } else if self.calls == Calls::None {
                arranged.push(told_in_text(message));
            } else {
                let results = after.iter().take_while(|next| next.role == Role::Tool);
                let results = &after[..results.count()];
                rest = &after[results.len()..];
                self.split(message, results, &mut arranged);
            }
        }
        arranged.into()
    }

    /// A message with calls as several, and their results.
    fn split(self, message: &Message, results: &[Message], arranged: &mut Vec<Message>) {
        let mut said = Message {
            tool_calls: Vec::new(),
            ..message.clone()
        };
        if self.no_content && !said.joined().is_empty() {
            let text = core::mem::replace(&mut said, Message::new(Role::Assistant));
            arranged.push(text);
        }
        if self.calls == Calls::All {
            said.tool_calls.clone_from(&message.tool_calls);
            arranged.push(said);
            arranged.extend_from_slice(results);
            return;
        }
        let mut left: Vec<&Message> = results.iter().collect();
        for call in &message.tool_calls {
            let mut one = core::mem::replace(&mut said, Message::new(Role::Assistant));
            one.tool_calls = [call.clone()].into();
            arranged.push(one);
            let own = |result: &&Message| {
                let id = result.tool_call_id.as_ref();
                id.is_none_or(|id| *id == call.id)
            };
            if let Some(at) = left.iter().position(own) {
                arranged.push(left.remove(at).clone());
            }
        }
        arranged.extend(left.into_iter().cloned());
    }
}
