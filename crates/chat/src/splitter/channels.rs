//! Families whose answers are messages with headers, which say what a message is and whom it is for. An answer begins inside
//! a header, since the prompt ends with the beginning of one.
//!
//! - gpt-oss: `<|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…`. The analysis channel is
//!   thinking, a message to a function is a call.
//! - Solar Open: `<|think|>…<|end|><|begin|>assistant<|content|>…`. `<|tool_calls|>` begins calls.
//! - Muse Glimmer: ` to=self<|message|>…<|eom|><|start|>assistant to=user<|message|>…`. A message to itself is thinking, one to
//!   a function is calls.
//!
//! Everything else is the answer.

use super::block_calls::BlockCalls;
use super::{AnswerPart, SplitOptions, emit, partial};
use crate::tools::CallFormat;
use crate::tools::block::Block;
use crate::tools::object_reader::ObjectReader;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

#[derive(Debug)]
pub(super) struct Channels {
    style: Style,
    held: String,
    body: Option<Body>,
}

#[derive(Copy, Clone, Debug)]
enum Style {
    Harmony,
    Solar,
    Glimmer,
}

#[derive(Debug)]
enum Body {
    Thinking,
    Text,
    /// The arguments of a call to a function.
    Call(String, Told),
    /// Calls in a notation of their own.
    Calls(Block, BlockCalls),
}

/// How much of a call was told.
#[derive(Debug)]
enum Told {
    /// Nothing: its arguments have not begun, or not as an object.
    Nothing,
    Part(ObjectReader),
    All,
}

impl Style {
    /// What ends a header.
    fn opens(self) -> &'static [&'static str] {
        match self {
            Self::Harmony | Self::Glimmer => &["<|message|>"],
            Self::Solar => &["<|think|>", "<|content|>", "<|tool_calls|>"],
        }
    }

    /// What ends a message.
    fn ends(self) -> &'static [&'static str] {
        match self {
            Self::Harmony => &["<|end|>", "<|call|>", "<|return|>"],
            Self::Solar => &["<|end|>", "<|calls|>", "<|flush|>"],
            Self::Glimmer => &["<|eom|>", "<|eot|>"],
        }
    }

    /// What a message is whose header is this text and ended with this mark.
    fn body(self, header: &str, open: &str) -> Body {
        let recipient = |before: &str| {
            let (_, rest) = header.split_once(before)?;
            rest.split([' ', '<', '\n']).next()
        };
        let calls = |block| Body::Calls(block, BlockCalls::new(block));
        match self {
            Self::Harmony => match recipient("to=functions.") {
                Some(name) => Body::Call(name.to_string(), Told::Nothing),
                None if header.contains("<|channel|>analysis") => Body::Thinking,
                None => Body::Text,
            },
            Self::Solar => match open {
                "<|think|>" => Body::Thinking,
                "<|tool_calls|>" => calls(Block::Solar),
                _ => Body::Text,
            },
            Self::Glimmer => match recipient("to=") {
                Some("self") => Body::Thinking,
                None | Some("user") => Body::Text,
                Some(_) => calls(Block::Invocations("atem:")),
            },
        }
    }
}

impl Channels {
    /// For a format whose answers are such messages.
    pub(super) fn new(format: CallFormat) -> Option<Self> {
        let style = match format {
            CallFormat::Harmony => Style::Harmony,
            CallFormat::Solar => Style::Solar,
            CallFormat::Glimmer => Style::Glimmer,
            _ => return None,
        };
        Some(Self {
            style,
            held: String::new(),
            body: None,
        })
    }

    pub(super) fn push(&mut self, text: &str, options: &SplitOptions, out: &mut Vec<AnswerPart>) {
        self.held.push_str(text);
        while self.advance(options, out) {}
    }

    fn advance(&mut self, options: &SplitOptions, out: &mut Vec<AnswerPart>) -> bool {
        let Some(body) = &mut self.body else {
            let opens = self.style.opens().iter();
            let first = opens.filter_map(|open| Some((self.held.find(open)?, *open)));
            let Some((at, open)) = first.min() else {
                return false;
            };
            self.body = Some(self.style.body(&self.held[..at], open));
            self.held.drain(..at + open.len());
            return true;
        };
        let ends = self.style.ends();
        let end = ends
            .iter()
            .filter_map(|end| Some((self.held.find(end)?, end.len())))
            .min();
        if let Some((at, len)) = end {
            let rest = self.held.split_off(at + len);
            self.held.truncate(at);
            let text = core::mem::replace(&mut self.held, rest);
            if let Some(body) = self.body.take() {
                put(body, text, options, out);
            }
            return true;
        }
        let keep = ends.iter().map(|end| partial(&self.held, end)).max();
        let clear = self.held.len() - keep.unwrap_or(0);
        match body {
            Body::Call(name, told) => {
                follow(name, told, clear, &mut self.held, &options.tools, out);
            }
            Body::Calls(_, calls) => calls.follow(&self.held, clear, &options.tools, out),
            Body::Thinking | Body::Text => {
                let rest = self.held.split_off(clear);
                let text = core::mem::replace(&mut self.held, rest);
                emit(body.part(), text, out);
            }
        }
        false
    }

    pub(super) fn finish(&mut self, options: &SplitOptions, out: &mut Vec<AnswerPart>) {
        let held = core::mem::take(&mut self.held);
        match self.body.take() {
            Some(body) => put(body, held, options, out),
            // A header without a message, or a model that does not keep to channels.
            None => emit(AnswerPart::Text, held, out),
        }
    }
}

impl Body {
    /// What its text is.
    fn part(&self) -> fn(String) -> AnswerPart {
        match self {
            Self::Thinking => AnswerPart::Thinking,
            Self::Text | Self::Call(..) | Self::Calls(..) => AnswerPart::Text,
        }
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

/// Gives a message that is complete, or what there is of one.
fn put(body: Body, mut text: String, options: &SplitOptions, out: &mut Vec<AnswerPart>) {
    let part = body.part();
    match body {
        Body::Thinking | Body::Text => emit(part, text, out),
        Body::Call(name, mut told) => {
            follow(&name, &mut told, text.len(), &mut text, &options.tools, out);
            if !matches!(told, Told::Nothing) {
                out.push(AnswerPart::CallEnd);
            }
            // What is no call, or comes after one.
            if matches!(told, Told::Nothing) || text.contains(char::is_alphanumeric) {
                emit(part, text, out);
            }
        }
        Body::Calls(block, mut calls) => {
            calls.follow(&text, text.len(), &options.tools, out);
            let read = block.read(&text, &options.schemas);
            calls.close(read, &text, &text, options, out);
        }
    }
}
