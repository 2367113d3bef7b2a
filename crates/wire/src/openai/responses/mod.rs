//! `/v1/responses`: answers that are kept, so that the next request can go on from one by its name.

mod document;
mod input_items;
mod items;
mod read;
mod store;
mod write;

pub use input_items::Page;
pub use store::ResponseStore;

use crate::answer::{Reply, Stamp};
use crate::call::{Call, Recall, Stored};
use alloc::boxed::Box;
use strata_chat::Fault;
use strata_chat::json::Json;

pub(super) fn open(body: &[u8], stamp: &Stamp, recall: &mut dyn Recall) -> Result<Call, Fault> {
    let (request, manner) = read::response(body, recall)?;
    let answer = write::ResponseAnswer::new(&request, manner, stamp);
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

/// What comes after `/v1/responses/`: a name, perhaps with an action; `None` if there is no such action.
pub(super) fn stored(method: &str, rest: &str, query: &str) -> Option<Result<Call, Fault>> {
    let (id, action) = rest.split_once('/').unwrap_or((rest, ""));
    let kind = match (method, action) {
        ("GET", "") if query.split('&').any(|pair| pair == "stream=true") => {
            let problem = "stream: a stored response is not streamed again";
            return Some(Err(Fault::bad_request(problem)));
        }
        ("GET", "") => Stored::Get,
        ("DELETE", "") => Stored::Delete,
        ("POST", "cancel") => Stored::Cancel,
        ("GET", "input_items") => {
            let page = match Page::of_query(query) {
                Ok(page) => page,
                Err(fault) => return Some(Err(fault)),
            };
            let kind = |id| Stored::InputItems(id, page);
            let id = super::unescape(id);
            return Some(id.map(|id| Call::Stored(kind(id), Box::new(Reply::json))));
        }
        (_, "" | "cancel" | "input_items") => {
            let path = alloc::format!("/v1/responses/{rest}");
            return Some(Err(super::wrong_method(method, &path)));
        }
        _ => return None,
    };
    let id = super::unescape(id);
    Some(id.map(|id| Call::Stored(kind(id), Box::new(Reply::json))))
}

#[cfg(test)]
mod tests;
