//! SentencePiece's precompiled character map: replacements found through a double-array trie.
//!
//! The map is the trie's size in bytes (u32), the trie, and the replacements, each ended by a zero. A unit of the trie
//! holds a label (bits 0–7), whether a value hangs below (bit 8), and the offset to its children (bits 10–30, shifted by
//! 8 if bit 9 is set); a unit with bit 31 set is a value: where the replacement begins.

use alloc::vec::Vec;

use super::error::TokenizerError;

/// The longest replacement that is accepted; Unicode's longest (U+FDFA) has 33 bytes.
const MAX_REPLACEMENT: usize = 256;
/// The most bytes a key is followed for; a hostile trie may have cycles.
const MAX_KEY: usize = 256;

#[derive(Clone, Debug, Default)]
pub(crate) struct Charsmap {
    units: Vec<u32>,
    replacements: Vec<u8>,
}

impl Charsmap {
    pub(crate) fn new(bytes: &[u8]) -> Result<Self, TokenizerError> {
        if bytes.is_empty() {
            return Ok(Charsmap::default());
        }
        let error = |claimed| TokenizerError::CharsmapTable {
            claimed,
            found: bytes.len(),
        };
        let (size, rest) = bytes.split_first_chunk().ok_or(error(0))?;
        let size = u32::from_le_bytes(*size);
        let (trie, replacements) = usize::try_from(size)
            .ok()
            .filter(|size| size.is_multiple_of(4))
            .and_then(|size| rest.split_at_checked(size))
            .ok_or(error(size.into()))?;
        let mut start = 0;
        for replacement in replacements.split_inclusive(|byte| *byte == 0) {
            if replacement.len() > MAX_REPLACEMENT || replacement.last() != Some(&0) {
                return Err(TokenizerError::CharsmapReplacement {
                    offset: 4 + trie.len() + start,
                    limit: MAX_REPLACEMENT,
                });
            }
            start += replacement.len();
        }
        let unit = |bytes: &[u8]| bytes.try_into().map_or(0, u32::from_le_bytes);
        Ok(Charsmap {
            units: trie.chunks_exact(4).map(unit).collect(),
            replacements: replacements.to_vec(),
        })
    }

    /// The longest beginning of `text` that is replaced: its length and what replaces it.
    pub(crate) fn replace(&self, text: &[u8]) -> Option<(usize, &[u8])> {
        let mut node = offset(*self.units.first()?);
        let mut longest = None;
        for (i, byte) in text
            .iter()
            .take(MAX_KEY)
            .enumerate()
            .take_while(|(_, byte)| **byte != 0)
        {
            node ^= u32::from(*byte);
            let Some(unit) = self.units.get(node as usize) else {
                break;
            };
            if unit & (1 << 31 | 0xff) != u32::from(*byte) {
                break;
            }
            node ^= offset(*unit);
            if unit & 1 << 8 != 0 {
                longest = self
                    .units
                    .get(node as usize)
                    .map(|value| (i + 1, value & !(1 << 31)));
            }
        }
        let (len, start) = longest?;
        let replacement = self.replacements.get(start as usize..)?;
        let end = replacement.iter().position(|byte| *byte == 0)?;
        Some((len, replacement.get(..end)?))
    }
}

fn offset(unit: u32) -> u32 {
    (unit >> 10) << ((unit & 1 << 9) >> 6)
}
