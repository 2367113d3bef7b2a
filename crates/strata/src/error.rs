//! What can go wrong, with a code that stays the same from version to version.

use alloc::string::{String, ToString};
use core::fmt::{self, Display};
use core::time::Duration;
use strata_chat::json::JsonError;
use strata_chat::{Fault, FaultKind, failure, refusal};
use strata_engine::{RequestError, SubmitError};

/// What kind of error it is. Programs in other languages see its [code](ErrorKind::code). New kinds may come.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An option or a request does not make sense.
    InvalidArgument,
    /// There is no such model, file or adapter.
    NotFound,
    /// A model's file is damaged, hostile, or of a kind that is not supported.
    InvalidModel,
    /// The machine, or the limit that was set, has too little memory.
    OutOfMemory,
    /// A file cannot be read or written.
    Io,
    /// The model, or this build, cannot do what was asked.
    Unsupported,
    /// The model's chat template does not take the conversation.
    Template,
    /// The prompt is longer than the context.
    ContextExceeded,
    /// Too many requests wait already.
    Overloaded,
    /// The request, or the load, was canceled.
    Canceled,
    /// A time limit was exceeded.
    TimedOut,
    /// The model was closed.
    Closed,
    /// A bug in this library.
    Internal,
}

impl ErrorKind {
    /// A name that stays the same from version to version.
    pub fn code(self) -> &'static str {
        match self {
            Self::InvalidArgument => "invalid_argument",
            Self::NotFound => "not_found",
            Self::InvalidModel => "invalid_model",
            Self::OutOfMemory => "out_of_memory",
            Self::Io => "io",
            Self::Unsupported => "unsupported",
            Self::Template => "template",
            Self::ContextExceeded => "context_exceeded",
            Self::Overloaded => "overloaded",
            Self::Canceled => "canceled",
            Self::TimedOut => "timed_out",
            Self::Closed => "closed",
            Self::Internal => "internal",
        }
    }
}

/// An error: its kind, one sentence, which [`Display`] writes, and perhaps a hint at what to do about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
    hint: Option<String>,
}

impl Error {
    /// An error of a kind. The message is one sentence without a period.
    pub fn new(kind: ErrorKind, message: impl Display) -> Self {
        Self {
            kind,
            message: message.to_string(),
            hint: None,
        }
    }

    /// The error with a hint at what the user can do about it.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// What kind it is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Its kind's stable name: see [`ErrorKind::code`].
    pub fn code(&self) -> &'static str {
        self.kind.code()
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// A failed read or write of `path`.
    #[cfg(feature = "std")]
    pub fn io(path: impl Display, error: &std::io::Error) -> Self {
        use std::io::ErrorKind as E;
        let kind = match error.kind() {
            E::OutOfMemory => ErrorKind::OutOfMemory,
            E::NotFound => ErrorKind::NotFound,
            _ => ErrorKind::Io,
        };
        // "(os error 2)" tells a user nothing.
        let what = error.to_string();
        let what = what.split(" (os error").next().unwrap_or(&what);
        let failed = Self::new(kind, format_args!("{path}: {what}"));
        match error.kind() {
            E::NotFound => failed.with_hint("check the path"),
            E::StorageFull => failed.with_hint("free some space or write elsewhere"),
            E::OutOfMemory => failed.with_hint("close other programs or raise the memory limit"),
            _ => failed,
        }
    }

    /// The model was closed while it was in use.
    #[cfg(feature = "std")]
    pub(crate) fn closed() -> Self {
        Self::new(ErrorKind::Closed, "the model was closed")
    }
}

impl Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl core::error::Error for Error {}

impl From<Fault> for Error {
    fn from(fault: Fault) -> Self {
        let kind = match fault.kind {
            FaultKind::NotFound => ErrorKind::NotFound,
            FaultKind::Unsupported => ErrorKind::Unsupported,
            FaultKind::Template => ErrorKind::Template,
            FaultKind::InvalidModel => ErrorKind::InvalidModel,
            FaultKind::ContextExceeded { .. } => ErrorKind::ContextExceeded,
            FaultKind::Overloaded { .. } | FaultKind::RateLimited { .. } => ErrorKind::Overloaded,
            FaultKind::Timeout => ErrorKind::TimedOut,
            FaultKind::Unavailable { .. } => ErrorKind::Closed,
            FaultKind::Internal => ErrorKind::Internal,
            _ => ErrorKind::InvalidArgument,
        };
        Self::new(kind, fault.message)
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        let kind = match error.kind {
            ErrorKind::InvalidArgument | ErrorKind::ContextExceeded => FaultKind::BadRequest,
            ErrorKind::NotFound => FaultKind::NotFound,
            ErrorKind::Unsupported => FaultKind::Unsupported,
            ErrorKind::Template => FaultKind::Template,
            ErrorKind::InvalidModel => FaultKind::InvalidModel,
            ErrorKind::OutOfMemory => FaultKind::Unavailable {
                retry_after: Duration::from_secs(30),
            },
            ErrorKind::Closed | ErrorKind::Overloaded => FaultKind::Unavailable {
                retry_after: Duration::from_secs(1),
            },
            _ => FaultKind::Internal,
        };
        Self::new(kind, error.message)
    }
}

impl From<SubmitError> for Error {
    fn from(error: SubmitError) -> Self {
        match error {
            // The engine knows beforehand that there is not enough time.
            SubmitError::Deadline { .. } | SubmitError::PerToken { .. } => {
                Self::new(ErrorKind::TimedOut, error)
            }
            error => refusal(&error).into(),
        }
    }
}

impl From<RequestError> for Error {
    fn from(error: RequestError) -> Self {
        let kind = match error {
            RequestError::Deadline { .. } | RequestError::FirstToken { .. } => ErrorKind::TimedOut,
            error => return failure(&error).into(),
        };
        Self::new(kind, error)
    }
}

impl From<JsonError> for Error {
    fn from(error: JsonError) -> Self {
        Self::new(ErrorKind::InvalidArgument, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Codes are part of the interface: programs in other languages compare with these strings.
    #[test]
    fn codes_stay_as_they_are() {
        use ErrorKind as E;
        let pinned = |kind| match kind {
            E::InvalidArgument => "invalid_argument",
            E::NotFound => "not_found",
            E::InvalidModel => "invalid_model",
            E::OutOfMemory => "out_of_memory",
            E::Io => "io",
            E::Unsupported => "unsupported",
            E::Template => "template",
            E::ContextExceeded => "context_exceeded",
            E::Overloaded => "overloaded",
            E::Canceled => "canceled",
            E::TimedOut => "timed_out",
            E::Closed => "closed",
            E::Internal => "internal",
        };
        let all = [
            E::InvalidArgument,
            E::NotFound,
            E::InvalidModel,
            E::OutOfMemory,
            E::Io,
            E::Unsupported,
            E::Template,
            E::ContextExceeded,
            E::Overloaded,
            E::Canceled,
            E::TimedOut,
            E::Closed,
            E::Internal,
        ];
        for kind in all {
            assert_eq!(kind.code(), pinned(kind));
            assert_eq!(Error::new(kind, "something").code(), pinned(kind));
        }
    }

    #[test]
    fn an_exceeded_time_limit_is_no_bug() {
        let limit = Duration::from_millis(5);
        let error = Error::from(RequestError::Deadline { limit });
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(error.to_string().contains("5 ms"), "{error}");
    }
}
