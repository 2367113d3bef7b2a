//! All tests of this crate from outside that need no process of their own: one program links faster than many.

#[cfg(unix)]
mod boots;
mod charts;
#[cfg(unix)]
mod chat;
mod convert;
mod deploy;
mod embeddings;
mod failures;
#[path = "../../image/tests/fake/mod.rs"]
mod fake;
mod fetching;
mod guessing;
mod hints;
mod hostile_media;
mod images;
mod learning;
#[path = "../../store/tests/loopback/mod.rs"]
mod loopback;
mod manners;
mod ollama_requests;
#[cfg(target_os = "linux")]
mod packs;
mod peers;
mod program;
mod quantize;
#[cfg(unix)]
mod readme;
mod relay;
mod same_bytes;
mod served_store;
#[cfg(unix)]
mod sessions;
mod store_commands;
mod words;
