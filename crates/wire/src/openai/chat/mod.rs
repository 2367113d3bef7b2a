//! `/v1/chat/completions`.

mod read;
mod write;

pub(super) use read::EFFORTS;
pub(crate) use read::logprobs;
pub(crate) use write::{finish_reason, finite, token_logprob};

use super::Head;
use crate::answer::{Reply, Stamp};
use crate::call::Call;
use alloc::boxed::Box;
use strata_chat::json::Json;
use strata_chat::{Fault, Generate};

pub(super) fn open(body: &[u8], stamp: &Stamp) -> Result<Call, Fault> {
    let (request, manner) = read::chat(body)?;
    let answer = write::ChatAnswer::new(&request, manner, stamp);
    Ok(Call::Generate(Box::new(request), Box::new(answer)))
}

/// The tokens that a chat would give the model, for routers that look for prefixes.
pub(super) fn render(body: &[u8], stamp: &Stamp) -> Result<Call, Fault> {
    let request = request(body)?;
    let head = Head::new("render-", "chat.completion.render", &request.model, stamp);
    Ok(Call::Render(
        request,
        Box::new(move |rendered| {
            let count = Json::from(rendered.tokens.len());
            let reply = head.object().with("prompt", rendered.text.as_str());
            let reply = reply.with("token_ids", rendered.tokens.clone());
            Reply::json(&reply.with("count", count))
        }),
    ))
}

/// Reads a chat of which only the prompt is wanted.
pub(crate) fn request(body: &[u8]) -> Result<Box<Generate>, Fault> {
    let (request, _) = read::chat(body)?;
    Ok(Box::new(request))
}

/// What of a request concerns only how its answer is written.
#[derive(Copy, Clone, Debug, Default)]
struct Manner {
    /// A last chunk tells the usage.
    usage: bool,
    /// Calls are told as `function_call`, as before there were tools.
    legacy: bool,
    /// The field in which tokens are told.
    tokens: Option<&'static str>,
}
