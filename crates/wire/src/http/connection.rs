//! One connection: requests one after another, each answered before the next is read.

use super::body::Body;
use super::head::Head;
use super::{HttpError, MAX_HEAD};
use crate::budgets::Budgets;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use core::mem;

/// How long a client may be silent at first, be silent between requests, take for a request, and not take what it is
/// sent, in nanoseconds.
const FIRST: u64 = Budgets::BARE_METAL.first_byte.as_nanos() as u64;
const IDLE: u64 = Budgets::BARE_METAL.idle.as_nanos() as u64;
const REQUEST: u64 = Budgets::BARE_METAL.head.as_nanos() as u64;
const STALL: u64 = Budgets::BARE_METAL.stall.as_nanos() as u64;
/// Bytes that wait for a client that does not take them; one that lets more wait is given up.
const BACKLOG: usize = 4 << 20;

/// What a connection has for the server.
#[derive(Debug)]
pub enum Next {
    /// Nothing yet.
    Nothing,
    /// A request, with its body. It must be answered.
    Request(Head, Vec<u8>),
    /// What came is no request; a last reply can be given.
    Refused(HttpError),
}

/// How an answer is sent.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Sending {
    /// All at once: so many bytes.
    Whole(usize),
    /// Piece by piece.
    Pieces,
}

#[derive(Debug)]
enum State {
    Head,
    Body(Box<Head>, Body),
    /// A request is being answered.
    Busy {
        keep_alive: bool,
        chunks: bool,
        /// Only the head of the answer is wanted.
        head_only: bool,
    },
    /// Nothing more is read.
    Last,
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    /// Bytes of `outgoing` that are gone.
    sent: usize,
    state: State,
    /// Since when the client is waited for: a request, or the rest of one.
    since: u64,
    /// When the client last took something.
    took: u64,
    /// Whether the client has said anything yet.
    silent: bool,
}

impl Connection {
    /// A new connection.
    pub fn new(now: u64) -> Self {
        Self {
            incoming: Vec::new(),
            outgoing: Vec::new(),
            sent: 0,
            state: State::Head,
            since: now,
            took: now,
            silent: true,
        }
    }

    /// How many bytes may be read from the client now: what is more waits with the client.
    pub fn room(&self) -> usize {
        match self.state {
            State::Last => 0,
            _ => MAX_HEAD.saturating_sub(self.incoming.len()),
        }
    }

    /// Takes bytes from the client.
    pub fn feed(&mut self, bytes: &[u8], now: u64) {
        if self.incoming.is_empty() && matches!(self.state, State::Head) {
            self.since = now;
        }
        self.silent = false;
        self.incoming.extend_from_slice(bytes);
    }

    /// The next request, if it is complete.
    pub fn next(&mut self, now: u64) -> Next {
        match self.read(now) {
            Ok(Some((head, body))) => Next::Request(head, body),
            Ok(None) => Next::Nothing,
            Err(error) => {
                self.incoming = Vec::new();
                self.state = State::Busy {
                    keep_alive: false,
                    chunks: true,
                    head_only: false,
                };
                Next::Refused(error)
            }
        }
    }

    fn read(&mut self, now: u64) -> Result<Option<(Head, Vec<u8>)>, HttpError> {
        if let State::Head = self.state {
            // Some clients end their bodies with a line too many.
            while self.incoming.starts_with(b"\r\n") {
                self.incoming.drain(..2);
            }
            if let Some((head, len)) = Head::parse(&self.incoming)? {
                self.incoming.drain(..len);
                let body = Body::new(head.length)?;
                if head.waits && self.incoming.is_empty() {
                    self.outgoing
                        .extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                }
                self.state = State::Body(Box::new(head), body);
            }
        }
        if let State::Body(_, body) = &mut self.state {
            let (taken, complete) = body.take(&self.incoming)?;
            self.incoming.drain(..taken);
            if complete {
                return Ok(self.complete(now));
            }
        }
        let waiting = match self.state {
            State::Head => !self.incoming.is_empty(),
            State::Body(..) => true,
            _ => false,
        };
        if waiting && now.saturating_sub(self.since) > REQUEST {
            Err(HttpError::Slow)
        } else {
            Ok(None)
        }
    }

    /// Whether the connection waits for the answer to a request.
    pub fn is_busy(&self) -> bool {
        matches!(self.state, State::Busy { .. })
    }

    fn complete(&mut self, now: u64) -> Option<(Head, Vec<u8>)> {
        let State::Body(head, body) = mem::replace(&mut self.state, State::Last) else {
            return None;
        };
        self.state = State::Busy {
            keep_alive: head.keep_alive,
            chunks: head.chunks,
            head_only: head.method == "HEAD",
        };
        self.took = now;
        Some((*head, body.into_bytes()))
    }

    /// Begins the answer to the request that was taken.
    pub fn begin(&mut self, status: u16, headers: &[(&str, &str)], sending: Sending) {
        let State::Busy {
            keep_alive, chunks, ..
        } = &mut self.state
        else {
            return;
        };
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = write!(text, "HTTP/1.1 {status} {}\r\n", phrase(status));
        for (name, value) in headers {
            // A line's end in a value would begin another header.
            if !value.contains(['\r', '\n']) {
                let _ = write!(text, "{name}: {value}\r\n");
            }
        }
        match sending {
            Sending::Whole(len) => {
                *chunks = false;
                let _ = write!(text, "content-length: {len}\r\n");
            }
            Sending::Pieces if *chunks => text.push_str("transfer-encoding: chunked\r\n"),
            // The end of the connection is the end of the body.
            Sending::Pieces => *keep_alive = false,
        }
        text.push_str(if *keep_alive {
            "connection: keep-alive\r\n\r\n"
        } else {
            "connection: close\r\n\r\n"
        });
        self.outgoing.extend_from_slice(text.as_bytes());
    }

    /// Adds to the answer.
    pub fn piece(&mut self, bytes: &[u8]) {
        match self.state {
            State::Busy {
                head_only: false,
                chunks,
                ..
            } if !bytes.is_empty() => {
                let mut size = String::new();
                if chunks {
                    let _ = write!(size, "{:x}\r\n", bytes.len());
                }
                self.outgoing.extend_from_slice(size.as_bytes());
                self.outgoing.extend_from_slice(bytes);
                if chunks {
                    self.outgoing.extend_from_slice(b"\r\n");
                }
            }
            _ => {}
        }
    }

    /// The answer is complete.
    pub fn end(&mut self, now: u64) {
        let State::Busy {
            keep_alive,
            chunks,
            head_only,
        } = self.state
        else {
            return;
        };
        if chunks && !head_only {
            self.outgoing.extend_from_slice(b"0\r\n\r\n");
        }
        self.state = if keep_alive { State::Head } else { State::Last };
        self.since = now;
    }

    /// What is to be sent.
    pub fn outgoing(&self) -> &[u8] {
        &self.outgoing[self.sent..]
    }

    /// So many bytes of it were sent.
    pub fn sent(&mut self, bytes: usize, now: u64) {
        if bytes > 0 || self.outgoing().is_empty() {
            self.took = now;
        }
        self.sent = self.sent.saturating_add(bytes).min(self.outgoing.len());
        if self.sent == self.outgoing.len() {
            self.outgoing.clear();
            self.sent = 0;
        } else if self.sent > 1 << 16 {
            self.outgoing.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// Whether everything is said.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Last) && self.outgoing().is_empty()
    }

    /// Since when it is the client that is waited for; nothing while a request is worked on.
    pub fn waits_since(&self) -> Option<u64> {
        if !self.outgoing().is_empty() {
            return Some(self.took);
        }
        (!self.is_busy()).then_some(self.since)
    }

    /// Whether the client is to be given up: it neither asks nor listens.
    pub fn is_stale(&self, now: u64) -> bool {
        let idle = matches!(self.state, State::Head) && self.incoming.is_empty();
        let waits = !self.outgoing().is_empty();
        let patience = if self.silent { FIRST } else { IDLE };
        idle && !waits && now.saturating_sub(self.since) > patience
            || waits && now.saturating_sub(self.took) > STALL
            || matches!(self.state, State::Last) && now.saturating_sub(self.since) > STALL
            || self.outgoing().len() > BACKLOG
    }

    /// Bytes that it holds, for those who share memory with it.
    pub fn bytes(&self) -> usize {
        let body = match &self.state {
            State::Body(_, body) => body.len(),
            _ => 0,
        };
        self.incoming.len() + self.outgoing.len() + body
    }
}

fn phrase(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        _ => "Status",
    }
}
