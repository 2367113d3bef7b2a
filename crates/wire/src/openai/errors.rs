//! Faults in this dialect's shape.

use crate::answer::Reply;
use crate::status::final_status;
use alloc::borrow::Cow;
use alloc::format;
use strata_chat::json::Json;
use strata_chat::{Fault, FaultKind};

/// The reply for a request that failed.
pub(crate) fn fault(fault: &Fault) -> Reply {
    Reply::fault(fault, final_status(fault), &document(fault))
}

/// `{"error": …}`.
pub(super) fn document(fault: &Fault) -> Json {
    let (kind, code) = words(fault);
    let mut error = Json::object([
        ("message", message(fault).as_ref().into()),
        ("type", kind.into()),
        ("param", fault.field.clone().into()),
        ("code", code.into()),
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

/// What is wrong, in the words that clients look for where a prompt is too long.
pub(super) fn message(fault: &Fault) -> Cow<'_, str> {
    match fault.kind {
        FaultKind::ContextExceeded {
            prompt_tokens,
            context,
        } => Cow::Owned(format!(
            "This model's maximum context length is {context} tokens. However, your prompt resulted in {prompt_tokens} \
             tokens. Please reduce the length of the prompt."
        )),
        _ => Cow::Borrowed(&fault.message),
    }
}

/// The words for a kind of fault: its type and its code.
pub(super) fn words(fault: &Fault) -> (&'static str, Option<&'static str>) {
    let (kind, code) = match fault.kind {
        FaultKind::BadRequest | FaultKind::Template => return ("invalid_request_error", None),
        FaultKind::Unauthenticated => ("invalid_request_error", "invalid_api_key"),
        FaultKind::Forbidden => ("invalid_request_error", "insufficient_permissions"),
        FaultKind::NotFound if fault.field.as_deref() == Some("model") => {
            ("invalid_request_error", "model_not_found")
        }
        FaultKind::NotFound => ("invalid_request_error", "not_found"),
        FaultKind::Method => ("invalid_request_error", "method_not_allowed"),
        FaultKind::TooLarge => ("invalid_request_error", "request_too_large"),
        FaultKind::TargetTooLong => ("invalid_request_error", "uri_too_long"),
        FaultKind::Encoding => ("invalid_request_error", "unsupported_content_encoding"),
        FaultKind::Timeout => ("invalid_request_error", "request_timeout"),
        FaultKind::ContextExceeded { .. } => ("invalid_request_error", "context_length_exceeded"),
        FaultKind::Unsupported => ("invalid_request_error", "unsupported"),
        FaultKind::RateLimited { .. } => ("rate_limit_error", "rate_limit_exceeded"),
        FaultKind::Overloaded { .. } => ("server_error", "overloaded"),
        FaultKind::Unavailable { .. } => ("server_error", "unavailable"),
        FaultKind::Internal | FaultKind::InvalidModel => ("server_error", "internal_error"),
    };
    (kind, Some(code))
}
