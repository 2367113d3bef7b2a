//! `/v1/conversations`: conversations that the server keeps, and that responses add to.

use super::responses::{Page, named_items};
use crate::answer::Reply;
use crate::call::{Call, KeptConversation};
use crate::request_fields::chat::metadata;
use crate::route::RouteRequest;
use crate::url::unescape;
use alloc::boxed::Box;
use alloc::vec::Vec;
use strata_chat::json::{Fields, Json};
use strata_chat::{Fault, FaultKind};

/// Items in one request at most, as in the API.
const MOST: usize = 20;

fn call(wanted: KeptConversation) -> Result<Call, Fault> {
    Ok(Call::Conversation(wanted, Box::new(Reply::json)))
}

/// `POST /v1/conversations`.
pub(super) fn create(asked: &mut RouteRequest<'_>) -> Result<Call, Fault> {
    let body = if asked.body.is_empty() {
        b"{}"
    } else {
        asked.body
    };
    let mut fields = Fields::parse(body)?;
    let labels = metadata(&mut fields)?;
    let items = items(&mut fields, asked)?.unwrap_or_default();
    fields.finish()?;
    call(KeptConversation::Create { items, labels })
}

fn items(fields: &mut Fields, asked: &RouteRequest<'_>) -> Result<Option<Vec<Json>>, Fault> {
    let path = fields.at("items");
    match fields.take("items") {
        None => Ok(None),
        Some(Json::Array(items)) if items.is_empty() => Ok(None),
        Some(Json::Array(items)) if items.len() > MOST => {
            let problem = format_args!("must have at most {MOST} items");
            Err(Fault::field(&path, problem))
        }
        Some(items) => named_items(items, &path, asked.stamp).map(Some),
    }
}

/// `GET /v1/conversations/{id}` and `…/items/{item}`.
pub(super) fn get(asked: &mut RouteRequest<'_>) -> Result<Call, Fault> {
    match asked.id.split_once("/items/") {
        None => call(KeptConversation::Get(name(asked.id)?)),
        Some((id, item)) => call(KeptConversation::Item(name(id)?, name(item)?)),
    }
}

/// `DELETE` of the same.
pub(super) fn delete(asked: &mut RouteRequest<'_>) -> Result<Call, Fault> {
    match asked.id.split_once("/items/") {
        None => call(KeptConversation::Delete(name(asked.id)?)),
        Some((id, item)) => call(KeptConversation::DeleteItem(name(id)?, name(item)?)),
    }
}

/// `POST /v1/conversations/{id}`.
pub(super) fn label(asked: &mut RouteRequest<'_>) -> Result<Call, Fault> {
    let mut fields = Fields::parse(asked.body)?;
    let labels = metadata(&mut fields)?;
    fields.finish()?;
    call(KeptConversation::Label(name(asked.id)?, labels))
}

/// `GET /v1/conversations/{id}/items`.
pub(super) fn list(asked: &mut RouteRequest<'_>) -> Result<Call, Fault> {
    let page = Page::of_query(asked.query)?;
    call(KeptConversation::Items(name(asked.id)?, page))
}

/// `POST /v1/conversations/{id}/items`.
pub(super) fn add(asked: &mut RouteRequest<'_>) -> Result<Call, Fault> {
    let mut fields = Fields::parse(asked.body)?;
    let new = items(&mut fields, asked)?;
    let new = new.ok_or_else(|| fields.missing("items"))?;
    fields.finish()?;
    call(KeptConversation::Add(name(asked.id)?, new))
}

fn name(text: &str) -> Result<alloc::string::String, Fault> {
    let name = unescape(text)?;
    if name.contains('/') {
        let problem = format_args!("there is no conversation named {name:?}");
        return Err(Fault::new(FaultKind::NotFound, problem));
    }
    Ok(name)
}
