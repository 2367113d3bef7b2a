//! Faults in this dialect's shape.

use crate::answer::Reply;
use crate::fault::{Fault, FaultKind};
use crate::json::Json;

/// The reply for a request that failed.
pub fn fault(fault: &Fault) -> Reply {
    let status = match fault.kind {
        // Clients try again after a 5xx, which is of no use here.
        FaultKind::Unsupported => 400,
        _ => fault.status(),
    };
    Reply::fault(fault, status, &document(fault))
}

/// `{"error": …}`, which is also a stream's last line where it fails.
pub(super) fn document(fault: &Fault) -> Json {
    Json::object([("error", fault.message.as_str().into())])
}
