//! Many short texts in one string.

use alloc::string::String;
use alloc::vec::Vec;

use super::MAX_TEXT;
use super::error::VocabularyError;

/// A list of texts that takes little more memory than their bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Texts {
    blob: String,
    ends: Vec<u32>,
}

impl Texts {
    pub(super) fn push(&mut self, text: &str) -> Result<(), VocabularyError> {
        self.push_all(&[text])
    }

    /// Adds one text made of several.
    pub(super) fn push_all(&mut self, parts: &[&str]) -> Result<(), VocabularyError> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if self.blob.len() + len > MAX_TEXT {
            return Err(VocabularyError::TextTooLong);
        }
        self.blob.extend(parts.iter().copied());
        self.ends.push(self.blob.len() as u32);
        Ok(())
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(super) fn get(&self, index: usize) -> Option<&str> {
        let end = *self.ends.get(index)? as usize;
        let start = match index.checked_sub(1) {
            Some(before) => *self.ends.get(before)? as usize,
            None => 0,
        };
        self.blob.get(start..end)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}
