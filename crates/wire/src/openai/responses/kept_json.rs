//! Kept answers as JSON, for servers that write them to disk.

use super::{input_items, items};
use crate::call::Kept;
use alloc::vec::Vec;
use strata_chat::json::{Json, JsonPath};
use strata_chat::{Message, Role};

/// An answer to keep, as JSON.
pub fn kept_to_json(kept: &Kept) -> Json {
    let (given, answer) = match kept.messages.split_last() {
        Some((answer, given)) => (given, core::slice::from_ref(answer)),
        None => (&[][..], &[][..]),
    };
    Json::object([
        ("document", kept.document.clone()),
        ("given", Json::Array(input_items::items(given, "kept"))),
        ("answer", Json::Array(input_items::items(answer, "kept"))),
    ])
}

/// The answer of this name that JSON stands for; `None` if it stands for none.
pub fn kept_from_json(id: &str, json: &Json) -> Option<Kept> {
    let read = |key: &str| -> Option<Vec<Message>> {
        match json.get(key)?.as_array()? {
            [] => Some(Vec::new()),
            list => items::messages(Json::Array(list.to_vec()), &JsonPath::root()).ok(),
        }
    };
    let (mut messages, answer) = (read("given")?, read("answer")?);
    if answer.is_empty() {
        messages.push(Message::new(Role::Assistant));
    }
    messages.extend(answer);
    Some(Kept {
        id: id.into(),
        document: json.get("document")?.clone(),
        messages,
        added: None,
    })
}
