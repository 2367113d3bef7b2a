//! The response as a document, and its items.

use super::items::seal;
use crate::gather::{GatheredCall, custom_input};
use crate::logprobs::token_logprob;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use strata_chat::json::Json;
use strata_chat::{TokenLogprobs, Usage};

/// Something in the output.
pub(super) struct Item {
    pub(super) id: String,
    pub(super) status: &'static str,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    Reasoning(String),
    Message {
        text: String,
        logprobs: Vec<TokenLogprobs>,
    },
    Call {
        /// The call's number in the answer.
        index: usize,
        call: GatheredCall,
        /// The tool takes free text.
        custom: bool,
    },
}

impl Item {
    /// Its name says what it is and where it stands.
    pub(super) fn new(kind: Kind, position: usize, stamp: &str) -> Self {
        let prefix = match kind {
            Kind::Reasoning(_) => "rs",
            Kind::Message { .. } => "msg",
            Kind::Call { custom: true, .. } => "ctc",
            Kind::Call { .. } => "fc",
        };
        Self {
            id: format!("{prefix}_{stamp}_{position}"),
            status: "in_progress",
            kind,
        }
    }

    /// The item as it is now; with its content only if it is complete.
    pub(super) fn document(&self, sealed: bool) -> Json {
        let complete = self.status != "in_progress";
        let content = match self.part() {
            Some(part) if complete => Json::array([part]),
            _ => Json::Array(Vec::new()),
        };
        let head = Json::object([("id", self.id.as_str().into())]);
        match &self.kind {
            Kind::Reasoning(text) => {
                let mut item = head
                    .with("type", "reasoning")
                    .with("summary", Vec::<Json>::new());
                item.push("content", content);
                if sealed {
                    item.push("encrypted_content", seal(text));
                }
                item.with("status", self.status)
            }
            Kind::Message { .. } => head
                .with("type", "message")
                .with("status", self.status)
                .with("role", "assistant")
                .with("content", content),
            Kind::Call { call, custom, .. } => {
                let (kind, key, value) = match (*custom, complete) {
                    (true, true) => ("custom_tool_call", "input", custom_input(&call.arguments)),
                    (true, false) => ("custom_tool_call", "input", String::new()),
                    (false, true) => ("function_call", "arguments", call.arguments.clone()),
                    (false, false) => ("function_call", "arguments", String::new()),
                };
                head.with("type", kind)
                    .with("status", self.status)
                    .with("call_id", call.id.as_str())
                    .with("name", call.name.as_str())
                    .with(key, value)
            }
        }
    }

    /// The one part of its content.
    pub(super) fn part(&self) -> Option<Json> {
        match &self.kind {
            Kind::Reasoning(text) => Some(Json::object([
                ("type", "reasoning_text".into()),
                ("text", text.as_str().into()),
            ])),
            Kind::Message { text, logprobs } => Some(text_part(text, logprobs)),
            Kind::Call { .. } => None,
        }
    }

    /// That part before anything was said.
    pub(super) fn empty_part(&self) -> Option<Json> {
        match &self.kind {
            Kind::Reasoning(_) => Some(Json::object([
                ("type", "reasoning_text".into()),
                ("text", "".into()),
            ])),
            Kind::Message { .. } => Some(text_part("", &[])),
            Kind::Call { .. } => None,
        }
    }
}

fn text_part(text: &str, logprobs: &[TokenLogprobs]) -> Json {
    Json::object([
        ("type", "output_text".into()),
        ("text", text.into()),
        ("annotations", Json::Array(Vec::new())),
        ("logprobs", logprob_list(logprobs)),
    ])
}

pub(super) fn logprob_list(logprobs: &[TokenLogprobs]) -> Json {
    Json::array(logprobs.iter().map(token_logprob))
}

/// `usage` of responses.
pub(super) fn usage(usage: &Usage) -> Json {
    let total = usage.prompt_tokens.saturating_add(usage.generated_tokens);
    Json::object([
        ("input_tokens", usage.prompt_tokens.into()),
        (
            "input_tokens_details",
            // What is written to caches is not counted apart here, and newer clients want the field.
            Json::object([
                ("cached_tokens", usage.cached_tokens.into()),
                ("cache_write_tokens", 0_i64.into()),
            ]),
        ),
        ("output_tokens", usage.generated_tokens.into()),
        (
            "output_tokens_details",
            Json::object([("reasoning_tokens", usage.thinking_tokens.into())]),
        ),
        ("total_tokens", total.into()),
    ])
}
