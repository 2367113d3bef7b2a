//! The chat APIs' JSON, to and from the language of [`strata_chat`].
//!
//! Each dialect is a folder that reads its requests into that language and writes events as the bytes that clients of
//! the dialect expect. There are no sockets here, so that the server on Linux and the unikernel speak alike: they only
//! move the bytes. [`http`] is the HTTP/1.1 of the latter, which has no other.
//!
//! A field that cannot be honoured is a [`Fault`](strata_chat::Fault) that names it, never passed over in silence.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod access;
mod answer;
pub mod anthropic;
mod base64;
pub mod budgets;
pub mod calendar;
pub mod call;
pub mod dialect;
mod gather;
pub mod http;
mod image_url;
pub mod lessons;
pub mod llama_server;
mod logprobs;
pub mod metrics;
mod multipart;
pub mod ollama;
pub mod openai;
pub mod openapi;
mod request_fields;
mod rerank;
mod route;
mod server_routes;
pub mod sessions;
mod stamp;
mod status;
mod timings;
pub mod url;

pub use answer::{AnswerWriter, Framing, Reply, begin_answer};
pub use dialect::Dialect;
pub use route::{RequestBody, Role, Route};
pub use stamp::{STAMP_HEADER, Stamp, StampSource};
