//! Ollama's API: generate, chat, embeddings, and the models of its store.
//!
//! <https://github.com/ollama/ollama/blob/main/docs/api.md>

mod chat;
mod embed;
mod errors;
mod generate;
mod models;
mod options;
mod store;
mod write;

pub use errors::fault;
pub use options::Parameters;

use crate::answer::{Reply, Stamp};
use crate::call::{Call, Load};
use crate::openai::{unescape, wrong_method};
use alloc::boxed::Box;
use alloc::string::String;
use core::time::Duration;
use strata_chat::json::{Fields, Json};
use strata_chat::{Fault, KeepAlive};

/// The routes with their methods, `{id}` for a name. What is asked with `GET` can be asked with `HEAD`.
pub const ROUTES: &[(&str, &str)] = &[
    ("POST", "/api/generate"),
    ("POST", "/api/chat"),
    ("POST", "/api/embed"),
    ("POST", "/api/embeddings"),
    ("GET", "/api/tags"),
    ("GET", "/api/ps"),
    ("GET", "/api/version"),
    ("POST", "/api/show"),
    ("POST", "/api/create"),
    ("POST", "/api/pull"),
    ("POST", "/api/push"),
    ("POST", "/api/copy"),
    ("DELETE", "/api/delete"),
    ("HEAD", "/api/blobs/{id}"),
    ("POST", "/api/blobs/{id}"),
];

/// Reads a request; `None` if the path is not one of this dialect's. The path may have a query. The body of a blob is
/// not looked at.
pub fn open(method: &str, path: &str, body: &[u8], stamp: &Stamp) -> Option<Result<Call, Fault>> {
    let (path, _) = path.split_once('?').unwrap_or((path, ""));
    let name = path.strip_prefix("/api/")?;
    let call = match (method, name) {
        ("POST", "generate") => generate::open(body, stamp),
        ("POST", "chat") => chat::open(body, stamp),
        ("POST", "embed") => embed::open(body),
        ("POST", "embeddings") => embed::legacy(body),
        ("GET" | "HEAD", "tags") => Ok(models::tags()),
        ("GET" | "HEAD", "ps") => Ok(models::loaded()),
        ("GET" | "HEAD", "version") => Ok(Call::Reply(version())),
        ("POST", "show") => models::show(body),
        ("POST", "create") => store::create(body),
        ("POST", "pull") => store::pull(body),
        ("POST", "push") => store::push(body),
        ("POST", "copy") => store::copy(body),
        ("DELETE", "delete") => store::delete(body),
        _ => match name.split_once('/') {
            Some(("blobs", digest)) if !digest.is_empty() && !digest.contains('/') => {
                unescape(digest).and_then(|digest| match method {
                    "HEAD" => store::blob_exists(&digest),
                    "POST" => store::blob_upload(&digest),
                    _ => Err(wrong_method(method, path)),
                })
            }
            _ if ROUTES.iter().any(|&(_, known)| known == path) => Err(wrong_method(method, path)),
            _ => return None,
        },
    };
    Some(call)
}

fn version() -> Reply {
    let version = env!("CARGO_PKG_VERSION").into();
    Reply::json(&Json::object([("version", version)]))
}

/// The name of a model, which this dialect's clients always give; `name` is what it was called at first.
fn model(fields: &mut Fields) -> Result<String, Fault> {
    let older = fields.maybe_string("name")?;
    let name = fields.maybe_string("model")?.or(older);
    name.filter(|name| !name.is_empty())
        .ok_or_else(|| fields.missing("model"))
}

/// A request that has nothing to answer: the model is brought into memory, or dropped.
fn load(model: String, keep_alive: Option<KeepAlive>, mut done: Json) -> Call {
    let unload = keep_alive == Some(KeepAlive::For(Duration::ZERO));
    done.push("done", true);
    done.push("done_reason", if unload { "unload" } else { "load" });
    Call::Load(
        Load { model, keep_alive },
        Box::new(move |_| Reply::json(&done)),
    )
}
