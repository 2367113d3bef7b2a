//! The HTTP statuses of faults.

use strata_chat::{Fault, FaultKind};

/// The status that most dialects give a fault.
pub(crate) fn status(fault: &Fault) -> u16 {
    match fault.kind {
        FaultKind::BadRequest | FaultKind::ContextExceeded { .. } | FaultKind::Template => 400,
        FaultKind::Unauthenticated => 401,
        FaultKind::Forbidden => 403,
        FaultKind::NotFound => 404,
        FaultKind::Method => 405,
        FaultKind::Timeout => 408,
        FaultKind::TooLarge => 413,
        FaultKind::TargetTooLong => 414,
        FaultKind::Encoding => 415,
        FaultKind::RateLimited { .. } => 429,
        FaultKind::Internal | FaultKind::InvalidModel => 500,
        FaultKind::Unsupported => 501,
        FaultKind::Overloaded { .. } | FaultKind::Unavailable { .. } => 503,
    }
}

/// The same for clients that try again after any 5xx, which is of no use for what cannot be done.
pub(crate) fn final_status(fault: &Fault) -> u16 {
    match fault.kind {
        FaultKind::Unsupported => 400,
        _ => status(fault),
    }
}
