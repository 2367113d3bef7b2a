//! How long pieces of work tell how far they have come, and are told to stop.

use crate::error::StoreError;
use std::ops::ControlFlow;

/// Hears of progress; [`ControlFlow::Break`] ends the work with [`StoreError::Stopped`].
pub type OnProgress<'a> = dyn FnMut(&Progress) -> ControlFlow<()> + 'a;

/// How far a long piece of work has come, in the words of Ollama's API.
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

impl Progress {
    pub(crate) fn status(status: impl Into<String>) -> Self {
        Self {
            status: status.into(),
            ..Self::default()
        }
    }

    pub(crate) fn of(status: impl Into<String>, completed: u64, total: u64) -> Self {
        Self {
            status: status.into(),
            digest: None,
            total: Some(total),
            completed: Some(completed),
        }
    }

    pub(crate) fn tell(&self, to: &mut OnProgress<'_>) -> Result<(), StoreError> {
        match to(self) {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(StoreError::Stopped),
        }
    }
}

/// For callers whom progress does not interest.
pub fn quietly(_: &Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}
