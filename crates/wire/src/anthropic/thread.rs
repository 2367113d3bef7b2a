//! Threads: conversations that the server keeps under the names of its answers, so that the next turn sends only what is
//! new. The SDKs' tool runners work this way.

use super::content::unsupported;
use crate::call::Recall;
use alloc::vec::Vec;
use strata_chat::json::{Fields, Json};
use strata_chat::{Fault, FaultKind, Message};

/// What a thread begins a turn with.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    /// The conversation so far.
    pub(super) messages: Vec<Message>,
    /// The tools as the first turn sent them.
    pub(super) tools: Json,
}

/// `thread`; `None` if the turn belongs to none.
pub(super) fn read(fields: &mut Fields, recall: &mut dyn Recall) -> Result<Option<Thread>, Fault> {
    let Some(mut thread) = fields.maybe_object("thread")? else {
        return Ok(None);
    };
    let path = thread.at("type");
    let begun = match thread.string("type")?.as_str() {
        "create" => Thread {
            messages: Vec::new(),
            tools: fields.peek("tools").cloned().unwrap_or(Json::Null),
        },
        "continue" => {
            let id = thread.string("previous_message_id")?;
            for name in ["system", "tools"] {
                if fields.take(name).is_some() {
                    let problem = format_args!("is the thread's own; leave it out to continue one");
                    return Err(Fault::field(&fields.at(name), problem));
                }
            }
            let messages = recall.recall(&id).ok_or_else(|| Fault {
                field: Some("thread".into()),
                ..Fault::new(
                    FaultKind::NotFound,
                    format_args!("there is no thread with the message {id:?}"),
                )
            })?;
            Thread {
                messages,
                tools: recall.document(&id).unwrap_or(Json::Null),
            }
        }
        other => return Err(unsupported(&path, other)),
    };
    thread.finish()?;
    Ok(Some(begun))
}

/// What tells clients that a thread is lost, and that they have to send the conversation again.
pub(super) fn error_code(fault: &Fault) -> Option<&'static str> {
    let lost = fault.kind == FaultKind::NotFound && fault.field.as_deref() == Some("thread");
    lost.then_some("thread_not_found")
}
