//! llama-server's own API: completions, infill, tokens, embeddings, slots, adapters.
//!
//! <https://github.com/ggml-org/llama.cpp/tree/master/tools/server>

mod completion;
mod embeddings;
mod errors;
mod prompts;
mod samplers;
mod settings;
mod slots;
mod tokens;
mod write;

pub use errors::fault;

use crate::call::Call;
use crate::openai::{rerank, wrong_method};
use strata_chat::{Fault, FaultKind};

/// The routes with their methods, `{id}` for a number. What is asked with `GET` can be asked with `HEAD`.
pub const ROUTES: &[(&str, &str)] = &[
    ("POST", "/completion"),
    ("POST", "/completions"),
    ("POST", "/infill"),
    ("POST", "/tokenize"),
    ("POST", "/detokenize"),
    ("POST", "/apply-template"),
    ("POST", "/embedding"),
    ("POST", "/embeddings"),
    ("POST", "/rerank"),
    ("POST", "/reranking"),
    ("GET", "/props"),
    ("GET", "/slots"),
    ("POST", "/slots/{id}"),
    ("GET", "/lora-adapters"),
    ("POST", "/lora-adapters"),
];

/// Reads a request; `None` if the path is not one of this dialect's. The path may have a query.
pub fn open(method: &str, path: &str, body: &[u8]) -> Option<Result<Call, Fault>> {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let call = match (method, path) {
        ("POST", "/completion" | "/completions") => completion::open(body),
        ("POST", "/infill") => completion::infill(body),
        ("POST", "/tokenize") => tokens::tokenize(body),
        ("POST", "/detokenize") => tokens::detokenize(body),
        ("POST", "/apply-template") => tokens::apply_template(body),
        ("POST", "/embedding" | "/embeddings") => embeddings::open(body),
        ("POST", "/rerank" | "/reranking") => rerank::open(body),
        ("GET" | "HEAD", "/props") => slots::props(query),
        ("POST", "/props") => Err(Fault::new(
            FaultKind::Unsupported,
            "properties are not changed by requests",
        )),
        ("GET" | "HEAD", "/slots") => slots::list(query),
        ("GET" | "HEAD", "/lora-adapters") => Ok(slots::adapters()),
        ("POST", "/lora-adapters") => slots::scale(body),
        _ => match path.strip_prefix("/slots/") {
            Some(id) if !id.is_empty() && !id.contains('/') => match method {
                "POST" => slots::act(id, query, body),
                _ => Err(wrong_method(method, path)),
            },
            _ if ROUTES.iter().any(|&(_, known)| known == path) => Err(wrong_method(method, path)),
            _ => return None,
        },
    };
    Some(call)
}

/// The value of a name in a query.
fn queried<'q>(query: &'q str, name: &str) -> Option<&'q str> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}
