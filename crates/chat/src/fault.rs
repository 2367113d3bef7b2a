//! What goes wrong with a call, before any dialect gives it its shape.

use crate::json::JsonPath;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::time::Duration;

/// What kind of failure it is; each dialect has its own word and status for it.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The call cannot be understood or asks for what is not possible.
    BadRequest,
    /// No key, or not one of ours.
    Unauthenticated,
    /// The key does not allow this.
    Forbidden,
    /// There is no such route, model or stored thing.
    NotFound,
    /// The route exists, not with this method.
    Method,
    /// The body or a header is larger than allowed.
    TooLarge,
    /// The client was too slow.
    Timeout,
    /// The prompt does not fit in the context.
    ContextExceeded {
        /// Tokens of the prompt.
        prompt_tokens: usize,
        /// Tokens of the context.
        context: usize,
    },
    /// Too many calls by this client.
    RateLimited {
        /// When to try again.
        retry_after: Duration,
    },
    /// The queue is full.
    Overloaded {
        /// When to try again.
        retry_after: Duration,
    },
    /// The model is being loaded, or the server shuts down.
    Unavailable {
        /// When to try again.
        retry_after: Duration,
    },
    /// This build or model cannot do it.
    Unsupported,
    /// A fault of ours.
    Internal,
}

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What kind of failure.
    pub kind: FaultKind,
    /// The field of the request that caused it.
    pub field: Option<String>,
    /// One sentence for the person who made the call.
    pub message: String,
}

impl Fault {
    /// A fault of some kind.
    pub fn new(kind: FaultKind, message: impl fmt::Display) -> Self {
        Self {
            kind,
            field: None,
            message: message.to_string(),
        }
    }

    /// A request that cannot be understood.
    pub fn bad_request(message: impl fmt::Display) -> Self {
        Self::new(FaultKind::BadRequest, message)
    }

    /// The model was unloaded while the request ran.
    pub fn unloaded() -> Self {
        let kind = FaultKind::Unavailable {
            retry_after: Duration::from_secs(1),
        };
        Self::new(kind, "the model was unloaded")
    }

    /// A field that is wrong: `problem` goes after its name.
    pub fn field(path: &JsonPath, problem: fmt::Arguments<'_>) -> Self {
        Self {
            kind: FaultKind::BadRequest,
            field: Some(path.to_string()),
            message: format!("{path}: {problem}"),
        }
    }

    /// When to try again, where that may help.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.kind {
            FaultKind::RateLimited { retry_after }
            | FaultKind::Overloaded { retry_after }
            | FaultKind::Unavailable { retry_after } => Some(retry_after),
            _ => None,
        }
    }
}
