//! A model's tokens as `llguidance` wants them: a tree of bytes, with special tokens apart, and the way text is spelled.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use llguidance::toktrie::{INVALID_TOKEN, TokRxInfo, TokTrie, TokenId, TokenizerEnv};
use strata_grammar::{VocabularyError, Words};
use strata_tokenizer::Tokenizer;

use crate::error::first_line;

pub(crate) struct Vocabulary {
    words: Arc<Words>,
    tree: TokTrie,
}

impl Vocabulary {
    pub(crate) fn new(tokenizer: &Tokenizer) -> Result<Self, VocabularyError> {
        let (words, mut spelled) = Words::new(tokenizer)?;
        // Special tokens have a mark in front.
        const MARK: u8 = TokTrie::SPECIAL_TOKEN_MARKER;
        for (id, word) in (0..).zip(&mut spelled) {
            if words.is_special(id) {
                let text = tokenizer.token_text(id).unwrap_or_default();
                *word = [&[MARK], text.as_bytes()].concat();
            }
        }
        let end = tokenizer.end_of_generation();
        let first = end.first().copied().unwrap_or(INVALID_TOKEN);
        let tree = catch_unwind(AssertUnwindSafe(|| {
            let tree = TokTrie::from(&TokRxInfo::new(spelled.len() as u32, first), &spelled);
            match end {
                [] => tree,
                end => tree.with_eos_tokens(end),
            }
        }))
        .map_err(|panic| VocabularyError::Tree {
            reason: panic_text(&*panic),
        })?;
        Ok(Vocabulary {
            words: Arc::new(words),
            tree,
        })
    }

    pub(crate) fn tokenizer(&self) -> &Tokenizer {
        self.words.tokenizer()
    }

    pub(crate) fn words(&self) -> &Arc<Words> {
        &self.words
    }

    /// How the tokenizer spells a text in the middle of another.
    fn spell(&self, text: &str) -> Vec<TokenId> {
        let ids = self.words.encode_inside(text);
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

/// What a panic said.
pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    first_line(text.unwrap_or("no reason given"))
}
