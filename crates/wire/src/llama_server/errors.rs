//! Faults in this dialect's shape.

use crate::answer::Reply;
use crate::status::status;
use alloc::format;
use strata_chat::json::Json;
use strata_chat::{Fault, FaultKind};

/// The reply for a request that failed.
pub(crate) fn fault(fault: &Fault) -> Reply {
    Reply::fault(fault, status(fault), &document(fault))
}

/// `{"error": …}`.
pub(super) fn document(fault: &Fault) -> Json {
    let kind = match fault.kind {
        FaultKind::BadRequest
        | FaultKind::Template
        | FaultKind::Encoding
        | FaultKind::Method
        | FaultKind::TooLarge
        | FaultKind::TargetTooLong
        | FaultKind::Timeout => "invalid_request_error",
        FaultKind::ContextExceeded { .. } => "exceed_context_size_error",
        FaultKind::Unauthenticated => "authentication_error",
        FaultKind::Forbidden => "permission_error",
        FaultKind::NotFound => "not_found_error",
        FaultKind::Unsupported => "not_supported_error",
        FaultKind::RateLimited { .. }
        | FaultKind::Overloaded { .. }
        | FaultKind::Unavailable { .. } => "unavailable_error",
        FaultKind::Internal | FaultKind::InvalidModel => "server_error",
    };
    let message = match fault.kind {
        // Clients look for these words.
        FaultKind::ContextExceeded {
            prompt_tokens,
            context,
        } => format!(
            "the prompt of {prompt_tokens} tokens exceeds the available context size of {context} tokens"
        ),
        _ => fault.message.clone(),
    };
    let mut error = Json::object([
        ("code", u32::from(status(fault)).into()),
        ("message", message.into()),
        ("type", kind.into()),
    ]);
    if let FaultKind::ContextExceeded {
        prompt_tokens,
        context,
    } = fault.kind
    {
        error.push("n_prompt_tokens", prompt_tokens);
        error.push("n_ctx", context);
    }
    Json::object([("error", error)])
}
