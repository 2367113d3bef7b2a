//! Fields that several dialects read alike: each file is one subject of a request.
//!
//! The words are mostly OpenAI's, which llama-server, vLLM and Ollama took over and added to.

pub(crate) mod answer_format;
pub(crate) mod chat;
pub(crate) mod generation;
pub(crate) mod inputs;
pub(crate) mod messages;
pub(crate) mod tools;

use alloc::string::String;
use strata_chat::Fault;
use strata_chat::json::{Fields, JsonPath};

/// A model's name; none means the default model, as with llama-server.
pub(crate) fn model(fields: &mut Fields) -> Result<String, Fault> {
    Ok(fields.maybe_string("model")?.unwrap_or_default())
}

/// A value that cannot be honoured.
pub(crate) fn unsupported(path: &JsonPath, value: &str) -> Fault {
    Fault::field(path, format_args!("{value} is not supported"))
}
