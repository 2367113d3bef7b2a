//! BPE with a list of merges, byte-level or over characters (`gpt2`, `gemma4`).

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

use hashbrown::HashMap;

use super::byte_level;
use super::merge::{Chain, Join};
use super::split::{self, Alphabet, PreTokenizer, WholeWords};
use super::spm::SPACE;
use super::table::{NONE, TokenTable};
use super::vocab::{Letters, Normalizer, Vocab};

#[derive(Clone, Debug)]
pub(crate) struct Bpe {
    pre: PreTokenizer,
    normalizer: Normalizer,
    merges: HashMap<u64, Rank>,
    /// The tokens of single bytes: letters of GPT-2's alphabet, or `<0xXX>`.
    bytes: [u32; 256],
    unknown: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Rank {
    order: u32,
    joined: u32,
}

fn key(left: u32, right: u32) -> u64 {
    u64::from(left) << 32 | u64::from(right)
}

impl Bpe {
    pub(crate) fn new(vocab: &Vocab) -> Self {
        let mut merges = HashMap::with_capacity(vocab.merges.len());
        for (order, merge) in (0..).zip(&vocab.merges) {
            // What no text may produce, no merge may either.
            let exists = |id: u32| (id as usize) < vocab.tokens.len();
            if vocab.tokens.is_spelled(merge.joined) && exists(merge.left) && exists(merge.right) {
                let joined = merge.joined;
                let pair = key(merge.left, merge.right);
                merges.entry(pair).or_insert(Rank { order, joined });
            }
        }
        let bytes = match vocab.pre.alphabet {
            Alphabet::Bytes => {
                let mut buffer = [0; 4];
                byte_level::CHARS.map(|c| {
                    vocab
                        .tokens
                        .find(c.encode_utf8(&mut buffer))
                        .unwrap_or(NONE)
                })
            }
            Alphabet::Escaped | Alphabet::Plain => vocab.tokens.byte_ids(),
        };
        Bpe {
            pre: vocab.pre,
            normalizer: vocab.normalizer,
            merges,
            bytes,
            unknown: vocab.special.unk,
        }
    }

    pub(crate) fn alphabet(&self) -> Alphabet {
        self.pre.alphabet
    }

    pub(crate) fn encode(&self, tokens: &TokenTable, text: &str, out: &mut Vec<u32>) {
        let text = match (self.pre.alphabet, self.normalizer.letters) {
            (Alphabet::Escaped, _) => Cow::Owned(text.replace(' ', SPACE)),
            (Alphabet::Plain, Letters::Lower) => {
                Cow::Owned(text.chars().flat_map(char::to_lowercase).collect())
            }
            _ => Cow::Borrowed(text),
        };
        let mut word = Word {
            bpe: self,
            tokens,
            chain: Chain::default(),
            spelling: String::new(),
            out,
        };
        split::split(self.pre.stages, &text, &mut |piece| word.encode(piece));
    }
}

/// Encodes words one by one, keeping its memory between them.
struct Word<'a> {
    bpe: &'a Bpe,
    tokens: &'a TokenTable,
    chain: Chain,
    spelling: String,
    out: &'a mut Vec<u32>,
}

impl Word<'_> {
    fn encode(&mut self, word: &str) {
        let take = match self.bpe.pre.whole_words {
            WholeWords::Merge => false,
            WholeWords::Take => true,
            WholeWords::TakeLines => word.bytes().all(|b| b == b'\n'),
        };
        if take && let Some(id) = self.whole(word) {
            self.out.push(id);
            return;
        }
        self.chain.clear();
        match self.bpe.pre.alphabet {
            Alphabet::Bytes => {
                for (at, byte) in word.bytes().enumerate() {
                    self.chain
                        .push(at, at + 1, self.bpe.bytes[usize::from(byte)]);
                }
            }
            Alphabet::Escaped | Alphabet::Plain => {
                for (at, c) in word.char_indices() {
                    let end = at + c.len_utf8();
                    let id = word
                        .get(at..end)
                        .and_then(|c| self.tokens.find_spelled(c.as_bytes()));
                    self.chain.push(at, end, id.unwrap_or(NONE));
                }
            }
        }
        let (bpe, out) = (self.bpe, &mut *self.out);
        self.chain.merge(
            |left, right| {
                let rank = bpe.merges.get(&key(left.id, right.id))?;
                Some(Join {
                    order: rank.order,
                    id: rank.joined,
                })
            },
            |symbol| match symbol.id {
                NONE => bpe.spell(
                    word.as_bytes()
                        .get(symbol.start as usize..symbol.end as usize),
                    out,
                ),
                id => out.push(id),
            },
        );
    }

    /// The token that is the whole word.
    fn whole(&mut self, word: &str) -> Option<u32> {
        if word.len() > self.tokens.longest() {
            return None;
        }
        if self.bpe.pre.alphabet != Alphabet::Bytes {
            return self.tokens.find_spelled(word.as_bytes());
        }
        self.spelling.clear();
        let letters = word.bytes().map(|b| byte_level::CHARS[usize::from(b)]);
        self.spelling.extend(letters);
        self.tokens.find_spelled(self.spelling.as_bytes())
    }
}

impl Bpe {
    /// A character without a token: its bytes, else the unknown token. A byte-level vocabulary that lacks a byte loses
    /// it, as everywhere.
    fn spell(&self, bytes: Option<&[u8]>, out: &mut Vec<u32>) {
        let bytes = bytes.unwrap_or(&[]);
        if self.pre.alphabet == Alphabet::Bytes {
            return;
        }
        let ids = bytes.iter().map(|b| self.bytes[usize::from(*b)]);
        if ids.clone().all(|id| id != NONE) {
            out.extend(ids);
        } else {
            out.extend(self.unknown);
        }
    }
}
