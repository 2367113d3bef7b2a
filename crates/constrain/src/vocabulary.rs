//! A model's tokens as `llguidance` wants them: a tree of bytes, with special tokens apart, and the way text is spelled.

use std::panic::{AssertUnwindSafe, catch_unwind};

use llguidance::toktrie::{INVALID_TOKEN, TokRxInfo, TokTrie, TokenId, TokenizerEnv};
use strata_tokenizer::{EncodeOptions, MAX_TOKENS, ModelKind, TokenKind, Tokenizer};

use crate::error::{VocabularyError, first_line};

pub(crate) struct Vocabulary {
    tokenizer: Tokenizer,
    tree: TokTrie,
    /// A character that stands in front of a text to be spelled in the middle of another, with its tokens.
    lead: Option<(char, Vec<u32>)>,
    /// The tokens with a newline: token t is bit t % 32 of word t / 32.
    newlines: Vec<u32>,
}

impl Vocabulary {
    pub(crate) fn new(tokenizer: &Tokenizer) -> Result<Self, VocabularyError> {
        let tokens = tokenizer.vocab_size();
        if tokens == 0 || tokens > MAX_TOKENS {
            return Err(VocabularyError::Size { tokens });
        }
        let words: Vec<Vec<u8>> = (0..tokens as u32).map(|id| word(tokenizer, id)).collect();
        let end = tokenizer.end_of_generation();
        let first = end.first().copied().unwrap_or(INVALID_TOKEN);
        let tree = catch_unwind(AssertUnwindSafe(|| {
            let tree = TokTrie::from(&TokRxInfo::new(tokens as u32, first), &words);
            match end {
                [] => tree,
                end => tree.with_eos_tokens(end),
            }
        }))
        .map_err(|panic| VocabularyError::Tree {
            reason: panic_text(&*panic),
        })?;
        Ok(Vocabulary {
            lead: lead(tokenizer, &words),
            newlines: newlines(&words),
            tokenizer: tokenizer.clone(),
            tree,
        })
    }

    /// The tokens of a text that the program itself wrote, control tokens included.
    pub(crate) fn encode_markers(&self, text: &str) -> Vec<u32> {
        let options = EncodeOptions {
            parse_special: true,
            ..EncodeOptions::default()
        };
        self.tokenizer.encode(text, options)
    }

    pub(crate) fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// The tokens with a newline, a bit each.
    pub(crate) fn newlines(&self) -> &[u32] {
        &self.newlines
    }

    /// How the tokenizer spells a text in the middle of another.
    fn spell(&self, text: &str) -> Vec<TokenId> {
        let options = EncodeOptions::default();
        let ids = match &self.lead {
            None => self.tokenizer.encode(text, options),
            Some((lead, skipped)) => {
                let ids = self.tokenizer.encode(&format!("{lead}{text}"), options);
                match ids.strip_prefix(skipped.as_slice()) {
                    Some(rest) => rest.to_vec(),
                    None => Vec::new(),
                }
            }
        };
        // A tokenizer that normalizes does not give the text back; then the longest tokens do.
        if self.tree.decode_raw(&ids) == text.as_bytes() {
            ids
        } else {
            self.tree.greedy_tokenize(text.as_bytes())
        }
    }
}

impl TokenizerEnv for Vocabulary {
    fn tok_trie(&self) -> &TokTrie {
        &self.tree
    }

    fn tokenize_bytes(&self, bytes: &[u8]) -> Vec<TokenId> {
        self.tree
            .tokenize_with_greedy_fallback(bytes, |text| self.spell(text))
    }
}

/// The bytes of a token in the tree: with a mark in front where it is special, none where it must never be generated.
fn word(tokenizer: &Tokenizer, id: u32) -> Vec<u8> {
    const MARK: u8 = TokTrie::SPECIAL_TOKEN_MARKER;
    let special = tokenizer.is_end_of_generation(id)
        || matches!(tokenizer.kind(id), Some(TokenKind::Control) | None);
    if special {
        let text = tokenizer.token_text(id).unwrap_or_default();
        return [&[MARK], text.as_bytes()].concat();
    }
    if matches!(
        tokenizer.kind(id),
        Some(TokenKind::Unknown | TokenKind::Unused)
    ) {
        return Vec::new();
    }
    let bytes = tokenizer.token_bytes(id).unwrap_or_default().into_owned();
    // The byte 0xFF is in no UTF-8 text, so that nothing is lost with the tokens that have it.
    if bytes.contains(&MARK) {
        Vec::new()
    } else {
        bytes
    }
}

fn newlines(words: &[Vec<u8>]) -> Vec<u32> {
    let mut bits = vec![0; words.len().div_ceil(32)];
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
    let ids = tokenizer.encode(lead.encode_utf8(&mut [0; 4]), EncodeOptions::default());
    Some((lead, ids))
}

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    first_line(text.unwrap_or("no reason given"))
}
