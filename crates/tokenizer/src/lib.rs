//! Tokenizers over a GGUF vocabulary: text to token ids and back, with the ids that llama.cpp and Hugging Face give.
//!
//! ```
//! use strata_tokenizer::{EncodeOptions, ModelKind, TokenKind, TokenTable, Tokenizer, Vocab};
//!
//! let mut tokens = TokenTable::with_capacity(4);
//! for (text, score) in [("▁", -3.0), ("a", -1.0), ("▁a", -0.5), ("b", -2.0)] {
//!     tokens.push(text, TokenKind::Normal, score)?;
//! }
//! let tokenizer = Tokenizer::from_vocab(Vocab::new(ModelKind::Spm, tokens))?;
//! let ids = tokenizer.encode("a ab", EncodeOptions::default());
//! assert_eq!(ids, [2, 2, 3]);
//! assert_eq!(tokenizer.decode(&ids, Default::default()), "a ab");
//! # Ok::<(), strata_tokenizer::TokenizerError>(())
//! ```
//!
//! A text is cut at its special tokens first ([`EncodeOptions::parse_special`]); what lies between goes through the
//! vocabulary's algorithm ([`ModelKind`]). Encoding takes time in proportion to the text (times the logarithm of its
//! longest word), whatever the text.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;

mod bpe;
mod byte_level;
mod charsmap;
mod decomposition;
mod decomposition_table;
mod error;
mod gguf;
mod merge;
mod pair;
mod partition;
mod rwkv;
mod special;
mod split;
mod spm;
mod stream;
mod table;
mod trie;
mod unicode;
mod unicode_table;
mod unigram;
mod vocab;
pub mod vocabulary;
mod wordpiece;

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use strata_weights::Metadata;

pub use error::TokenizerError;
pub use pair::Pair;
pub use split::PreTokenizer;
pub use stream::{StreamDecoder, Utf8Stream};
pub use table::{MAX_TOKENS, TokenKind, TokenTable};
pub use vocab::{Accents, Added, Letters, Merge, ModelKind, Normalizer, SpecialTokens, Vocab};

use partition::Fragment;
use split::Alphabet;
use spm::SPACE;
use table::byte;

/// What encoding does beside spelling the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncodeOptions {
    /// Adds the tokens that the model wants around a text, such as `bos`.
    pub add_special: bool,
    /// Takes the text of a control token for the token. Only for text that the program itself wrote: a user's text could
    /// otherwise end its turn and speak for the model. User-defined tokens are found either way.
    pub parse_special: bool,
}

/// What decoding shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecodeOptions {
    /// Writes control and unknown tokens as their text; without it they are left out.
    pub show_special: bool,
}

/// Turns text into tokens and back.
#[derive(Clone, Debug)]
pub struct Tokenizer {
    tokens: TokenTable,
    special: SpecialTokens,
    end_of_generation: Vec<u32>,
    shown: Vec<u32>,
    added: Added,
    /// Whether decoding takes off the space in front that encoding put there.
    strips_space: bool,
    model: ModelKind,
    partition: partition::Partition,
    engine: Engine,
    /// Bytes of the longest token.
    longest: usize,
}

#[derive(Clone, Debug)]
enum Engine {
    Spm(spm::Spm),
    Bpe(bpe::Bpe),
    WordPiece(wordpiece::WordPiece),
    Unigram(unigram::Unigram),
    Rwkv(rwkv::Rwkv),
}

/// The most bytes encoded at once; positions inside are 32 bits wide, and escaping spaces triples a text at most.
const MAX_CHUNK: usize = 1 << 30;

/// How a vocabulary spells a token's bytes.
enum Spelling {
    /// As they are.
    Plain,
    /// One byte, by its number.
    Byte(u8),
    /// With escapes for what is no text.
    Escaped,
    /// A letter for each byte.
    Letters,
    /// With another character for the space.
    Spaces,
}

impl Tokenizer {
    /// The tokenizer of the model that a GGUF file holds.
    pub fn from_gguf(meta: &Metadata<'_>) -> Result<Self, TokenizerError> {
        Self::from_vocab(Vocab::from_gguf(meta)?)
    }

    /// The tokenizer of a vocabulary.
    pub fn from_vocab(vocab: Vocab) -> Result<Self, TokenizerError> {
        let engine = match vocab.model {
            ModelKind::Spm => Engine::Spm(spm::Spm::new(&vocab)),
            ModelKind::Bpe => Engine::Bpe(bpe::Bpe::new(&vocab)),
            ModelKind::WordPiece => Engine::WordPiece(wordpiece::WordPiece::new(&vocab)?),
            ModelKind::Unigram => Engine::Unigram(unigram::Unigram::new(&vocab)?),
            ModelKind::Rwkv => Engine::Rwkv(rwkv::Rwkv::new(&vocab)?),
        };
        let sorted = |mut ids: Vec<u32>| {
            ids.sort_unstable();
            ids
        };
        let mut tokenizer = Tokenizer {
            longest: 0,
            partition: partition::Partition::new(&vocab)?,
            engine,
            strips_space: vocab.space_prefix || vocab.model == ModelKind::WordPiece,
            model: vocab.model,
            added: vocab.added,
            end_of_generation: sorted(vocab.end_of_generation),
            shown: sorted(vocab.shown),
            special: vocab.special,
            tokens: vocab.tokens,
        };
        let lengths = tokenizer
            .tokens
            .ids()
            .filter_map(|id| tokenizer.token_bytes(id));
        tokenizer.longest = lengths.map(|bytes| bytes.len()).max().unwrap_or(0);
        Ok(tokenizer)
    }

    /// The most bytes that one token stands for.
    pub fn longest_token(&self) -> usize {
        self.longest
    }

    /// The tokens of a text.
    pub fn encode(&self, text: &str, options: EncodeOptions) -> Vec<u32> {
        let mut out = Vec::new();
        let (before, after) = self.around();
        if options.add_special {
            out.extend(before);
        }
        let mut fresh = true;
        self.partition.cut(
            &self.tokens,
            text,
            options.parse_special,
            &mut |fragment| match fragment {
                Fragment::Token(id) => {
                    out.push(id);
                    fresh = true;
                }
                Fragment::Text(text) => {
                    for chunk in chunks(text) {
                        self.encode_text(chunk, fresh, &mut out);
                        fresh = false;
                    }
                }
            },
        );
        if options.add_special {
            out.extend(after);
        }
        out
    }

    /// The tokens put in front of a text and behind it.
    fn around(&self) -> (Option<u32>, Option<u32>) {
        let SpecialTokens {
            bos, eos, sep, cls, ..
        } = self.special;
        match self.model {
            ModelKind::WordPiece => (bos.or(cls), sep),
            ModelKind::Rwkv => (None, None),
            ModelKind::Spm | ModelKind::Bpe | ModelKind::Unigram => (
                bos.filter(|_| self.added.bos),
                eos.filter(|_| self.added.eos),
            ),
        }
    }

    fn encode_text(&self, text: &str, fresh: bool, out: &mut Vec<u32>) {
        match &self.engine {
            Engine::Spm(spm) => spm.encode(&self.tokens, text, fresh, out),
            Engine::Bpe(bpe) => bpe.encode(&self.tokens, text, out),
            Engine::WordPiece(pieces) => pieces.encode(text, out),
            Engine::Unigram(unigram) => unigram.encode(&self.tokens, text, out),
            Engine::Rwkv(rwkv) => rwkv.encode(text, out),
        }
    }

    /// The text of tokens. Bytes that are no UTF-8 become U+FFFD; ids that are no tokens give nothing.
    pub fn decode(&self, ids: &[u32], options: DecodeOptions) -> String {
        let bytes = self.decode_bytes(ids, options);
        match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        }
    }

    /// The bytes of tokens, as [`decode`](Self::decode) has them before they become text.
    pub fn decode_bytes(&self, ids: &[u32], options: DecodeOptions) -> Vec<u8> {
        let mut out = Vec::new();
        let mut strip = self.strips_space;
        for id in ids {
            if !self.is_shown(*id, options) {
                continue;
            }
            let bytes = self.token_bytes(*id).unwrap_or_default();
            match bytes.strip_prefix(b" ").filter(|_| strip) {
                Some(rest) => out.extend_from_slice(rest),
                None => out.extend_from_slice(&bytes),
            }
            strip = false;
        }
        out
    }

    /// Whether a token is part of the text that a reader sees.
    fn is_shown(&self, id: u32, options: DecodeOptions) -> bool {
        match self.tokens.kind(id) {
            Some(TokenKind::Control | TokenKind::Unknown) => {
                options.show_special || self.shown.binary_search(&id).is_ok()
            }
            kind => kind.is_some(),
        }
    }

    /// The bytes that one token stands for: its text with the vocabulary's spelling undone. Not always UTF-8.
    pub fn token_bytes(&self, id: u32) -> Option<Cow<'_, [u8]>> {
        let (text, spelling) = self.spelling(id)?;
        Some(match spelling {
            Spelling::Plain => Cow::Borrowed(text.as_bytes()),
            _ => {
                let mut bytes = Vec::with_capacity(text.len());
                self.append_bytes(id, &mut bytes);
                Cow::Owned(bytes)
            }
        })
    }

    /// Adds the bytes that one token stands for, if there is such a token.
    pub fn append_bytes(&self, id: u32, out: &mut Vec<u8>) {
        let Some((text, spelling)) = self.spelling(id) else {
            return;
        };
        match spelling {
            Spelling::Plain => out.extend_from_slice(text.as_bytes()),
            Spelling::Byte(byte) => out.push(byte),
            Spelling::Escaped => rwkv::unescape(text, out),
            Spelling::Letters => byte_level::decode(text, out),
            Spelling::Spaces => {
                for (i, part) in text.split(SPACE).enumerate() {
                    out.extend_from_slice(if i > 0 { b" " } else { b"" });
                    out.extend_from_slice(part.as_bytes());
                }
            }
        }
    }

    fn spelling(&self, id: u32) -> Option<(&str, Spelling)> {
        let text = self.tokens.text(id)?;
        let kind = self.tokens.kind(id)?;
        if matches!(
            kind,
            TokenKind::Control | TokenKind::Unknown | TokenKind::UserDefined
        ) {
            return Some((text, Spelling::Plain));
        }
        if kind == TokenKind::Byte
            && self.model != ModelKind::Rwkv
            && let Some(byte) = byte(text)
        {
            return Some((text, Spelling::Byte(byte)));
        }
        let spelling = match &self.engine {
            Engine::Rwkv(_) => Spelling::Escaped,
            Engine::Bpe(bpe) if bpe.alphabet() == Alphabet::Bytes => Spelling::Letters,
            Engine::Bpe(bpe) if bpe.alphabet() == Alphabet::Plain => Spelling::Plain,
            _ if !text.contains(SPACE) => Spelling::Plain,
            _ => Spelling::Spaces,
        };
        Some((text, spelling))
    }

    /// A token's text as the vocabulary spells it.
    pub fn token_text(&self, id: u32) -> Option<&str> {
        self.tokens.text(id)
    }

    /// The token with this text as the vocabulary spells it.
    pub fn token_id(&self, text: &str) -> Option<u32> {
        self.tokens.find(text)
    }

    /// A token's kind.
    pub fn kind(&self, id: u32) -> Option<TokenKind> {
        self.tokens.kind(id)
    }

    /// A token's score.
    pub fn score(&self, id: u32) -> Option<f32> {
        self.tokens.score(id)
    }

    /// The tokens with a role.
    pub fn special(&self) -> &SpecialTokens {
        &self.special
    }

    /// What encoding adds around a text.
    pub fn added(&self) -> Added {
        self.added
    }

    /// Whether the model ends its answer with this token.
    pub fn is_end_of_generation(&self, id: u32) -> bool {
        self.end_of_generation.binary_search(&id).is_ok()
    }

    /// The tokens that end an answer, in ascending order.
    pub fn end_of_generation(&self) -> &[u32] {
        &self.end_of_generation
    }

    /// How many tokens there are.
    pub fn vocab_size(&self) -> usize {
        self.tokens.len()
    }

    /// The algorithm.
    pub fn model_kind(&self) -> ModelKind {
        self.model
    }

    /// A decoder for tokens that come one by one.
    pub fn stream(&self, options: DecodeOptions) -> StreamDecoder<&Self> {
        StreamDecoder::new(self, options)
    }
}

/// The text in parts that positions of 32 bits can hold.
fn chunks(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    core::iter::from_fn(move || {
        let (chunk, after) = rest.split_at(rest.floor_char_boundary(MAX_CHUNK));
        rest = after;
        (!chunk.is_empty()).then_some(chunk)
    })
}
