//! gpt-oss's channels: `<|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…`.
//!
//! The analysis channel is thinking, a message to a function is a call, everything else is the answer. An answer begins
//! inside a message's header, since the prompt ends with `<|start|>assistant`.

use super::{AnswerPart, emit, partial};
use crate::tools::object_reader::ObjectReader;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

const MESSAGE: &str = "<|message|>";
const ENDS: [&str; 3] = ["<|end|>", "<|call|>", "<|return|>"];

#[derive(Debug, Default)]
pub(super) struct Harmony {
    held: String,
    body: Option<Body>,
}

#[derive(Debug)]
enum Body {
    Thinking,
    Text,
    /// To a function.
    Call(String, Told),
}

/// How much of a call was told.
#[derive(Debug)]
enum Told {
    /// Nothing: its arguments have not begun, or not as an object.
    Nothing,
    Part(ObjectReader),
    All,
}

impl Harmony {
    pub(super) fn push(&mut self, text: &str, tools: &[String], out: &mut Vec<AnswerPart>) {
        self.held.push_str(text);
        while self.advance(tools, out) {}
    }

    fn advance(&mut self, tools: &[String], out: &mut Vec<AnswerPart>) -> bool {
        let Some(body) = &mut self.body else {
            let Some(at) = self.held.find(MESSAGE) else {
                return false;
            };
            self.body = Some(header(&self.held[..at]));
            self.held.drain(..at + MESSAGE.len());
            return true;
        };
        let end = ENDS
            .iter()
            .filter_map(|end| Some((self.held.find(end)?, end.len())))
            .min();
        if let Some((at, len)) = end {
            let rest = self.held.split_off(at + len);
            self.held.truncate(at);
            let text = core::mem::replace(&mut self.held, rest);
            put(body, text, tools, out);
            self.body = None;
            return true;
        }
        let keep = ENDS.iter().map(|end| partial(&self.held, end)).max();
        let clear = self.held.len() - keep.unwrap_or(0);
        match body {
            Body::Call(name, told) => follow(name, told, clear, &mut self.held, tools, out),
            body => {
                let rest = self.held.split_off(clear);
                put(body, core::mem::replace(&mut self.held, rest), tools, out);
            }
        }
        false
    }

    pub(super) fn finish(&mut self, tools: &[String], out: &mut Vec<AnswerPart>) {
        let held = core::mem::take(&mut self.held);
        match self.body.take() {
            Some(mut body) => put(&mut body, held, tools, out),
            // A header without a message, or a model that does not keep to channels.
            None => emit(AnswerPart::Text, held, out),
        }
    }
}

fn header(text: &str) -> Body {
    let recipient = text
        .split_once("to=functions.")
        .map(|(_, rest)| rest.split([' ', '<', '\n']).next().unwrap_or(rest));
    match recipient {
        Some(name) => Body::Call(name.to_string(), Told::Nothing),
        None if text.contains("<|channel|>analysis") => Body::Thinking,
        None => Body::Text,
    }
}

/// Tells what is clear of a call's arguments, and drops it from what is held.
fn follow(
    name: &str,
    told: &mut Told,
    clear: usize,
    held: &mut String,
    tools: &[String],
    out: &mut Vec<AnswerPart>,
) {
    let text = &held[..clear];
    if matches!(told, Told::Nothing) {
        let begins = text.trim_start().starts_with('{');
        if !begins || !tools.iter().any(|tool| tool == name) {
            return;
        }
        *told = Told::Part(ObjectReader::default());
        out.push(AnswerPart::CallBegin(name.to_string()));
    }
    let (mut written, mut end) = (String::new(), 0);
    for c in text.chars() {
        let Told::Part(object) = told else { break };
        end += c.len_utf8();
        let before = !object.has_begun() && c.is_whitespace();
        if !before && object.take(c, &mut written) {
            *told = Told::All;
        }
    }
    emit(AnswerPart::CallArguments, written, out);
    held.drain(..end);
}

fn put(body: &mut Body, mut text: String, tools: &[String], out: &mut Vec<AnswerPart>) {
    match body {
        Body::Thinking => emit(AnswerPart::Thinking, text, out),
        Body::Text => emit(AnswerPart::Text, text, out),
        Body::Call(name, told) => {
            follow(name, told, text.len(), &mut text, tools, out);
            if !matches!(told, Told::Nothing) {
                out.push(AnswerPart::CallEnd);
            }
            // What is no call, or comes after one.
            if matches!(told, Told::Nothing) || text.contains(char::is_alphanumeric) {
                emit(AnswerPart::Text, text, out);
            }
        }
    }
}
