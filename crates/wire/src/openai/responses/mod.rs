//! `/v1/responses`: answers that are kept, so that the next request can go on from one by its name.

mod document;
mod input_items;
mod items;
mod kept_json;
mod read;
mod store;
mod write;

pub use input_items::Page;
pub use kept_json::{kept_from_json, kept_to_json};
pub use store::ResponseStore;

use crate::answer::Reply;
use crate::call::{Call, Recall, Stored};
use crate::stamp::Stamp;
use crate::url::unescape;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use strata_chat::Fault;
use strata_chat::json::{Json, JsonPath};

pub(super) fn open(body: &[u8], stamp: &Stamp, recall: &mut dyn Recall) -> Result<Call, Fault> {
    let (request, options) = read::response(body, recall)?;
    let answer = write::ResponseAnswer::new(&request, options, stamp);
    Ok(Call::Generate(Box::new(request), Box::new(answer)))
}

/// `/v1/responses/input_tokens`.
pub(super) fn count(body: &[u8], recall: &mut dyn Recall) -> Result<Call, Fault> {
    let (request, _) = read::response(body, recall)?;
    Ok(Call::Render(
        Box::new(request),
        Box::new(|rendered| {
            Reply::json(&Json::object([
                ("object", "response.input_tokens".into()),
                ("input_tokens", rendered.tokens.len().into()),
            ]))
        }),
    ))
}

/// `GET /v1/responses/{id}`.
pub(super) fn get(id: &str, query: &str) -> Result<Call, Fault> {
    if query.split('&').any(|pair| pair == "stream=true") {
        let problem = "stream: a stored response is not streamed again";
        return Err(Fault::bad_request(problem));
    }
    stored(id, Stored::Get)
}

/// `DELETE /v1/responses/{id}`.
pub(super) fn delete(id: &str) -> Result<Call, Fault> {
    stored(id, Stored::Delete)
}

/// `/v1/responses/{id}/cancel`.
pub(super) fn cancel(id: &str) -> Result<Call, Fault> {
    stored(id, Stored::Cancel)
}

/// `/v1/responses/{id}/input_items`.
pub(super) fn input_items(id: &str, query: &str) -> Result<Call, Fault> {
    let page = Page::of_query(query)?;
    stored(id, |id| Stored::InputItems(id, page))
}

fn stored(id: &str, wanted: impl FnOnce(String) -> Stored) -> Result<Call, Fault> {
    let id = unescape(id)?;
    Ok(Call::Stored(wanted(id), Box::new(Reply::json)))
}

/// Items of a request, checked, and with names that begin with a stamp.
pub(super) fn named_items(items: Json, path: &JsonPath, stamp: &Stamp) -> Result<Vec<Json>, Fault> {
    let messages = items::messages(items, path)?;
    Ok(input_items::items(&messages, &stamp.id))
}

#[cfg(test)]
mod tests;
