//! Faults in this dialect's shape.

use super::thread;
use crate::answer::Reply;
use crate::stamp::Stamp;
use crate::status::status;
use alloc::format;
use strata_chat::json::Json;
use strata_chat::{Fault, FaultKind};

/// The reply for a request that failed.
pub(crate) fn fault(fault: &Fault, stamp: &Stamp) -> Reply {
    let status = match fault.kind {
        // Clients try again after a 5xx, which is of no use here.
        FaultKind::Unsupported => 400,
        FaultKind::Overloaded { .. } | FaultKind::Unavailable { .. } => 529,
        _ => status(fault),
    };
    Reply::fault(fault, status, &document(fault, stamp))
}

/// `{"type": "error", …}`.
pub(super) fn document(fault: &Fault, stamp: &Stamp) -> Json {
    let kind = match fault.kind {
        FaultKind::BadRequest
        | FaultKind::ContextExceeded { .. }
        | FaultKind::Encoding
        | FaultKind::TargetTooLong
        | FaultKind::Method
        | FaultKind::Template
        | FaultKind::Unsupported => "invalid_request_error",
        FaultKind::Unauthenticated => "authentication_error",
        FaultKind::Forbidden => "permission_error",
        FaultKind::NotFound => "not_found_error",
        FaultKind::TooLarge => "request_too_large",
        FaultKind::Timeout => "timeout_error",
        FaultKind::RateLimited { .. } => "rate_limit_error",
        FaultKind::Overloaded { .. } | FaultKind::Unavailable { .. } => "overloaded_error",
        FaultKind::Internal | FaultKind::InvalidModel => "api_error",
    };
    let message = match fault.kind {
        // Clients look for these words.
        FaultKind::ContextExceeded {
            prompt_tokens,
            context,
        } => format!("prompt is too long: {prompt_tokens} tokens > {context} maximum"),
        _ => fault.message.clone(),
    };
    let mut error = Json::object([("type", kind.into()), ("message", message.into())]);
    if let Some(code) = thread::error_code(fault) {
        error.push("details", Json::object([("error_code", code.into())]));
    }
    Json::object([
        ("type", "error".into()),
        ("error", error),
        ("request_id", format!("req_{}", stamp.id).into()),
    ])
}
