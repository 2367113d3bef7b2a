//! Unigram (`t5`): the likeliest way to cut the text into tokens, by Viterbi's algorithm.

use alloc::vec::Vec;

use super::charsmap::Charsmap;
use super::error::TokenizerError;
use super::spm::SPACE;
use super::table::{NONE, TokenKind, TokenTable};
use super::trie::Trie;
use super::vocab::Vocab;

/// How much less likely than the least likely token an unknown character is.
const UNKNOWN_PENALTY: f64 = 10.0;

#[derive(Clone, Debug)]
pub(crate) struct Unigram {
    trie: Trie,
    charsmap: Charsmap,
    unknown: Option<u32>,
    unknown_score: f64,
    /// `<0xXX>` for every byte, if the vocabulary falls back to bytes.
    bytes: Option<[u32; 256]>,
    space_prefix: bool,
    collapse_spaces: bool,
}

/// The best way to reach a place in the text.
#[derive(Clone, Copy)]
struct Step {
    score: f64,
    start: u32,
    id: u32,
}

impl Unigram {
    pub(crate) fn new(vocab: &Vocab) -> Result<Self, TokenizerError> {
        let tokens: &TokenTable = &vocab.tokens;
        let spelled = tokens.ids().filter(|id| tokens.is_spelled(*id));
        let lowest = tokens
            .ids()
            .filter(|id| tokens.kind(*id) == Some(TokenKind::Normal))
            .filter_map(|id| tokens.score(id))
            .filter(|score| score.is_finite())
            .fold(f32::INFINITY, f32::min);
        let bytes = tokens.byte_ids();
        let falls_back = bytes
            .iter()
            .all(|id| tokens.kind(*id) == Some(TokenKind::Byte));
        Ok(Unigram {
            trie: Trie::new(
                spelled
                    .map(|id| (tokens.text(id).unwrap_or("").as_bytes(), id))
                    .collect(),
            )?,
            charsmap: Charsmap::new(&vocab.charsmap)?,
            unknown: vocab.special.unk,
            unknown_score: if lowest.is_finite() {
                f64::from(lowest) - UNKNOWN_PENALTY
            } else {
                -UNKNOWN_PENALTY
            },
            bytes: falls_back.then_some(bytes),
            space_prefix: vocab.space_prefix,
            collapse_spaces: vocab.collapse_spaces,
        })
    }

    pub(crate) fn encode(&self, tokens: &TokenTable, text: &str, out: &mut Vec<u32>) {
        let text = self.normalize(text.as_bytes());
        let steps = self.best_steps(tokens, &text);
        let mut path = Vec::new();
        let mut end = text.len();
        while let Some(step) = steps.get(end).filter(|_| end > 0) {
            path.push((step.id, step.start as usize, end));
            end = step.start as usize;
        }
        let mut after_unknown = false;
        for (id, start, end) in path.into_iter().rev() {
            if id != NONE {
                out.push(id);
                after_unknown = false;
            } else if let Some(bytes) = &self.bytes {
                let spelled = text.get(start..end).unwrap_or(&[]);
                out.extend(spelled.iter().map(|b| bytes[usize::from(*b)]));
            } else if !after_unknown {
                out.extend(self.unknown);
                after_unknown = true;
            }
        }
    }

    /// For each place in the text the last token of the best way there; `NONE` for an unknown character.
    fn best_steps(&self, tokens: &TokenTable, text: &[u8]) -> Vec<Step> {
        let unreached = Step {
            score: f64::NEG_INFINITY,
            start: 0,
            id: NONE,
        };
        let mut steps = alloc::vec![unreached; text.len() + 1];
        if let Some(first) = steps.first_mut() {
            first.score = 0.0;
        }
        let mut at = 0;
        while let Some(lead) = text.get(at) {
            let here = steps.get(at).map_or(0.0, |step| step.score);
            let width = char_len(*lead).min(text.len() - at);
            let mut reach = |len: usize, id: u32, score: f64| {
                let score = here + score;
                if let Some(step) = steps.get_mut(at + len)
                    && (score > step.score || step.score == f64::NEG_INFINITY)
                {
                    let start = at as u32;
                    *step = Step { score, start, id };
                }
            };
            let mut covered = false;
            for (len, id) in self.trie.prefixes(text.get(at..).unwrap_or(&[])) {
                covered |= len == width;
                let score = match tokens.kind(id) {
                    // So that they are chosen over anything made of normal tokens, whose scores are negative.
                    Some(TokenKind::UserDefined) => 0.0,
                    _ => tokens
                        .score(id)
                        .filter(|s| !s.is_nan())
                        .map_or(0.0, f64::from),
                };
                reach(len, id, score);
            }
            if !covered {
                reach(width, NONE, self.unknown_score);
            }
            at += width;
        }
        steps
    }

    /// Replaces characters by the map and spaces by `▁`, one in front of each word.
    fn normalize(&self, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len() + text.len() / 2);
        let mut spaces = 0_usize;
        let mut begun = false;
        let mut at = 0;
        while let Some(lead) = text.get(at) {
            let rest = text.get(at..).unwrap_or(&[]);
            let width = char_len(*lead).min(rest.len());
            let (consumed, piece) = match self.charsmap.replace(rest) {
                Some((len, replacement)) => (len, replacement),
                None => (width, rest.get(..width).unwrap_or(&[])),
            };
            for byte in piece {
                if *byte == b' ' {
                    spaces += 1;
                    continue;
                }
                let prefix = usize::from(!begun && self.space_prefix);
                let written = if self.collapse_spaces {
                    prefix.max(usize::from(begun && spaces > 0))
                } else {
                    prefix + spaces
                };
                (0..written).for_each(|_| out.extend_from_slice(SPACE.as_bytes()));
                out.push(*byte);
                (spaces, begun) = (0, true);
            }
            at += consumed;
        }
        if !self.collapse_spaces {
            // A text of nothing but spaces gets one in front too.
            spaces += usize::from(!begun && spaces > 0 && self.space_prefix);
            (0..spaces).for_each(|_| out.extend_from_slice(SPACE.as_bytes()));
        }
        out
    }
}

/// The length of the UTF-8 character that a byte begins; 1 for a byte that begins none.
fn char_len(lead: u8) -> usize {
    match lead {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf7 => 4,
        _ => 1,
    }
}
