//! Slots: the sequences that an engine computes or keeps.

use crate::event::Timings;
use alloc::string::String;

/// A place for a running request.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "plain words")]
pub struct Slot {
    pub id: usize,
    pub busy: bool,
    pub prompt_tokens: usize,
    pub generated_tokens: usize,
    pub context: usize,
}

/// What to do with a slot's cache.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain words")]
pub enum SlotAction {
    Save { slot: usize, file: String },
    Restore { slot: usize, file: String },
    Erase { slot: usize },
}

/// What came of it.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "plain words")]
pub struct SlotOutcome {
    pub tokens: usize,
    pub bytes: u64,
    pub timings: Timings,
}
