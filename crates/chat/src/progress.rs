//! Progress of long operations.

use alloc::string::String;

/// Progress of a long operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The current step, such as `pulling manifest`.
    pub status: String,
    /// The blob being worked on.
    pub digest: Option<String>,
    /// Its size in bytes.
    pub total: Option<u64>,
    /// Bytes completed.
    pub completed: Option<u64>,
}
