//! The tokens of a vocabulary: one blob of text, and per token where it ends, its kind and its score.

use alloc::string::String;
use alloc::vec::Vec;
use core::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::error::TokenizerError;

/// The most tokens in a vocabulary. The largest published ones have about 260,000.
pub const MAX_TOKENS: usize = 1 << 22;

/// What kind of token it is, as GGUF numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// None was stated.
    Undefined,
    /// A piece of text.
    Normal,
    /// Stands for what the vocabulary cannot spell.
    Unknown,
    /// Steers the model and is no text.
    Control,
    /// Text that is always one token, found before anything else is done.
    UserDefined,
    /// Reserved and never produced.
    Unused,
    /// One byte, spelled `<0xXX>`.
    Byte,
}

/// The byte that a token's text `<0xXX>` spells.
pub(crate) fn byte(text: &str) -> Option<u8> {
    let hex = text.strip_prefix("<0x")?.strip_suffix('>')?;
    let plain = hex.len() == 2 && hex.bytes().all(|digit| digit.is_ascii_hexdigit());
    u8::from_str_radix(hex, 16).ok().filter(|_| plain)
}

impl TokenKind {
    /// The kind with that number in `tokenizer.ggml.token_type`.
    pub fn from_gguf(number: i128) -> Option<TokenKind> {
        Some(match number {
            0 => TokenKind::Undefined,
            1 => TokenKind::Normal,
            2 => TokenKind::Unknown,
            3 => TokenKind::Control,
            4 => TokenKind::UserDefined,
            5 => TokenKind::Unused,
            6 => TokenKind::Byte,
            _ => return None,
        })
    }
}

#[derive(Clone, Copy)]
struct Entry {
    end: u32,
    score: f32,
    kind: TokenKind,
    /// Whether spelling out text may produce it; a later change of the kind leaves this as it is.
    spelled: bool,
}

/// The tokens of a vocabulary by id, and their ids by text.
///
/// Of tokens with the same text the first is found by it; an empty one is never found.
#[derive(Clone, Default)]
pub struct TokenTable {
    text: String,
    entries: Vec<Entry>,
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
    longest: usize,
}

impl core::fmt::Debug for TokenTable {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "TokenTable({} tokens)", self.entries.len())
    }
}

impl TokenTable {
    /// An empty table with room for `tokens` tokens.
    pub fn with_capacity(tokens: usize) -> Self {
        let tokens = tokens.min(MAX_TOKENS);
        let hasher = DefaultHashBuilder::default();
        TokenTable {
            text: String::new(),
            entries: Vec::with_capacity(tokens),
            index: HashTable::with_capacity(tokens),
            hasher,
            longest: 0,
        }
    }

    /// Adds the token with the next id.
    pub fn push(&mut self, text: &str, kind: TokenKind, score: f32) -> Result<u32, TokenizerError> {
        let id = self.entries.len() as u32;
        if self.entries.len() >= MAX_TOKENS {
            return Err(TokenizerError::TooMany {
                key: "tokenizer.ggml.tokens",
                found: self.entries.len() + 1,
                limit: MAX_TOKENS,
            });
        }
        let end = u32::try_from(self.text.len() + text.len())
            .map_err(|_| TokenizerError::TextTooLong { id })?;
        self.text.push_str(text);
        self.longest = self.longest.max(text.len());
        let spelled = !matches!(
            kind,
            TokenKind::Control | TokenKind::Unknown | TokenKind::Byte
        );
        self.entries.push(Entry {
            end,
            score,
            kind,
            spelled,
        });
        if !text.is_empty() && self.find(text).is_none() {
            let Self {
                text: blob,
                entries,
                index,
                hasher,
                ..
            } = self;
            index.insert_unique(hasher.hash_one(text.as_bytes()), id, |other| {
                hasher.hash_one(slice(blob, entries, *other).as_bytes())
            });
        }
        Ok(id)
    }

    /// How many tokens there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no token.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The token's text as the vocabulary spells it.
    pub fn text(&self, id: u32) -> Option<&str> {
        self.entries.get(id as usize)?;
        Some(slice(&self.text, &self.entries, id))
    }

    /// The token's kind.
    pub fn kind(&self, id: u32) -> Option<TokenKind> {
        Some(self.entries.get(id as usize)?.kind)
    }

    /// The token's score: the higher, the sooner it is merged or the likelier it is.
    pub fn score(&self, id: u32) -> Option<f32> {
        Some(self.entries.get(id as usize)?.score)
    }

    /// The token with this text.
    pub fn find(&self, text: &str) -> Option<u32> {
        self.find_bytes(text.as_bytes())
    }

    /// The ids of all tokens.
    pub fn ids(&self) -> impl Iterator<Item = u32> + use<> {
        0..self.entries.len() as u32
    }

    pub(crate) fn find_bytes(&self, text: &[u8]) -> Option<u32> {
        if text.len() > self.longest || text.is_empty() {
            return None;
        }
        let hash = self.hasher.hash_one(text);
        let same = |id: &u32| slice(&self.text, &self.entries, *id).as_bytes() == text;
        self.index.find(hash, same).copied()
    }

    /// The token with this text, if spelling out text may produce it.
    pub(crate) fn find_spelled(&self, text: &[u8]) -> Option<u32> {
        self.find_bytes(text).filter(|id| self.is_spelled(*id))
    }

    pub(crate) fn is_spelled(&self, id: u32) -> bool {
        self.entries.get(id as usize).is_some_and(|e| e.spelled)
    }

    /// The bytes of the longest token.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    pub(crate) fn set_kind(&mut self, id: u32, kind: TokenKind) {
        if let Some(entry) = self.entries.get_mut(id as usize) {
            entry.kind = kind;
        }
    }

    /// The ids of `<0x00>` to `<0xFF>`; `NONE` where there is none.
    pub(crate) fn byte_ids(&self) -> [u32; 256] {
        let mut ids = [NONE; 256];
        for (byte, id) in ids.iter_mut().enumerate() {
            let text = alloc::format!("<0x{byte:02X}>");
            *id = self.find(&text).unwrap_or(NONE);
        }
        ids
    }
}

/// Stands for "no token" where an `Option` would double the size.
pub(crate) const NONE: u32 = u32::MAX;

fn slice<'a>(text: &'a str, entries: &[Entry], id: u32) -> &'a str {
    let id = id as usize;
    let start = match id.checked_sub(1) {
        Some(before) => entries.get(before).map_or(0, |e| e.end),
        None => 0,
    };
    let end = entries.get(id).map_or(start, |e| e.end);
    text.get(start as usize..end as usize).unwrap_or("")
}
