//! Writing a chat's answer: one document, or chunks.

mod message;

use super::super::{Head, errors, usage};
use crate::logprobs::{of_prompt, token_logprob};
use crate::request_fields::chat::ReplyOptions;
use crate::timings;

use crate::answer::{AnswerWriter, Framing, Reply, server_sent};
use crate::call::Kept;
use crate::gather::{Gathered, arguments_text};
use crate::stamp::Stamp;
use alloc::vec::Vec;
use message::{custom_delta, message};
use strata_chat::json::Json;
use strata_chat::{
    CallPart, Event, Fault, Finish, Generate, Message, Prompt, Role, Timings, TokenLogprobs, Usage,
};

pub(super) struct ChatAnswer {
    head: Head,
    options: ReplyOptions,
    stream: bool,
    logprobs: bool,
    prompt_logprobs: bool,
    /// What is told of the prompt.
    prompt: Vec<(&'static str, Json)>,
    /// The conversation, where the answer is kept.
    conversation: Vec<Message>,
    kept: Option<Kept>,
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
    progress: Option<Json>,
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
            stream: request.stream,
            logprobs: request.logprobs.is_some(),
            prompt_logprobs: request.prompt_logprobs.is_some(),
            prompt: Vec::new(),
            conversation: match request.prompts.first() {
                Some(Prompt::Chat(messages)) if options.stored.is_some() => messages.clone(),
                _ => Vec::new(),
            },
            kept: None,
            options,
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
        if let Some(progress) = beside.progress {
            chunk.push("prompt_progress", progress);
        }
        self.options.report.add_timings(&mut chunk);
        server_sent(None, &chunk, out);
    }

    fn begin(&mut self, index: usize, out: &mut Vec<u8>) {
        let choice = self.choice(index);
        if !core::mem::replace(&mut choice.begun, true) {
            // Whether there will be any text is not known yet.
            let delta = Json::object([("role", "assistant".into()), ("content", Json::Null)]);
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
            Event::Progress { .. } => {
                let progress = self.options.report.hear(event);
                if progress.is_some() {
                    let beside = Beside {
                        progress,
                        ..Beside::default()
                    };
                    self.chunk(0, Json::Object(Vec::new()), beside, out);
                }
                return;
            }
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
            Event::Call {
                choice,
                index,
                part,
            } if self.is_custom(*choice, *index) => custom_delta(*index, part)?,
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

    fn is_custom(&self, choice: usize, call: usize) -> bool {
        let calls = self.choices.get(choice).map(|c| &c.gathered.calls);
        let call = calls.and_then(|calls| calls.get(call));
        call.is_some_and(|call| self.options.custom.contains(&call.name))
    }

    /// Keeps the answer, if it is to be kept.
    fn keep(&mut self, used: &Usage, timings: &Timings) {
        let Some(labels) = self.options.stored.take() else {
            return;
        };
        self.head.object = "chat.completion";
        let mut messages = core::mem::take(&mut self.conversation);
        messages.push(Message::new(Role::Assistant));
        self.kept = Some(Kept {
            id: self.head.id.clone(),
            document: self.document(used, timings).with("metadata", labels),
            messages,
            ..Kept::default()
        });
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
                ("message", message(gathered, &self.options)),
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
        for (key, value) in &self.prompt {
            document.push(key, value.clone());
        }
        document
    }

    fn prompt(&mut self, text: &str, tokens: &[u32], logprobs: &[TokenLogprobs]) {
        if self.options.verbose {
            let seen = Json::object([("prompt", text.into())]);
            self.prompt.push(("__verbose", seen));
        }
        if self.options.tokens == Some("token_ids") {
            let tokens = tokens.to_vec().into();
            self.prompt.push(("prompt_token_ids", tokens));
        }
        if self.prompt_logprobs {
            self.prompt.push(("prompt_logprobs", of_prompt(logprobs)));
        }
    }
}

impl AnswerWriter for ChatAnswer {
    fn framing(&self) -> Framing {
        Framing::events_if(self.stream)
    }

    fn event(&mut self, event: &Event, out: &mut Vec<u8>) {
        if self.stream {
            self.stream_event(event, out);
            if let Event::Done { usage, timings } = event {
                self.keep(usage, timings);
            }
            return;
        }
        match event {
            Event::Done { usage, timings } => {
                self.document(usage, timings).write(out);
                self.keep(usage, timings);
            }
            Event::Prompt {
                text,
                tokens,
                logprobs,
                ..
            } => self.prompt(text, tokens, logprobs),
            Event::Started { .. } | Event::Progress { .. } | Event::Failed(_) => {}
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

    fn answered_by(&mut self, model: &str) {
        self.head.answered_by(model);
    }

    fn kept(&mut self) -> Option<Kept> {
        self.kept.take()
    }
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
