//! How far a long piece of work has come.

use alloc::string::String;

/// How far a long piece of work has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// What is being done, such as `pulling manifest`.
    pub status: String,
    /// The blob that it is being done to.
    pub digest: Option<String>,
    /// Its bytes.
    pub total: Option<u64>,
    /// Those that are done.
    pub completed: Option<u64>,
}
