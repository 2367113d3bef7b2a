//! Cutting a text at the special tokens in it: from the left, the longest that matches.
//!
//! That is how Hugging Face finds them. llama.cpp looks for the longest token in the whole text first, which differs
//! only where two special tokens overlap.

use alloc::vec::Vec;

use super::error::TokenizerError;
use super::table::{TokenKind, TokenTable};
use super::trie::Trie;
use super::vocab::Vocab;

#[derive(Clone, Debug)]
pub(crate) struct Partition {
    trie: Trie,
    /// The bytes that special tokens begin with.
    starts: [bool; 256],
    strip_left: Vec<u32>,
    strip_right: Vec<u32>,
}

/// A part of a text.
pub(crate) enum Fragment<'a> {
    Text(&'a str),
    Token(u32),
}

impl Partition {
    pub(crate) fn new(vocab: &Vocab) -> Result<Self, TokenizerError> {
        let special = vocab.tokens.ids().filter(|id| vocab.is_special(*id));
        let special: Vec<_> = special
            .map(|id| (vocab.tokens.text(id).unwrap_or("").as_bytes(), id))
            .collect();
        let mut starts = [false; 256];
        for byte in special.iter().filter_map(|(text, _)| text.first()) {
            starts[usize::from(*byte)] = true;
        }
        let sorted = |ids: &Vec<u32>| {
            let mut ids = ids.clone();
            ids.sort_unstable();
            ids
        };
        Ok(Partition {
            trie: Trie::new(special)?,
            starts,
            strip_left: sorted(&vocab.strip_left),
            strip_right: sorted(&vocab.strip_right),
        })
    }

    /// Calls `emit` with the parts of `text`. Control and unknown tokens are found only if `parse_special`.
    pub(crate) fn cut<'a>(
        &self,
        tokens: &TokenTable,
        text: &'a str,
        parse_special: bool,
        emit: &mut dyn FnMut(Fragment<'a>),
    ) {
        let (mut start, mut at) = (0, 0);
        while let Some(byte) = text.as_bytes().get(at) {
            let found = if self.starts[usize::from(*byte)] && text.is_char_boundary(at) {
                self.longest(tokens, text.get(at..).unwrap_or(""), parse_special)
            } else {
                None
            };
            let Some((len, id)) = found else {
                at += 1;
                continue;
            };
            let mut before = text.get(start..at).unwrap_or("");
            if self.strip_left.binary_search(&id).is_ok() {
                before = before.trim_end_matches(is_c_space);
            }
            if !before.is_empty() {
                emit(Fragment::Text(before));
            }
            emit(Fragment::Token(id));
            at += len;
            if self.strip_right.binary_search(&id).is_ok() {
                let rest = text.get(at..).unwrap_or("");
                at += rest.len() - rest.trim_start_matches(is_c_space).len();
            }
            start = at;
        }
        match text.get(start..) {
            None | Some("") => {}
            Some(rest) => emit(Fragment::Text(rest)),
        }
    }

    fn longest(
        &self,
        tokens: &TokenTable,
        text: &str,
        parse_special: bool,
    ) -> Option<(usize, u32)> {
        let wanted = |id: u32| parse_special || tokens.kind(id) == Some(TokenKind::UserDefined);
        let found = self.trie.prefixes(text.as_bytes());
        found.filter(|(_, id)| wanted(*id)).last()
    }
}

/// What C calls white space.
fn is_c_space(c: char) -> bool {
    matches!(c, ' ' | '\t'..='\r')
}
