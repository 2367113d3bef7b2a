//! Anthropic's API: messages and the count of their tokens.
//!
//! <https://docs.anthropic.com/en/api/messages>

mod content;
mod errors;
mod read;
mod write;

pub use errors::fault;

use crate::answer::{Reply, Stamp};
use crate::call::Call;
use alloc::boxed::Box;
use read::Purpose;
use strata_chat::json::Json;
use strata_chat::{Fault, FaultKind};

/// The routes with their methods.
pub const ROUTES: &[(&str, &str)] = &[
    ("POST", "/v1/messages"),
    ("POST", "/v1/messages/count_tokens"),
];

/// Reads a request; `None` if the path is not one of this dialect's. The path may have a query, which clients use to
/// say that they know of betas.
pub fn open(method: &str, path: &str, body: &[u8], stamp: &Stamp) -> Option<Result<Call, Fault>> {
    let (path, _) = path.split_once('?').unwrap_or((path, ""));
    if !ROUTES.iter().any(|&(_, known)| known == path) {
        return None;
    }
    Some(match (method, path) {
        ("POST", "/v1/messages") => messages(body, stamp),
        ("POST", _) => count(body),
        _ => {
            let problem = format_args!("{path} is not asked with {method}");
            Err(Fault::new(FaultKind::Method, problem))
        }
    })
}

fn messages(body: &[u8], stamp: &Stamp) -> Result<Call, Fault> {
    let (request, manner) = read::request(body, Purpose::Answer)?;
    let answer = write::MessageAnswer::new(&request, manner, stamp);
    Ok(Call::Generate(Box::new(request), Box::new(answer)))
}

fn count(body: &[u8]) -> Result<Call, Fault> {
    let (request, _) = read::request(body, Purpose::Count)?;
    Ok(Call::Render(
        Box::new(request),
        Box::new(|rendered| {
            let tokens = rendered.tokens.len().into();
            Reply::json(&Json::object([("input_tokens", tokens)]))
        }),
    ))
}
