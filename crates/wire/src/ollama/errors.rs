//! Faults in this dialect's shape.

use crate::answer::Reply;
use crate::fault::Fault;
use crate::json::Json;

/// The reply for a request that failed.
pub fn fault(fault: &Fault) -> Reply {
    Reply::fault(fault, fault.final_status(), &document(fault))
}

/// `{"error": …}`, which is also a stream's last line where it fails.
pub(super) fn document(fault: &Fault) -> Json {
    Json::object([("error", fault.message.as_str().into())])
}
