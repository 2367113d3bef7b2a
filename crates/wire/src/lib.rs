//! The chat APIs' JSON, to and from one internal language.
//!
//! [`lang`] is that language. Each dialect is a folder that reads its requests into it and writes its events as the
//! bytes that clients of that dialect expect. There are no sockets here, so that the server on Linux and the unikernel
//! speak alike: they only move the bytes. [`http`] is the HTTP/1.1 of the latter, which has no other.
//!
//! A field that cannot be honoured is a [`Fault`] that names it, never passed over in silence.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod answer;
pub mod anthropic;
mod base64;
pub mod calendar;
pub mod call;
mod fault;
mod gather;
pub mod http;
pub mod json;
pub mod lang;
pub mod llama_server;
pub mod ollama;
pub mod openai;
pub mod route;
mod summaries;

pub use answer::{Answer, Reply, Stamp};
pub use fault::{Fault, FaultKind};
