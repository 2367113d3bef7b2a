//! gpt-oss's channels: `<|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>final<|message|>…`.
//!
//! The analysis channel is thinking, a message to a function is a call, everything else is the answer. An answer begins
//! inside a message's header, since the prompt ends with `<|start|>assistant`.

use super::{Piece, emit, partial};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use strata_wire::json::Json;

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
    /// To a function: held until it is whole.
    Call(String),
}

impl Harmony {
    pub(super) fn push(&mut self, text: &str, tools: &[String], out: &mut Vec<Piece>) {
        self.held.push_str(text);
        while self.advance(tools, out) {}
    }

    fn advance(&mut self, tools: &[String], out: &mut Vec<Piece>) -> bool {
        let Some(body) = &self.body else {
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
        if !matches!(body, Body::Call(_)) {
            let keep = ENDS.iter().map(|end| partial(&self.held, end)).max();
            let rest = self.held.split_off(self.held.len() - keep.unwrap_or(0));
            put(body, core::mem::replace(&mut self.held, rest), tools, out);
        }
        false
    }

    pub(super) fn finish(&mut self, tools: &[String], out: &mut Vec<Piece>) {
        let held = core::mem::take(&mut self.held);
        match self.body.take() {
            Some(body) => put(&body, held, tools, out),
            // A header without a message, or a model that does not keep to channels.
            None => emit(Piece::Text, held, out),
        }
    }
}

fn header(text: &str) -> Body {
    let recipient = text
        .split_once("to=functions.")
        .map(|(_, rest)| rest.split([' ', '<', '\n']).next().unwrap_or(rest));
    match recipient {
        Some(name) => Body::Call(name.to_string()),
        None if text.contains("<|channel|>analysis") => Body::Thinking,
        None => Body::Text,
    }
}

fn put(body: &Body, text: String, tools: &[String], out: &mut Vec<Piece>) {
    match body {
        Body::Thinking => emit(Piece::Thinking, text, out),
        Body::Text => emit(Piece::Text, text, out),
        Body::Call(name) => {
            let arguments = Json::parse(text.trim().as_bytes()).ok();
            match arguments.filter(|value| value.as_object().is_some() && tools.contains(name)) {
                Some(arguments) => out.push(Piece::Call((name.clone(), arguments))),
                None => emit(Piece::Text, text, out),
            }
        }
    }
}
