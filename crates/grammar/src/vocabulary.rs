//! A model's tokens as constraints see them: their bytes, and the way text is spelled.

use crate::error::VocabularyError;
use crate::trie::Trie;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use strata_tokenizer::{EncodeOptions, MAX_TOKENS, ModelKind, TokenKind, Tokenizer};

/// A byte that is in no UTF-8 text.
pub(crate) const MARK: u8 = 0xff;

/// The tokens' bytes, and how text is spelled in the middle of other text.
#[derive(Debug)]
pub struct Words {
    tokenizer: Tokenizer,
    /// A character that stands in front of a text to be spelled in the middle of another, with its tokens.
    lead: Option<(char, Vec<u32>)>,
    /// The tokens with a newline: token t is bit t % 32 of word t / 32.
    newlines: Vec<u32>,
}

impl Words {
    /// The words of a tokenizer; and the bytes of each of its tokens, none where a token stands for no text.
    pub fn new(tokenizer: &Tokenizer) -> Result<(Self, Vec<Vec<u8>>), VocabularyError> {
        let tokens = tokenizer.vocab_size();
        if tokens == 0 || tokens > MAX_TOKENS {
            return Err(VocabularyError::Size { tokens });
        }
        let words: Vec<Vec<u8>> = (0..tokens as u32).map(|id| word(tokenizer, id)).collect();
        let this = Self {
            lead: lead(tokenizer, &words),
            newlines: newlines(&words),
            tokenizer: tokenizer.clone(),
        };
        Ok((this, words))
    }

    /// The tokens of a text that the program itself wrote, control tokens included.
    pub fn encode_markers(&self, text: &str) -> Vec<u32> {
        let options = EncodeOptions {
            parse_special: true,
            ..EncodeOptions::default()
        };
        self.tokenizer.encode(text, options)
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Whether a token stands for no text: those that control, and those that end an answer.
    pub fn is_special(&self, id: u32) -> bool {
        is_special(&self.tokenizer, id)
    }

    /// The tokens with a newline, a bit each.
    pub fn newlines(&self) -> &[u32] {
        &self.newlines
    }

    /// How the tokenizer spells a text in the middle of another. A tokenizer that normalizes may not give the text back.
    pub fn encode_inside(&self, text: &str) -> Vec<u32> {
        let options = EncodeOptions::default();
        match &self.lead {
            None => self.tokenizer.encode(text, options),
            Some((lead, skipped)) => {
                let ids = self.tokenizer.encode(&format!("{lead}{text}"), options);
                match ids.strip_prefix(skipped.as_slice()) {
                    Some(rest) => rest.to_vec(),
                    None => Vec::new(),
                }
            }
        }
    }
}

/// Words with the tree of their bytes.
#[derive(Debug)]
pub(crate) struct Vocabulary {
    pub(crate) words: Arc<Words>,
    pub(crate) trie: Trie,
    /// The bytes of each token, one after the other, and where they end.
    bytes: Vec<u8>,
    ends: Vec<u32>,
}

impl Vocabulary {
    pub(crate) fn new(tokenizer: &Tokenizer) -> Result<Self, VocabularyError> {
        let (words, spelled) = Words::new(tokenizer)?;
        let trie = Trie::new(&spelled);
        let mut ends = Vec::with_capacity(spelled.len());
        let mut bytes = Vec::with_capacity(spelled.iter().map(Vec::len).sum());
        for word in spelled {
            bytes.extend(word);
            ends.push(bytes.len() as u32);
        }
        Ok(Self {
            words: Arc::new(words),
            trie,
            bytes,
            ends,
        })
    }

    pub(crate) fn tokenizer(&self) -> &Tokenizer {
        self.words.tokenizer()
    }

    /// How many tokens there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// The bytes of a token; none where it stands for no text.
    pub(crate) fn word(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let from = match id {
            0 => 0,
            _ => self.ends.get(id - 1).copied().unwrap_or(u32::MAX) as usize,
        };
        let to = self.ends.get(id).copied().unwrap_or_default() as usize;
        self.bytes.get(from..to).unwrap_or_default()
    }

    /// Bytes of memory, about.
    pub(crate) fn memory(&self) -> usize {
        self.trie.bytes() + self.bytes.len() + self.ends.len() * 4
    }

    /// How text is spelled: characters as the tokenizer does, other bytes with the longest tokens.
    pub(crate) fn spell(&self, bytes: &[u8]) -> Vec<u32> {
        if let Ok(text) = core::str::from_utf8(bytes) {
            return self.spell_text(text);
        }
        let mut all = Vec::new();
        for chunk in bytes.utf8_chunks() {
            if !chunk.valid().is_empty() {
                all.extend(self.spell_text(chunk.valid()));
            }
            all.extend(self.trie.greedy(chunk.invalid()));
        }
        all
    }

    fn spell_text(&self, text: &str) -> Vec<u32> {
        let ids = self.words.encode_inside(text);
        let mut rest = text.as_bytes();
        let same = ids.iter().all(|id| {
            let word = self.word(*id);
            let fits = !word.is_empty() && rest.starts_with(word);
            rest = rest.get(word.len()..).unwrap_or_default();
            fits
        });
        if same && rest.is_empty() {
            ids
        } else {
            self.trie.greedy(text.as_bytes())
        }
    }
}

fn is_special(tokenizer: &Tokenizer, id: u32) -> bool {
    tokenizer.is_end_of_generation(id)
        || matches!(tokenizer.kind(id), Some(TokenKind::Control) | None)
}

/// The bytes of a token; none where it stands for no text, or must never be generated.
fn word(tokenizer: &Tokenizer, id: u32) -> Vec<u8> {
    let never = matches!(
        tokenizer.kind(id),
        Some(TokenKind::Unknown | TokenKind::Unused)
    );
    if never || is_special(tokenizer, id) {
        return Vec::new();
    }
    let bytes = tokenizer.token_bytes(id).unwrap_or_default().into_owned();
    // Nothing is lost with the tokens that have a byte of no text.
    if bytes.contains(&MARK) {
        Vec::new()
    } else {
        bytes
    }
}

fn newlines(words: &[Vec<u8>]) -> Vec<u32> {
    let mut bits = alloc::vec![0; words.len().div_ceil(32)];
    for (token, word) in words.iter().enumerate() {
        bits[token / 32] |= u32::from(word.contains(&b'\n')) << (token % 32);
    }
    bits
}

/// SentencePiece puts a space in front of a text, which does not belong in the middle of one. A character that is part
/// of no longer token keeps it away, and is taken off again.
fn lead(tokenizer: &Tokenizer, words: &[Vec<u8>]) -> Option<(char, Vec<u32>)> {
    if tokenizer.model_kind() != ModelKind::Spm {
        return None;
    }
    let alone = |c: &char| {
        let byte = *c as u8;
        words.iter().all(|word| match word.as_slice() {
            [_] => true,
            word => !word.contains(&byte),
        })
    };
    let lead = ['\u{1}', '\u{2}', '\u{3}', '\u{4}', '\n', '\u{7f}']
        .into_iter()
        .find(alone)?;
    let mut text = String::new();
    text.push(lead);
    let ids = tokenizer.encode(&text, EncodeOptions::default());
    Some((lead, ids))
}
