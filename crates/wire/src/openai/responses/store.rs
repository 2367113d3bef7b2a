//! Answers that are kept: so many, so many bytes, the least used dropped first, and each found only by its owner.

use super::input_items;
use crate::call::{Kept, Recall, Stored};
use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use strata_chat::json::Json;
use strata_chat::{ContentPart, Fault, FaultKind, Message};

/// Kept answers of all clients.
#[derive(Debug)]
pub struct ResponseStore {
    entries: BTreeMap<Key, Entry>,
    /// The entries by when they were last used.
    order: BTreeMap<u64, Key>,
    uses: u64,
    bytes: usize,
    max_count: usize,
    max_bytes: usize,
}

/// The owner, and the answer's name.
type Key = (String, String);

#[derive(Debug)]
struct Entry {
    document: Json,
    messages: Vec<Message>,
    bytes: usize,
    used: u64,
}

impl ResponseStore {
    /// An empty store that holds so many answers, and so many bytes of them, at most.
    pub fn new(max_count: usize, max_bytes: usize) -> Self {
        Self {
            entries: BTreeMap::new(),
            order: BTreeMap::new(),
            uses: 0,
            bytes: 0,
            max_count,
            max_bytes,
        }
    }

    /// Answers in it.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of them, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps an answer, and drops others until it fits. One that is larger than the store is not kept.
    pub fn keep(&mut self, owner: &str, kept: Kept) {
        let key = (owner.to_owned(), kept.id);
        self.remove(&key);
        let messages: usize = kept.messages.iter().map(message_bytes).sum();
        let bytes = json_bytes(&kept.document)
            .saturating_add(messages)
            .saturating_add(2 * (key.0.len() + key.1.len()) + size_of::<Entry>());
        if bytes > self.max_bytes || self.max_count == 0 {
            return;
        }
        while self.entries.len() >= self.max_count || self.bytes > self.max_bytes - bytes {
            let Some(oldest) = self.order.values().next().cloned() else {
                break;
            };
            self.remove(&oldest);
        }
        self.uses += 1;
        self.order.insert(self.uses, key.clone());
        self.bytes += bytes;
        let entry = Entry {
            document: kept.document,
            messages: kept.messages,
            bytes,
            used: self.uses,
        };
        self.entries.insert(key, entry);
    }

    /// Does what a request about a stored answer asks for; the result is the reply's document.
    pub fn act(&mut self, owner: &str, stored: &Stored) -> Result<Json, Fault> {
        let (Stored::Get(id) | Stored::Delete(id) | Stored::Cancel(id) | Stored::InputItems(id, _)) =
            stored
        else {
            let problem = "chats are not kept here";
            return Err(Fault::new(FaultKind::Unsupported, problem));
        };
        let key = (owner.to_owned(), id.clone());
        let entry = self.touch(&key).ok_or_else(|| {
            let problem = format_args!("there is no stored response named {id:?}");
            Fault::new(FaultKind::NotFound, problem)
        })?;
        match stored {
            Stored::Get(_) => Ok(entry.document.clone()),
            Stored::InputItems(_, page) => input_items::list(id, &entry.messages, page),
            Stored::Delete(_) => {
                self.remove(&key);
                Ok(Json::object([
                    ("id", id.as_str().into()),
                    ("object", "response".into()),
                    ("deleted", true.into()),
                ]))
            }
            _ => Err(Fault::bad_request(
                "only a response that runs in the background can be cancelled, and this one is complete",
            )),
        }
    }

    /// A stored answer, and the conversation up to and with it.
    pub fn get(&mut self, owner: &str, id: &str) -> Option<(&Json, &[Message])> {
        let entry = self.touch(&(owner.to_owned(), id.to_owned()))?;
        Some((&entry.document, &entry.messages))
    }

    /// What one owner's answers are, by name.
    pub fn documents(&self, owner: &str) -> impl Iterator<Item = (&str, &Json)> {
        let own = self.entries.iter().filter(move |((of, _), _)| of == owner);
        own.map(|((_, id), entry)| (id.as_str(), &entry.document))
    }

    /// What one owner kept.
    pub fn of<'a>(&'a mut self, owner: &'a str) -> impl Recall + 'a {
        Owned { store: self, owner }
    }

    fn touch(&mut self, key: &Key) -> Option<&Entry> {
        let entry = self.entries.get_mut(key)?;
        self.order.remove(&entry.used);
        self.uses += 1;
        entry.used = self.uses;
        self.order.insert(self.uses, key.clone());
        Some(entry)
    }

    fn remove(&mut self, key: &Key) {
        if let Some(entry) = self.entries.remove(key) {
            self.order.remove(&entry.used);
            self.bytes -= entry.bytes;
        }
    }
}

struct Owned<'a> {
    store: &'a mut ResponseStore,
    owner: &'a str,
}

impl Recall for Owned<'_> {
    fn recall(&mut self, id: &str) -> Option<Vec<Message>> {
        let key = (self.owner.to_owned(), id.to_owned());
        Some(self.store.touch(&key)?.messages.clone())
    }

    fn document(&mut self, id: &str) -> Option<Json> {
        let key = (self.owner.to_owned(), id.to_owned());
        Some(self.store.touch(&key)?.document.clone())
    }
}

fn message_bytes(message: &Message) -> usize {
    let parts = message.parts.iter().map(|part| match part {
        ContentPart::Text(text) => text.len(),
        ContentPart::Image(image) => image.bytes.len(),
        ContentPart::ImageUrl(image) => image.url.len() + image.field.len(),
        ContentPart::Audio(audio) => audio.bytes.len(),
    });
    let calls = message
        .tool_calls
        .iter()
        .map(|call| call.id.len() + call.name.len() + json_bytes(&call.arguments));
    let names = [&message.thinking, &message.tool_call_id, &message.name];
    let names = names.into_iter().flatten().map(String::len);
    let content: usize = parts.chain(calls).chain(names).sum();
    content
        + size_of::<Message>()
        + message.parts.len() * size_of::<ContentPart>()
        + message.tool_calls.len() * size_of::<strata_chat::ToolCall>()
}

/// Bytes in memory, not of the text: a list of small numbers takes many times its text.
fn json_bytes(value: &Json) -> usize {
    let inner = match value {
        Json::String(text) => text.len(),
        Json::Array(items) => items.iter().map(json_bytes).sum(),
        Json::Object(pairs) => {
            let pairs = pairs
                .iter()
                .map(|(key, value)| size_of::<String>() + key.len() + json_bytes(value));
            pairs.sum()
        }
        _ => 0,
    };
    size_of::<Json>() + inner
}
