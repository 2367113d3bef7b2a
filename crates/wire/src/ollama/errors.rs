//! Faults in this dialect's shape.

use crate::answer::Reply;
use crate::status::final_status;
use strata_chat::Fault;
use strata_chat::json::Json;

/// The reply for a request that failed.
pub(crate) fn fault(fault: &Fault) -> Reply {
    Reply::fault(fault, final_status(fault), &document(fault))
}

/// `{"error": …}`, which is also a stream's last line where it fails.
pub(super) fn document(fault: &Fault) -> Json {
    Json::object([("error", fault.message.as_str().into())])
}
