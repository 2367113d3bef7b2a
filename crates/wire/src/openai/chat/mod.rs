//! `/v1/chat/completions`.

pub(super) mod stored;
mod write;

pub(super) use write::finish_reason;

use super::Head;
use crate::answer::Reply;
use crate::call::Call;
use crate::request_fields::chat;
use crate::stamp::Stamp;
use alloc::boxed::Box;
use strata_chat::Fault;
use strata_chat::json::Json;

pub(super) fn open(body: &[u8], stamp: &Stamp) -> Result<Call, Fault> {
    let (request, options) = chat::read(body)?;
    let answer = write::ChatAnswer::new(&request, options, stamp);
    Ok(Call::Generate(Box::new(request), Box::new(answer)))
}

/// The tokens that a chat would give the model, for routers that look for prefixes.
pub(super) fn render(body: &[u8], stamp: &Stamp) -> Result<Call, Fault> {
    let (request, _) = chat::read(body)?;
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
