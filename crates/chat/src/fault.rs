//! Why a request failed.

use crate::json::JsonPath;
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt;
use core::time::Duration;

/// The kind of a failure.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The request is malformed or impossible.
    BadRequest,
    /// The API key is missing or invalid.
    Unauthenticated,
    /// The API key does not permit this.
    Forbidden,
    /// There is no such route, model or stored object.
    NotFound,
    /// The route does not support this method.
    Method,
    /// The body or a header is too large.
    TooLarge,
    /// The request's target is too long.
    TargetTooLong,
    /// The body is encoded in a way that is not supported.
    Encoding,
    /// The client was too slow.
    Timeout,
    /// The prompt does not fit in the context.
    ContextExceeded {
        /// Tokens in the prompt.
        prompt_tokens: usize,
        /// The context length.
        context: usize,
    },
    /// This client exceeded its rate limit.
    RateLimited {
        /// When to try again.
        retry_after: Duration,
    },
    /// The queue is full.
    Overloaded {
        /// When to try again.
        retry_after: Duration,
    },
    /// The model is loading, or the server is shutting down.
    Unavailable {
        /// When to try again.
        retry_after: Duration,
    },
    /// This build or model does not support it.
    Unsupported,
    /// The chat template rejects the conversation.
    Template,
    /// The model is damaged: its template does not parse, or its logits are not finite.
    InvalidModel,
    /// An internal error.
    Internal,
}

/// Bytes of a message and of a field's name at most: nobody is sent their own megabytes back.
const LONGEST_MESSAGE: usize = crate::budgets::BYTES_OF_AN_ERROR;
const LONGEST_FIELD: usize = 400;

/// The beginning of a text that is too long.
fn cut(mut text: String, longest: usize) -> String {
    if text.len() > longest {
        text.truncate(text.floor_char_boundary(longest));
        text.push('…');
    }
    text
}

/// A failed request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind of failure.
    pub kind: FaultKind,
    /// The request field that caused it.
    pub field: Option<String>,
    /// A sentence for the caller.
    pub message: String,
}

impl Fault {
    /// A fault of this kind.
    pub fn new(kind: FaultKind, message: impl fmt::Display) -> Self {
        Self {
            kind,
            field: None,
            message: cut(message.to_string(), LONGEST_MESSAGE),
        }
    }

    /// A malformed or impossible request.
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

    /// An invalid field; `problem` follows its path in the message.
    pub fn field(path: &JsonPath, problem: fmt::Arguments<'_>) -> Self {
        Self {
            kind: FaultKind::BadRequest,
            field: Some(cut(path.to_string(), LONGEST_FIELD)),
            message: cut(format!("{path}: {problem}"), LONGEST_MESSAGE),
        }
    }

    /// When to try again, for faults that may pass.
    pub fn retry_after(&self) -> Option<Duration> {
        match self.kind {
            FaultKind::RateLimited { retry_after }
            | FaultKind::Overloaded { retry_after }
            | FaultKind::Unavailable { retry_after } => Some(retry_after),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_does_not_echo_a_long_request() {
        let said = Fault::bad_request(format_args!("{} is no role", "é".repeat(1 << 20)));
        let most = LONGEST_MESSAGE + "…".len();
        assert!(said.message.len() <= most, "{}", said.message.len());
        assert!(said.message.ends_with("é…"));
        assert_eq!(Fault::bad_request("short").message, "short");
    }
}
