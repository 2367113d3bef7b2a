//! What clients ask the server to keep: responses, chats and conversations, in memory and, with a folder, on disk.

mod conversations;
mod folder;

use folder::ObjectFolder;
use std::collections::HashMap;
use std::path::PathBuf;
use strata_chat::json::Json;
use strata_chat::{Fault, FaultKind, Message};
use strata_wire::call::{Kept, KeptConversation, Recall, Stored};
use strata_wire::openai::ResponseStore;
use tokio::task::AbortHandle;

/// Objects in memory, and their bytes, at most.
const IN_MEMORY: (usize, usize) = (1024, 64 << 20);

/// What all clients keep. What one of them kept, another does not find.
pub(crate) struct StoredObjects {
    memory: ResponseStore,
    folder: Option<ObjectFolder>,
    /// Responses that run on without their clients, by owner and name.
    running: HashMap<(String, String), AbortHandle>,
}

impl StoredObjects {
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self {
            memory: ResponseStore::new(IN_MEMORY.0, IN_MEMORY.1),
            folder: folder.map(ObjectFolder::new),
            running: HashMap::new(),
        }
    }

    /// Keeps an answer, and adds to a conversation what it says.
    pub(crate) fn keep(&mut self, owner: &str, mut kept: Kept) {
        if let Some((conversation, items)) = kept.added.take() {
            // One that was dropped meanwhile stays dropped.
            let _ = self.add_items(owner, &conversation, items);
            if kept.document.is_null() {
                return;
            }
        }
        self.running.remove(&(owner.into(), kept.id.clone()));
        self.put(owner, kept);
    }

    /// Notes how to end a response that runs on without its client.
    pub(crate) fn runs(&mut self, owner: &str, id: &str, task: AbortHandle) {
        // One that has ended by now needs no ending.
        if self.status(owner, id).as_deref() == Some("queued") {
            self.set(owner, id, "status", "in_progress".into());
            self.running.insert((owner.into(), id.into()), task);
        }
    }

    /// Does what a request about a stored answer asks for; the result is the reply's document.
    pub(crate) fn act(&mut self, owner: &str, stored: &Stored) -> Result<Json, Fault> {
        match stored {
            Stored::Get(id) => self.get(owner, id).cloned(),
            Stored::InputItems(id, _) => {
                self.get(owner, id)?;
                self.memory.act(owner, stored)
            }
            Stored::Cancel(id) => self.cancel(owner, id),
            Stored::Delete(id) => {
                let chat = self.get(owner, id)?.get("object") == Some(&"chat.completion".into());
                self.end(owner, id);
                self.remove(owner, id);
                let object = if chat {
                    "chat.completion.deleted"
                } else {
                    "response"
                };
                Ok(deleted(id, object))
            }
            Stored::Messages(id, page) => {
                self.get(owner, id)?;
                let (_, messages) = self.memory.get(owner, id).ok_or_else(|| unknown(id))?;
                let given = messages.split_last().map_or(&[][..], |(_, given)| given);
                let numbered = given.iter().enumerate();
                page.of(numbered.map(|(i, m)| chat_message(id, i, m)).collect())
            }
            Stored::Label(id, labels) => {
                self.get(owner, id)?;
                self.set(owner, id, "metadata", labels.clone());
                self.get(owner, id).cloned()
            }
            Stored::Chats {
                model,
                labels,
                page,
            } => {
                let mut chats = self.chats(owner);
                chats.retain(|chat| {
                    let text =
                        |value: Option<&Json>| value.and_then(Json::as_str).map(str::to_owned);
                    let of_model = model.is_none() || text(chat.get("model")) == *model;
                    let labeled = |(key, value): &(String, String)| {
                        let label = chat.get("metadata").and_then(|labels| labels.get(key));
                        text(label).as_ref() == Some(value)
                    };
                    of_model && labels.iter().all(labeled)
                });
                page.of(chats)
            }
        }
    }

    /// Does what a request about a conversation asks for. `name` is for a new one, `now` in seconds since 1970.
    pub(crate) fn converse(
        &mut self,
        owner: &str,
        wanted: &KeptConversation,
        (name, now): (&str, u64),
    ) -> Result<Json, Fault> {
        conversations::act(self, owner, wanted, (name, now))
    }

    /// What one owner kept, for requests that go on from it.
    pub(crate) fn of<'a>(&'a mut self, owner: &'a str) -> impl Recall + 'a {
        Owned { store: self, owner }
    }

    fn cancel(&mut self, owner: &str, id: &str) -> Result<Json, Fault> {
        if self.get(owner, id)?.get("background") != Some(&true.into()) {
            let problem = "only a response that runs in the background can be canceled";
            return Err(Fault::bad_request(problem));
        }
        if self.end(owner, id) {
            self.set(owner, id, "status", "cancelled".into());
        }
        self.get(owner, id).cloned()
    }

    /// Ends a response that runs on without its client; says whether there was one.
    fn end(&mut self, owner: &str, id: &str) -> bool {
        let task = self.running.remove(&(owner.into(), id.into()));
        task.is_some_and(|task| {
            task.abort();
            true
        })
    }

    /// An object, brought into memory where it is only on disk.
    fn get(&mut self, owner: &str, id: &str) -> Result<&Json, Fault> {
        if self.memory.get(owner, id).is_none()
            && let Some(folder) = &self.folder
            && let Some(kept) = folder.read(owner, id)
        {
            self.memory.keep(owner, kept);
        }
        let found = self.memory.get(owner, id);
        found
            .map(|(document, _)| document)
            .ok_or_else(|| unknown(id))
    }

    fn put(&mut self, owner: &str, kept: Kept) {
        if let Some(folder) = &mut self.folder {
            folder.write(owner, &kept);
        }
        self.memory.keep(owner, kept);
    }

    fn remove(&mut self, owner: &str, id: &str) {
        let _ = self.memory.act(owner, &Stored::Delete(id.into()));
        if let Some(folder) = &mut self.folder {
            folder.remove(owner, id);
        }
    }

    fn status(&mut self, owner: &str, id: &str) -> Option<String> {
        let status = self.get(owner, id).ok()?.get("status")?;
        status.as_str().map(str::to_owned)
    }

    /// Changes a field of an object.
    fn set(&mut self, owner: &str, id: &str, key: &str, value: Json) {
        let Some((document, messages)) = self.memory.get(owner, id) else {
            return;
        };
        let kept = Kept {
            id: id.into(),
            document: with(document, key, value),
            messages: messages.to_vec(),
            added: None,
        };
        self.put(owner, kept);
    }

    /// The chats of an owner, the oldest first.
    fn chats(&self, owner: &str) -> Vec<Json> {
        let mut chats: Vec<Json> = match &self.folder {
            Some(folder) => folder.documents(owner, "chatcmpl-"),
            None => {
                let own = self.memory.documents(owner);
                let own = own.filter(|(id, _)| id.starts_with("chatcmpl-"));
                own.map(|(_, document)| document.clone()).collect()
            }
        };
        let created = |chat: &Json| match chat.get("created") {
            Some(Json::Int(created)) => *created,
            _ => 0,
        };
        chats.sort_by_key(created);
        chats
    }
}

struct Owned<'a> {
    store: &'a mut StoredObjects,
    owner: &'a str,
}

impl Recall for Owned<'_> {
    fn recall(&mut self, id: &str) -> Option<Vec<Message>> {
        self.store.get(self.owner, id).ok()?;
        let (_, messages) = self.store.memory.get(self.owner, id)?;
        Some(messages.to_vec())
    }

    fn document(&mut self, id: &str) -> Option<Json> {
        self.store.get(self.owner, id).ok().cloned()
    }

    fn conversation(&mut self, id: &str) -> Option<Vec<Json>> {
        conversations::items(self.store, self.owner, id).ok()
    }
}

fn unknown(id: &str) -> Fault {
    let problem = format_args!("nothing named {id:?} is kept here");
    Fault::new(FaultKind::NotFound, problem)
}

fn deleted(id: &str, object: &str) -> Json {
    Json::object([
        ("id", id.into()),
        ("object", object.into()),
        ("deleted", true.into()),
    ])
}

/// The document with another value of a field.
fn with(document: &Json, key: &str, value: Json) -> Json {
    let mut pairs = document.as_object().unwrap_or(&[]).to_vec();
    match pairs.iter_mut().find(|(known, _)| known == key) {
        Some((_, old)) => *old = value,
        None => pairs.push((key.into(), value)),
    }
    Json::Object(pairs)
}

/// A message of a kept chat.
fn chat_message(id: &str, index: usize, message: &Message) -> Json {
    let mut shown = Json::object([
        ("id", format!("{id}-{index}").into()),
        ("role", message.role.name().into()),
        ("content", message.joined().into()),
        ("name", message.name.clone().into()),
    ]);
    if let Some(call) = &message.tool_call_id {
        shown.push("tool_call_id", call.as_str());
    }
    if !message.tool_calls.is_empty() {
        let calls = message.tool_calls.iter().map(|call| {
            let function = Json::object([
                ("name", call.name.as_str().into()),
                ("arguments", call.arguments.text().into()),
            ]);
            Json::object([
                ("id", call.id.as_str().into()),
                ("type", "function".into()),
                ("function", function),
            ])
        });
        shown.push("tool_calls", Json::array(calls));
    }
    shown
}

#[cfg(test)]
mod tests;
