//! `/v1/chat/completions`.

pub(super) mod stored;
mod write;

pub(super) use write::finish_reason;

use super::Head;
use crate::answer::Reply;
use crate::call::Call;
use crate::request_fields::chat::{self, LastAnswer};
use crate::stamp::Stamp;
use alloc::boxed::Box;
use strata_chat::Fault;
use strata_chat::json::Json;

pub(super) fn open(body: &[u8], stamp: &Stamp, last: LastAnswer) -> Result<Call, Fault> {
    let (request, options) = chat::read(body, last)?;
    let answer = write::ChatAnswer::new(&request, options, stamp);
    Ok(Call::Generate(Box::new(request), Box::new(answer)))
}

/// How many tokens a chat would give the model.
pub(super) fn count(body: &[u8], last: LastAnswer) -> Result<Call, Fault> {
    let (request, _) = chat::read(body, last)?;
    Ok(Call::Render(
        Box::new(request),
        Box::new(|rendered| {
            let count = Json::from(rendered.tokens.len());
            Reply::json(&Json::object([("input_tokens", count)]))
        }),
    ))
}

/// The tokens that a chat would give the model, for routers that look for prefixes.
pub(super) fn render(body: &[u8], stamp: &Stamp) -> Result<Call, Fault> {
    let (request, _) = chat::read(body, LastAnswer::Stands)?;
    let head = Head::new("render-", "chat.completion.render", &request.model, stamp);
    Ok(Call::Render(
        Box::new(request),
        Box::new(move |rendered| {
            let count = Json::from(rendered.tokens.len());
            let reply = head.object().with("prompt", rendered.text.as_str());
            let reply = reply.with("token_ids", rendered.tokens.clone());
            Reply::json(&reply.with("count", count))
        }),
    ))
}
