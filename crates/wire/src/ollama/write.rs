//! Answers: a JSON document a line, or one document. Times are in nanoseconds.

use super::errors;
use crate::answer::{AnswerWriter, Framing, Reply};
use crate::calendar::rfc3339_nanos;
use crate::gather::{Gathered, GatheredCall};
use crate::logprobs::token_logprob;
use crate::stamp::Stamp;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use strata_chat::json::Json;
use strata_chat::{CallPart, Event, Fault, Finish, Generate, Timings, Usage};

/// Which of the two ways an answer is told.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Words {
    /// `response`, with `thinking` beside it.
    Generate,
    /// `message`.
    Chat,
}

impl Words {
    /// What every line begins with.
    pub(super) fn line(self, model: &str, stamp: &Stamp) -> Json {
        let created = rfc3339_nanos(stamp.unix_seconds, stamp.nanoseconds);
        Json::object([("model", model.into()), ("created_at", created.into())])
    }
}

pub(super) struct LineAnswer {
    words: Words,
    model: String,
    stamp: Stamp,
    stream: bool,
    logprobs: bool,
    /// What has not been told yet.
    gathered: Gathered,
    finish: Option<Finish>,
    /// Calls of tools that have been told.
    told: usize,
    /// The tokens of the conversation, where they are told.
    context: Vec<u32>,
}

impl LineAnswer {
    pub(super) fn new(words: Words, request: &Generate, stamp: &Stamp) -> Self {
        Self {
            words,
            model: request.model.clone(),
            stamp: stamp.clone(),
            stream: request.stream,
            logprobs: request.logprobs.is_some(),
            gathered: Gathered::default(),
            finish: None,
            told: 0,
            context: Vec::new(),
        }
    }

    /// A line with what has gathered, which is then forgotten.
    fn line(&mut self) -> Json {
        let mut line = self.words.line(&self.model, &self.stamp);
        let gathered = &mut self.gathered;
        match self.words {
            Words::Generate => {
                line.push("response", gathered.text.as_str());
                if !gathered.thinking.is_empty() {
                    line.push("thinking", gathered.thinking.as_str());
                }
                if !gathered.calls.is_empty() {
                    line.push("tool_calls", calls(&gathered.calls, self.told));
                }
            }
            Words::Chat => line.push("message", message(gathered, self.told)),
        }
        self.told += gathered.calls.len();
        gathered.text.clear();
        gathered.thinking.clear();
        gathered.calls.clear();
        let logprobs = gathered.take_logprobs();
        if self.logprobs && !logprobs.is_empty() {
            line.push("logprobs", Json::array(logprobs.iter().map(token_logprob)));
        }
        line
    }

    fn tell(&mut self, out: &mut Vec<u8>) {
        if self.stream {
            let line = self.line().with("done", false);
            line.write(out);
            out.push(b'\n');
        }
    }

    fn end(&mut self, usage: &Usage, timings: &Timings, out: &mut Vec<u8>) {
        let mut line = self.line().with("done", true);
        let reason = match self.finish {
            Some(Finish::Length) => "length",
            _ => "stop",
        };
        line.push("done_reason", reason);
        if !self.context.is_empty() {
            let mut context = core::mem::take(&mut self.context);
            context.append(&mut self.gathered.tokens);
            line.push("context", context);
        }
        metrics(&mut line, usage, timings);
        line.write(out);
        if self.stream {
            out.push(b'\n');
        }
    }
}

impl AnswerWriter for LineAnswer {
    fn framing(&self) -> Framing {
        if self.stream {
            Framing::Lines
        } else {
            Framing::Whole
        }
    }

    fn event(&mut self, event: &Event, out: &mut Vec<u8>) {
        match event {
            Event::Started { .. } | Event::Progress { .. } => {}
            Event::Prompt { tokens, .. } => {
                if self.words == Words::Generate {
                    self.context.clone_from(tokens);
                }
            }
            Event::Token { .. } => self.gathered.add(event),
            Event::Text { .. } | Event::Thinking { .. } => {
                self.gathered.add(event);
                self.tell(out);
            }
            // This dialect tells a call when it is complete.
            Event::Call { choice, part, .. } => {
                if !self.stream {
                    return self.gathered.add(event);
                }
                if let CallPart::End(_) = part {
                    let (choice, index, part) = (*choice, 0, part.clone());
                    self.gathered.add(&Event::Call {
                        choice,
                        index,
                        part,
                    });
                    self.tell(out);
                }
            }
            Event::Finished { reason, .. } => self.finish = Some(reason.clone()),
            Event::Done { usage, timings } => self.end(usage, timings, out),
            Event::Failed(fault) if self.stream => {
                errors::document(fault).write(out);
                out.push(b'\n');
            }
            Event::Failed(_) => {}
        }
    }

    fn fault(&self, fault: &Fault) -> Reply {
        errors::fault(fault)
    }
}

/// A message of the model's, after so many calls that were told before.
pub(super) fn message(gathered: &Gathered, told: usize) -> Json {
    let mut message = Json::object([
        ("role", "assistant".into()),
        ("content", gathered.text.as_str().into()),
    ]);
    if !gathered.thinking.is_empty() {
        message.push("thinking", gathered.thinking.as_str());
    }
    if !gathered.calls.is_empty() {
        message.push("tool_calls", calls(&gathered.calls, told));
    }
    message
}

fn calls(calls: &[GatheredCall], told: usize) -> Json {
    Json::array(calls.iter().enumerate().map(|(index, call)| {
        let function = Json::object([
            ("index", (told + index).into()),
            ("name", call.name.as_str().into()),
            ("arguments", call.input()),
        ]);
        Json::object([("id", call.id.as_str().into()), ("function", function)])
    }))
}

/// What the last line tells.
fn metrics(line: &mut Json, usage: &Usage, timings: &Timings) {
    line.push("total_duration", nanoseconds(timings.total));
    line.push("load_duration", nanoseconds(timings.load));
    line.push("prompt_eval_count", usage.prompt_tokens);
    line.push("prompt_eval_cached_count", usage.cached_tokens);
    line.push("prompt_eval_duration", nanoseconds(timings.prompt));
    line.push("eval_count", usage.generated_tokens);
    line.push("eval_duration", nanoseconds(timings.generate));
}

pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
