//! An answer on its way out, in the words of one dialect.

use crate::call::Kept;
use alloc::string::String;
use alloc::vec::Vec;
use strata_chat::json::Json;
use strata_chat::{Event, Fault};

/// Writes the events of one request as a dialect's bytes.
pub trait AnswerWriter: Send {
    /// How it is sent.
    fn framing(&self) -> Framing;

    /// Appends what an event adds to the body; nothing if the body is one document that is not complete yet.
    ///
    /// [`Event::Failed`] after bytes were sent ends the body in the dialect's way. Before that the server answers with
    /// [`fault`](Self::fault) instead.
    fn event(&mut self, event: &Event, out: &mut Vec<u8>);

    /// The whole reply for a request that failed before anything was sent.
    fn fault(&self, fault: &Fault) -> Reply;

    /// Before any event: the model that answers. Writers name it where the request names none.
    fn answered_by(&mut self, _model: &str) {}

    /// For a request that runs on without its client, once: what the server keeps and answers before the first event.
    fn detached(&mut self) -> Option<Kept> {
        None
    }

    /// After [`Event::Done`], and for a detached request after [`Event::Failed`]: what the server shall keep, once.
    fn kept(&mut self) -> Option<Kept> {
        None
    }
}

/// Writes events before anything was sent. A failure among them decides the status: it is the whole reply.
pub fn begin_answer(
    writer: &mut dyn AnswerWriter,
    events: &[Event],
    out: &mut Vec<u8>,
) -> Result<(), Reply> {
    for event in events {
        match event {
            Event::Failed(fault) => return Err(writer.fault(fault)),
            event => writer.event(event, out),
        }
    }
    Ok(())
}

/// How an answer is sent.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Framing {
    /// One JSON document.
    Whole,
    /// Server-sent events.
    Events,
    /// A JSON document a line.
    Lines,
}

impl Framing {
    /// Events where an answer is streamed, else one document.
    pub(crate) fn events_if(stream: bool) -> Self {
        if stream { Self::Events } else { Self::Whole }
    }

    /// The headers of a body that is sent so.
    pub fn headers(self) -> impl Iterator<Item = (&'static str, &'static str)> {
        // Proxies would hold events back.
        let events = [("cache-control", "no-cache"), ("x-accel-buffering", "no")];
        let events = events.into_iter().filter(move |_| self == Self::Events);
        core::iter::once(("content-type", self.content_type())).chain(events)
    }

    /// The body's media type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Whole => "application/json",
            Self::Events => "text/event-stream",
            Self::Lines => "application/x-ndjson",
        }
    }
}

/// A whole reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// The media type.
    pub content_type: &'static str,
    /// More headers, such as `Retry-After`.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Reply {
    /// All headers: the media type's, and the others.
    pub fn all_headers(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let others = self.headers.iter();
        let others = others.map(|(name, value)| (*name, value.as_str()));
        core::iter::once(("content-type", self.content_type)).chain(others)
    }

    /// A JSON document with status 200.
    pub fn json(value: &Json) -> Self {
        Self::with_status(200, value)
    }

    /// A JSON document.
    pub fn with_status(status: u16, value: &Json) -> Self {
        let mut body = Vec::new();
        value.write(&mut body);
        Self {
            status,
            content_type: "application/json",
            headers: Vec::new(),
            body,
        }
    }

    /// Plain text with status 200.
    pub fn text(text: &str) -> Self {
        Self {
            status: 200,
            content_type: "text/plain; charset=utf-8",
            headers: Vec::new(),
            body: text.as_bytes().to_vec(),
        }
    }

    /// Whether the server lives, or takes requests, in a word.
    pub fn health(word: &str) -> Self {
        Self::json(&Json::object([("status", word.into())]))
    }

    /// The server's numbers, as Prometheus reads them; it started so many seconds after 1970.
    pub fn metrics(text: &str, started: u64) -> Self {
        let started = alloc::format!("{started}");
        Self {
            content_type: "text/plain; version=0.0.4; charset=utf-8",
            headers: alloc::vec![("process-start-time-unix", started)],
            ..Self::text(text)
        }
    }

    /// A fault in the shape that `body` has, with the status and the headers that belong to it.
    pub fn fault(fault: &Fault, status: u16, body: &Json) -> Self {
        let mut reply = Self::with_status(status, body);
        if let Some(after) = fault.retry_after() {
            let seconds = after.as_secs() + u64::from(after.subsec_nanos() > 0);
            let seconds = alloc::format!("{}", seconds.max(1));
            reply.headers.push(("retry-after", seconds));
        }
        reply
    }
}

/// Appends a server-sent event: `data:` with an optional `event:` before it.
pub(crate) fn server_sent(name: Option<&str>, data: &Json, out: &mut Vec<u8>) {
    if let Some(name) = name {
        out.extend_from_slice(b"event: ");
        out.extend_from_slice(name.as_bytes());
        out.push(b'\n');
    }
    out.extend_from_slice(b"data: ");
    data.write(out);
    out.extend_from_slice(b"\n\n");
}
