//! Chats that were kept: `GET /v1/chat/completions` and what is below it.

use crate::answer::Reply;
use crate::call::{Call, Stored};
use crate::openai::Page;
use crate::request_fields::chat::metadata;
use crate::route::RouteRequest;
use crate::url::unescape;
use alloc::boxed::Box;
use alloc::vec::Vec;
use strata_chat::Fault;
use strata_chat::json::Fields;

fn call(wanted: Stored) -> Result<Call, Fault> {
    Ok(Call::Stored(wanted, Box::new(Reply::json)))
}

/// `GET /v1/chat/completions`, the oldest first.
pub(in crate::openai) fn list(asked: &mut RouteRequest<'_>) -> Result<Call, Fault> {
    let (mut model, mut labels, mut rest) = (None, Vec::new(), Vec::from(["order=asc"]));
    for pair in asked.query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        let key = unescape(key)?;
        let label = key
            .strip_prefix("metadata[")
            .and_then(|key| key.strip_suffix(']'));
        match (key.as_str(), label) {
            ("model", _) => model = Some(unescape(value)?),
            (_, Some(label)) => labels.push((label.into(), unescape(value)?)),
            _ => rest.push(pair),
        }
    }
    let page = Page::of_query(&rest.join("&"))?;
    call(Stored::Chats {
        model,
        labels,
        page,
    })
}

/// `GET /v1/chat/completions/{id}`.
pub(in crate::openai) fn get(asked: &mut RouteRequest<'_>) -> Result<Call, Fault> {
    call(Stored::Get(unescape(asked.id)?))
}

/// `DELETE /v1/chat/completions/{id}`.
pub(in crate::openai) fn delete(asked: &mut RouteRequest<'_>) -> Result<Call, Fault> {
    call(Stored::Delete(unescape(asked.id)?))
}

/// `POST /v1/chat/completions/{id}`.
pub(in crate::openai) fn label(asked: &mut RouteRequest<'_>) -> Result<Call, Fault> {
    let mut fields = Fields::parse(asked.body)?;
    let labels = metadata(&mut fields)?;
    fields.finish()?;
    call(Stored::Label(unescape(asked.id)?, labels))
}

/// `GET /v1/chat/completions/{id}/messages`, the oldest first.
pub(in crate::openai) fn messages(asked: &mut RouteRequest<'_>) -> Result<Call, Fault> {
    let query = ["order=asc&", asked.query].concat();
    let page = Page::of_query(&query)?;
    call(Stored::Messages(unescape(asked.id)?, page))
}
