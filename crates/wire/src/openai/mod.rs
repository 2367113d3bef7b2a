//! OpenAI's API: chat completions, completions, embeddings, models, responses; with the extras of llama-server and vLLM.
//!
//! <https://platform.openai.com/docs/api-reference>

pub(crate) mod chat;
mod completions;
mod content;
pub(crate) mod embeddings;
mod errors;
pub(crate) mod format;
mod models;
pub(crate) mod rerank;
mod responses;
pub(crate) mod sampling;
pub(crate) mod tools;
pub(crate) mod usage;

pub use errors::fault;
pub use responses::{Page, ResponseStore};

use crate::answer::Stamp;
use crate::call::{Call, Recall};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use strata_chat::json::{Fields, Json};
use strata_chat::{Fault, FaultKind};

/// The routes with their methods, `{id}` for a name.
pub const ROUTES: &[(&str, &str)] = &[
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/chat/completions/render"),
    ("POST", "/v1/completions"),
    ("POST", "/v1/embeddings"),
    ("POST", "/v1/rerank"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/{id}"),
    ("POST", "/v1/responses"),
    ("POST", "/v1/responses/input_tokens"),
    ("GET", "/v1/responses/{id}"),
    ("DELETE", "/v1/responses/{id}"),
    ("POST", "/v1/responses/{id}/cancel"),
    ("GET", "/v1/responses/{id}/input_items"),
];

/// Reads a request; `None` if the path is not one of this dialect's. The path may have a query.
pub fn open(
    method: &str,
    path: &str,
    body: &[u8],
    stamp: &Stamp,
    recall: &mut dyn Recall,
) -> Option<Result<Call, Fault>> {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let name = path.strip_prefix("/v1/")?;
    let call = match (method, name) {
        ("POST", "chat/completions") => chat::open(body, stamp),
        ("POST", "chat/completions/render") => chat::render(body, stamp),
        ("POST", "completions") => completions::open(body, stamp),
        ("POST", "embeddings") => embeddings::open(body),
        ("POST", "rerank") => rerank::open(body),
        ("POST", "responses") => responses::open(body, stamp, recall),
        ("POST", "responses/input_tokens") => responses::count(body, recall),
        ("GET", "models") => Ok(models::list()),
        _ => match (method, name.split_once('/')) {
            (_, Some((_, ""))) => return None,
            ("GET", Some(("models", id))) => unescape(id).map(models::one),
            ("GET" | "DELETE" | "POST", Some(("responses", rest))) => {
                responses::stored(method, rest, query)?
            }
            (_, Some(("models" | "responses", _))) => Err(wrong_method(method, path)),
            _ if ROUTES.iter().any(|&(_, known)| known == path) => Err(wrong_method(method, path)),
            _ => return None,
        },
    };
    Some(call)
}

pub(crate) fn wrong_method(method: &str, path: &str) -> Fault {
    let problem = format_args!("{path} is not asked with {method}");
    Fault::new(FaultKind::Method, problem)
}

/// What stands at the head of an answer and of each of its pieces.
#[derive(Clone, Debug)]
struct Head {
    id: String,
    object: &'static str,
    created: u64,
    model: String,
}

impl Head {
    fn new(prefix: &str, object: &'static str, model: &str, stamp: &Stamp) -> Self {
        Self {
            id: format!("{prefix}{}", stamp.id),
            object,
            created: stamp.unix_seconds,
            model: model.into(),
        }
    }

    /// An object that begins with it.
    fn object(&self) -> Json {
        Json::object([
            ("id", self.id.as_str().into()),
            ("object", self.object.into()),
            ("created", self.created.into()),
            ("model", self.model.as_str().into()),
            ("system_fingerprint", FINGERPRINT.into()),
        ])
    }
}

/// The same program gives the same answer to the same seed, whatever machine it runs on.
const FINGERPRINT: &str = concat!("strata-", env!("CARGO_PKG_VERSION"));

/// A model's name; none means the default model, as with llama-server.
fn model(fields: &mut Fields) -> Result<String, Fault> {
    Ok(fields.maybe_string("model")?.unwrap_or_default())
}

/// A name in a path, with its escapes undone.
pub(crate) fn unescape(text: &str) -> Result<String, Fault> {
    let wrong = || Fault::bad_request("the path has an escape that is not UTF-8");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2).ok_or_else(wrong)?;
        let digits = core::str::from_utf8(digits).map_err(|_| wrong())?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}
