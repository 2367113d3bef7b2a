//! WordPiece (`bert`): words cut at white space and punctuation, then the longest tokens from the left.
//!
//! GGUF spells a token that begins a word with `▁` in front, and one that continues a word plainly.
//! Normalization follows Hugging Face's `BertNormalizer`: of the marks only the non-spacing ones are accents, and a
//! word of more than 100 characters is unknown. llama.cpp strips all marks and has no limit.

use alloc::string::String;
use alloc::vec::Vec;

use super::decomposition::decompose;
use super::error::TokenizerError;
use super::spm::SPACE;
use super::table::TokenTable;
use super::trie::Trie;
use super::unicode::{CC, CF, CO, MN, P, mask};
use super::vocab::{Accents, Letters, Normalizer, Vocab};

/// Longer words are unknown, as in BERT.
const MAX_WORD_CHARS: usize = 100;

#[derive(Clone, Debug)]
pub(crate) struct WordPiece {
    trie: Trie,
    normalizer: Normalizer,
    unknown: Option<u32>,
}

impl WordPiece {
    pub(crate) fn new(vocab: &Vocab) -> Result<Self, TokenizerError> {
        let tokens: &TokenTable = &vocab.tokens;
        let spelled = tokens.ids().filter(|id| tokens.is_spelled(*id));
        Ok(WordPiece {
            trie: Trie::new(
                spelled
                    .map(|id| (tokens.text(id).unwrap_or("").as_bytes(), id))
                    .collect(),
            )?,
            normalizer: vocab.normalizer,
            unknown: vocab.special.unk,
        })
    }

    pub(crate) fn encode(&self, text: &str, out: &mut Vec<u32>) {
        let clean = text.chars().filter(|c| match *c {
            '\t' | '\n' | '\r' => true,
            '\0' | char::REPLACEMENT_CHARACTER => false,
            _ => mask(*c) & (CC | CF | CO) == 0,
        });
        let mut words = Words {
            pieces: self,
            word: String::new(),
            chars: 0,
            out,
        };
        match self.normalizer.accents {
            Accents::Strip => decompose(clean, |c| {
                if mask(c) & MN == 0 {
                    words.push(c);
                }
            }),
            Accents::Keep => clean.for_each(|c| words.push(c)),
        }
        words.end();
    }
}

/// Collects the characters of a word, and encodes it when it ends.
struct Words<'a> {
    pieces: &'a WordPiece,
    word: String,
    chars: usize,
    out: &'a mut Vec<u32>,
}

impl Words<'_> {
    fn push(&mut self, c: char) {
        if c.is_whitespace() {
            self.end();
        } else if c.is_ascii_punctuation() || mask(c) & P != 0 || is_cjk(c) {
            self.end();
            self.append(c);
            self.end();
        } else {
            self.append(c);
        }
    }

    fn append(&mut self, c: char) {
        match self.pieces.normalizer.letters {
            Letters::Lower => c.to_lowercase().for_each(|c| self.append_as_is(c)),
            Letters::AsIs => self.append_as_is(c),
        }
    }

    fn append_as_is(&mut self, c: char) {
        self.chars += 1;
        if self.chars <= MAX_WORD_CHARS {
            self.word.push(c);
        }
    }

    fn end(&mut self) {
        if self.chars == 0 {
            return;
        }
        let start = self.out.len();
        let spelled = self.chars <= MAX_WORD_CHARS && self.spell();
        if !spelled {
            self.out.truncate(start);
            self.out.extend(self.pieces.unknown);
        }
        self.word.clear();
        self.chars = 0;
    }

    fn spell(&mut self) -> bool {
        self.word.insert_str(0, SPACE);
        let mut rest = self.word.as_bytes();
        while !rest.is_empty() {
            let Some((len, id)) = self.pieces.trie.prefixes(rest).last() else {
                return false;
            };
            self.out.push(id);
            rest = rest.get(len..).unwrap_or(&[]);
        }
        true
    }
}

/// The ideographs that are words by themselves. The fourth range but one begins where Hugging Face's has it.
fn is_cjk(c: char) -> bool {
    matches!(
        c as u32,
        0x4e00..=0x9fff
            | 0x3400..=0x4dbf
            | 0x20000..=0x2a6df
            | 0x2a700..=0x2b73f
            | 0x2b740..=0x2b81f
            | 0x2b920..=0x2ceaf
            | 0xf900..=0xfaff
            | 0x2f800..=0x2fa1f
    )
}
