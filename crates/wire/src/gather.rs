//! An answer as it adds up from its events, for replies that are one document.

use alloc::string::String;
use alloc::vec::Vec;
use strata_chat::json::Json;
use strata_chat::{CallPart, Event, Finish, TokenLogprobs, ToolCall};

/// One choice of an answer, as far as it has come.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) text: String,
    pub(crate) thinking: String,
    pub(crate) calls: Vec<GatheredCall>,
    pub(crate) tokens: Vec<u32>,
    /// Of the tokens that became text, not of those of thinking and calls.
    pub(crate) logprobs: Vec<TokenLogprobs>,
    pub(crate) finish: Option<Finish>,
    /// Log-probabilities of tokens whose text has not come yet.
    waiting: Vec<TokenLogprobs>,
}

/// A tool's call, with its arguments as the model wrote them.
#[derive(Clone, Debug, Default)]
pub(crate) struct GatheredCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) arguments: String,
}

impl GatheredCall {
    /// A call with nothing yet but the names that its first part gives it.
    pub(crate) fn opened_by(part: &CallPart) -> Self {
        let (id, name) = match part {
            CallPart::Begin { id, name } => (id.clone(), name.clone()),
            CallPart::End(call) => (call.id.clone(), call.name.clone()),
            CallPart::Arguments(_) => Default::default(),
        };
        Self {
            id,
            name,
            arguments: String::new(),
        }
    }

    /// Takes in a part of the call, and gives the text that it adds to the arguments.
    pub(crate) fn add(&mut self, part: &CallPart) -> String {
        let more = match part {
            CallPart::Begin { id, name } => {
                self.id.clone_from(id);
                self.name.clone_from(name);
                return String::new();
            }
            CallPart::Arguments(text) => text.clone(),
            CallPart::End(whole) => {
                self.id.clone_from(&whole.id);
                self.name.clone_from(&whole.name);
                if self.arguments.is_empty() {
                    arguments_text(&whole.arguments)
                } else {
                    return String::new();
                }
            }
        };
        self.arguments.push_str(&more);
        more
    }

    /// The arguments as an object, for dialects that have no other. A call that was cut off has none that can be used, as
    /// with Anthropic's own API.
    pub(crate) fn input(&self) -> Json {
        match arguments(&self.arguments) {
            object @ Json::Object(_) => object,
            _ => Json::Object(Vec::new()),
        }
    }

    /// The call with its arguments read; what is not JSON stays a text.
    pub(crate) fn read(&self) -> ToolCall {
        ToolCall {
            id: self.id.clone(),
            name: self.name.clone(),
            arguments: arguments(&self.arguments),
        }
    }
}

impl Gathered {
    /// Takes in what an event says about this choice.
    pub(crate) fn add(&mut self, event: &Event) {
        match event {
            Event::Text { text, .. } => {
                self.text.push_str(text);
                self.logprobs.append(&mut self.waiting);
            }
            Event::Thinking { text, .. } => {
                self.thinking.push_str(text);
                self.waiting.clear();
            }
            Event::Call { index, part, .. } => {
                self.waiting.clear();
                self.call(*index, part);
            }
            Event::Token {
                token, logprobs, ..
            } => {
                self.tokens.push(*token);
                self.waiting.extend(logprobs.clone());
            }
            Event::Finished { reason, .. } => self.finish = Some(reason.clone()),
            Event::Started { .. }
            | Event::Prompt { .. }
            | Event::Progress { .. }
            | Event::Done { .. }
            | Event::Failed(_) => {}
        }
    }

    /// Log-probabilities of the text since this was last asked.
    pub(crate) fn take_logprobs(&mut self) -> Vec<TokenLogprobs> {
        core::mem::take(&mut self.logprobs)
    }

    fn call(&mut self, index: usize, part: &CallPart) {
        if self.calls.len() <= index {
            self.calls.resize_with(index + 1, GatheredCall::default);
        }
        self.calls[index].add(part);
    }
}

/// Arguments that a client or model sent as text; what is not JSON stays a text.
pub(crate) fn arguments(text: &str) -> Json {
    if text.trim().is_empty() {
        return Json::Object(Vec::new());
    }
    Json::parse(text.as_bytes()).unwrap_or_else(|_| text.into())
}

/// The text of a call to a tool that takes free text, as far as it was written.
pub(crate) fn custom_input(arguments: &str) -> String {
    let input = |text: &str| match Json::parse(text.as_bytes()) {
        Ok(value) => value.get("input").and_then(Json::as_str).map(String::from),
        Err(_) => None,
    };
    let cut = || input(&[arguments, "\"}"].concat());
    input(arguments).or_else(cut).unwrap_or_default()
}

/// Arguments as text.
pub(crate) fn arguments_text(arguments: &Json) -> String {
    match arguments {
        Json::String(text) => text.clone(),
        Json::Null => "{}".into(),
        other => other.text(),
    }
}
