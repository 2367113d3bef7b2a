//! How an input ended, so that inputs which end in a new way can be told from the others.

use std::fmt::Display;
use std::hash::{DefaultHasher, Hash, Hasher};

/// A fingerprint of what became of an input. Without a compiler that counts branches, it is what says that a mutant got
/// somewhere new.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Outcome(u64);

/// Errors are sentences; longer ones would echo the input.
const LONGEST_ERROR: usize = 4000;

impl Outcome {
    /// Refused with a sentence.
    pub fn refused(error: &dyn Display) -> Self {
        let text = error.to_string();
        assert!(
            text.len() <= LONGEST_ERROR,
            "an error of {} bytes: {}",
            text.len(),
            text.chars().take(300).collect::<String>()
        );
        Self::said(&text)
    }

    /// Refused with words of the input itself: a template may say what it likes, and whoever answers a request cuts it.
    pub fn refused_at_length(error: &dyn Display) -> Self {
        Self::said(&error.to_string())
    }

    /// Numbers and quoted words make no difference.
    fn said(text: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        let mut quoted = false;
        for character in text.chars() {
            quoted ^= matches!(character, '"' | '`' | '\'');
            if !quoted && !character.is_ascii_digit() {
                character.hash(&mut hasher);
            }
        }
        Self(hasher.finish())
    }

    /// Taken, with whatever describes how: magnitudes rather than exact numbers, or every mutant would be new.
    pub fn taken(how: impl Hash) -> Self {
        let mut hasher = DefaultHasher::new();
        (1u8, how).hash(&mut hasher);
        Self(hasher.finish())
    }

    /// Not even looked at.
    pub fn ignored() -> Self {
        Self(0)
    }
}

/// The magnitude of a number.
pub(crate) fn magnitude(number: usize) -> u32 {
    usize::BITS - number.leading_zeros()
}
