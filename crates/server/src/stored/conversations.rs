//! Conversations: documents with items, which responses add to.

use super::{StoredObjects, deleted, unknown, with};
use strata_chat::Fault;
use strata_chat::json::Json;
use strata_wire::call::{Kept, KeptConversation};
use strata_wire::openai::Page;

/// Items of one conversation at most: the oldest are dropped.
const MOST: usize = 4096;

pub(super) fn act(
    store: &mut StoredObjects,
    owner: &str,
    wanted: &KeptConversation,
    (name, now): (&str, u64),
) -> Result<Json, Fault> {
    match wanted {
        KeptConversation::Create { items, labels } => {
            let id = format!("conv_{name}");
            let document = Json::object([
                ("id", id.as_str().into()),
                ("object", "conversation".into()),
                ("created_at", now.into()),
                ("metadata", labels.clone()),
                ("items", Json::Array(items.clone())),
            ]);
            let kept = Kept {
                id: id.clone(),
                document,
                ..Kept::default()
            };
            store.put(owner, kept);
            shown(store, owner, &id)
        }
        KeptConversation::Get(id) => shown(store, owner, id),
        KeptConversation::Label(id, labels) => {
            shown(store, owner, id)?;
            store.set(owner, id, "metadata", labels.clone());
            shown(store, owner, id)
        }
        KeptConversation::Delete(id) => {
            shown(store, owner, id)?;
            store.remove(owner, id);
            Ok(deleted(id, "conversation.deleted"))
        }
        KeptConversation::Items(id, page) => page.of(items(store, owner, id)?),
        KeptConversation::Add(id, new) => {
            store.add_items(owner, id, new.clone())?;
            let all = Page {
                limit: new.len(),
                newest_first: false,
                after: None,
            };
            all.of(new.clone())
        }
        KeptConversation::Item(id, item) => {
            let all = items(store, owner, id)?;
            let found = all.into_iter().find(|known| is(known, item));
            found.ok_or_else(|| unknown(item))
        }
        KeptConversation::DeleteItem(id, item) => {
            let mut all = items(store, owner, id)?;
            let before = all.len();
            all.retain(|known| !is(known, item));
            if all.len() == before {
                return Err(unknown(item));
            }
            store.set(owner, id, "items", Json::Array(all));
            shown(store, owner, id)
        }
    }
}

/// The items of a conversation, the oldest first.
pub(super) fn items(store: &mut StoredObjects, owner: &str, id: &str) -> Result<Vec<Json>, Fault> {
    let items = store.get(owner, id)?.get("items").and_then(Json::as_array);
    items.map(<[Json]>::to_vec).ok_or_else(|| unknown(id))
}

impl StoredObjects {
    /// Adds items to a conversation.
    pub(super) fn add_items(&mut self, owner: &str, id: &str, new: Vec<Json>) -> Result<(), Fault> {
        let mut all = items(self, owner, id)?;
        all.extend(new);
        let cut = all.len().saturating_sub(MOST);
        all.drain(..cut);
        self.set(owner, id, "items", Json::Array(all));
        Ok(())
    }
}

fn is(item: &Json, id: &str) -> bool {
    item.get("id").and_then(Json::as_str) == Some(id)
}

/// The conversation without its items.
fn shown(store: &mut StoredObjects, owner: &str, id: &str) -> Result<Json, Fault> {
    items(store, owner, id)?;
    let document = with(store.get(owner, id)?, "items", Json::Null);
    let pairs = document.as_object().unwrap_or(&[]).iter();
    let pairs = pairs.filter(|(key, _)| key != "items").cloned();
    Ok(Json::Object(pairs.collect()))
}
