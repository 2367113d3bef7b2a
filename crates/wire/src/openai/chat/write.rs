//! Writing a chat's answer: one document, or chunks.

use super::super::{Head, errors, usage};
use crate::logprobs::token_logprob;
use crate::request_fields::chat::ReplyOptions;
use crate::timings;

use crate::answer::{AnswerWriter, Framing, Reply, server_sent};
use crate::gather::{Gathered, arguments_text};
use crate::stamp::Stamp;
use alloc::vec::Vec;
use strata_chat::json::Json;
use strata_chat::{CallPart, Event, Fault, Finish, Generate, Timings, TokenLogprobs, Usage};

pub(super) struct ChatAnswer {
    head: Head,
    options: ReplyOptions,
    stream: bool,
    logprobs: bool,
    choices: Vec<Choice>,
}

#[derive(Default)]
struct Choice {
    /// The chunk with the role went out.
    begun: bool,
    gathered: Gathered,
}

/// What stands beside a delta.
#[derive(Default)]
struct Beside {
    logprobs: Json,
    finish_reason: Json,
    tokens: Option<Vec<u32>>,
}

impl ChatAnswer {
    pub(super) fn new(request: &Generate, options: ReplyOptions, stamp: &Stamp) -> Self {
        let object = if request.stream {
            "chat.completion.chunk"
        } else {
            "chat.completion"
        };
        let mut choices = Vec::new();
        choices.resize_with(request.choices, Choice::default);
        Self {
            head: Head::new("chatcmpl-", object, &request.model, stamp),
            options,
            stream: request.stream,
            logprobs: request.logprobs.is_some(),
            choices,
        }
    }

    fn choice(&mut self, index: usize) -> &mut Choice {
        if self.choices.len() <= index {
            self.choices.resize_with(index + 1, Choice::default);
        }
        &mut self.choices[index]
    }

    /// Sends a chunk about one choice.
    fn chunk(&self, index: usize, delta: Json, beside: Beside, out: &mut Vec<u8>) {
        let mut choice = Json::object([
            ("index", index.into()),
            ("delta", delta),
            ("logprobs", beside.logprobs),
            ("finish_reason", beside.finish_reason),
        ]);
        if let (Some(key), Some(tokens)) = (self.options.tokens, beside.tokens) {
            choice.push(key, tokens);
        }
        let mut chunk = self.head.object();
        chunk.push("choices", Json::array([choice]));
        if self.options.usage {
            chunk.push("usage", Json::Null);
        }
        server_sent(None, &chunk, out);
    }

    fn begin(&mut self, index: usize, out: &mut Vec<u8>) {
        let choice = self.choice(index);
        if !core::mem::replace(&mut choice.begun, true) {
            let delta = Json::object([("role", "assistant".into()), ("content", "".into())]);
            self.chunk(index, delta, Beside::default(), out);
        }
    }

    fn stream_event(&mut self, event: &Event, out: &mut Vec<u8>) {
        let index = match event {
            Event::Started { .. } => {
                for index in 0..self.choices.len() {
                    self.begin(index, out);
                }
                return;
            }
            Event::Prompt { .. } => return,
            Event::Done { usage, timings } => return self.end(usage, timings, out),
            Event::Failed(fault) => return server_sent(None, &errors::document(fault), out),
            Event::Text { choice, .. }
            | Event::Thinking { choice, .. }
            | Event::Call { choice, .. }
            | Event::Token { choice, .. }
            | Event::Finished { choice, .. } => *choice,
        };
        let spelt = match event {
            Event::Call { index: call, .. } => {
                let calls = &self.choice(index).gathered.calls;
                calls
                    .get(*call)
                    .is_some_and(|call| !call.arguments.is_empty())
            }
            _ => false,
        };
        self.choice(index).gathered.add(event);
        let Some(delta) = self.delta(event, spelt) else {
            return;
        };
        self.begin(index, out);
        let beside = self.beside(index, event);
        self.chunk(index, delta, beside, out);
    }

    /// What an event adds to the message; `spelt` if a call's arguments were told before.
    fn delta(&self, event: &Event, spelt: bool) -> Option<Json> {
        Some(match event {
            Event::Text { text, .. } => Json::object([("content", text.as_str().into())]),
            Event::Thinking { text, .. } => Json::object([
                ("reasoning_content", text.as_str().into()),
                ("reasoning", text.as_str().into()),
            ]),
            // Before there were tools there was one call at most.
            Event::Call { index, .. } if self.options.legacy && *index > 0 => return None,
            Event::Call { index, part, .. } => {
                let mut call = Json::object([("index", (*index).into())]);
                let function = match part {
                    CallPart::Begin { id, name } => {
                        call.push("id", id.as_str());
                        call.push("type", "function");
                        Json::object([("name", name.as_str().into()), ("arguments", "".into())])
                    }
                    CallPart::Arguments(text) => {
                        Json::object([("arguments", text.as_str().into())])
                    }
                    CallPart::End(_) if spelt => return None,
                    CallPart::End(call) => {
                        Json::object([("arguments", arguments_text(&call.arguments).into())])
                    }
                };
                if self.options.legacy {
                    return Some(Json::object([("function_call", function)]));
                }
                call.push("function", function);
                Json::object([("tool_calls", Json::array([call]))])
            }
            Event::Finished { .. } => Json::Object(Vec::new()),
            _ => return None,
        })
    }

    fn beside(&mut self, index: usize, event: &Event) -> Beside {
        let mut beside = Beside::default();
        let (told, legacy) = (self.logprobs, self.options.legacy);
        let gathered = &mut self.choice(index).gathered;
        beside.tokens = Some(core::mem::take(&mut gathered.tokens));
        let logprobs = gathered.take_logprobs();
        if told && matches!(event, Event::Text { .. }) {
            beside.logprobs = token_logprobs(&logprobs);
        }
        if let Event::Finished { reason, .. } = event {
            beside.finish_reason = finish_reason(reason, legacy).into();
        }
        beside
    }

    fn end(&self, used: &Usage, timings: &Timings, out: &mut Vec<u8>) {
        if self.options.usage {
            let mut chunk = self.head.object();
            chunk.push("choices", Json::Array(Vec::new()));
            chunk.push("usage", usage::usage(used));
            chunk.push("timings", timings::write(used, timings));
            server_sent(None, &chunk, out);
        }
        out.extend_from_slice(b"data: [DONE]\n\n");
    }

    fn document(&self, used: &Usage, timings: &Timings) -> Json {
        let choices = self.choices.iter().enumerate().map(|(index, choice)| {
            let gathered = &choice.gathered;
            let logprobs = if self.logprobs {
                token_logprobs(&gathered.logprobs)
            } else {
                Json::Null
            };
            let reason = gathered.finish.as_ref();
            let reason = reason.map(|reason| finish_reason(reason, self.options.legacy));
            let mut object = Json::object([
                ("index", index.into()),
                ("message", message(gathered, self.options.legacy)),
                ("logprobs", logprobs),
                ("finish_reason", reason.into()),
            ]);
            if let Some(key) = self.options.tokens {
                object.push(key, gathered.tokens.clone());
            }
            object
        });
        let mut document = self.head.object();
        document.push("choices", Json::array(choices));
        document.push("usage", usage::usage(used));
        document.push("timings", timings::write(used, timings));
        document
    }
}

impl AnswerWriter for ChatAnswer {
    fn framing(&self) -> Framing {
        Framing::events_if(self.stream)
    }

    fn event(&mut self, event: &Event, out: &mut Vec<u8>) {
        if self.stream {
            return self.stream_event(event, out);
        }
        match event {
            Event::Done { usage, timings } => self.document(usage, timings).write(out),
            Event::Started { .. } | Event::Prompt { .. } | Event::Failed(_) => {}
            Event::Text { choice, .. }
            | Event::Thinking { choice, .. }
            | Event::Call { choice, .. }
            | Event::Token { choice, .. }
            | Event::Finished { choice, .. } => self.choice(*choice).gathered.add(event),
        }
    }

    fn fault(&self, fault: &Fault) -> Reply {
        errors::fault(fault)
    }
}

fn message(gathered: &Gathered, legacy: bool) -> Json {
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
        let function = Json::object([
            ("name", call.name.as_str().into()),
            ("arguments", call.arguments.as_str().into()),
        ]);
        (call.id.as_str(), function)
    });
    if legacy {
        if let Some((_, function)) = calls.next() {
            message.push("function_call", function);
        }
    } else if !gathered.calls.is_empty() {
        let calls = calls.map(|(id, function)| {
            Json::object([
                ("id", id.into()),
                ("type", "function".into()),
                ("function", function),
            ])
        });
        message.push("tool_calls", Json::array(calls));
    }
    message
}

pub(in crate::openai) fn finish_reason(reason: &Finish, legacy: bool) -> &'static str {
    match reason {
        Finish::Stop | Finish::StopText(_) => "stop",
        Finish::Length => "length",
        Finish::ToolCalls if legacy => "function_call",
        Finish::ToolCalls => "tool_calls",
    }
}

fn token_logprobs(tokens: &[TokenLogprobs]) -> Json {
    let content = tokens.iter().map(token_logprob);
    Json::object([("content", Json::array(content)), ("refusal", Json::Null)])
}
