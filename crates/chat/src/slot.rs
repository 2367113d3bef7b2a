//! Slots: sequences an engine is running or keeps in its cache.

use crate::event::Timings;
use alloc::string::String;

/// A slot's state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Slot {
    /// Its number.
    pub id: usize,
    /// Whether a request is running in it.
    pub busy: bool,
    /// Tokens in the prompt.
    pub prompt_tokens: usize,
    /// Tokens generated so far.
    pub generated_tokens: usize,
    /// The context length.
    pub context: usize,
}

/// An action on a slot's cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SlotAction {
    /// Save its cache to a file.
    Save {
        /// The slot's number.
        slot: usize,
        /// The file's name.
        file: String,
    },
    /// Restore its cache from a file.
    Restore {
        /// The slot's number.
        slot: usize,
        /// The file's name.
        file: String,
    },
    /// Drop its cache.
    Erase {
        /// The slot's number.
        slot: usize,
    },
}

/// The outcome of a [`SlotAction`].
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotOutcome {
    /// Tokens saved, restored or erased.
    pub tokens: usize,
    /// Bytes written or read.
    pub bytes: u64,
    /// Time taken.
    pub timings: Timings,
}
