//! The key that a head and its peers share.

use crate::error::PeerError;
use std::fmt;

/// A key shorter than this could be guessed.
const SHORTEST: usize = 8;

/// What a head and its peers know and nobody else.
#[derive(Clone, PartialEq, Eq)]
pub struct PeerKey(String);

impl PeerKey {
    /// A key, without the white space around it.
    pub fn new(text: &str) -> Result<Self, PeerError> {
        let text = text.trim();
        if text.chars().count() < SHORTEST {
            return Err(PeerError::ShortKey { least: SHORTEST });
        }
        Ok(Self(text.into()))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// Logs and errors do not tell it.
impl fmt::Debug for PeerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PeerKey(…)")
    }
}
