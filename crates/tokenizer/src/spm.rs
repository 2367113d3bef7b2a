//! SentencePiece's BPE (`llama`): the whole text is one word, and the pair whose joined text is the token with the
//! highest score is merged first.

use alloc::string::String;
use alloc::vec::Vec;

use super::merge::{Chain, Join};
use super::table::{NONE, TokenTable};
use super::vocab::Vocab;

/// How a space is spelled in these vocabularies.
pub(crate) const SPACE: &str = "▁";

#[derive(Clone, Debug)]
pub(crate) struct Spm {
    bytes: [u32; 256],
    unknown: Option<u32>,
    space_prefix: bool,
}

impl Spm {
    pub(crate) fn new(vocab: &Vocab) -> Self {
        let mut bytes = vocab.tokens.byte_ids();
        for (byte, id) in bytes
            .iter_mut()
            .enumerate()
            .take(128)
            .filter(|(_, id)| **id == NONE)
        {
            *id = vocab.tokens.find_bytes(&[byte as u8]).unwrap_or(NONE);
        }
        Spm {
            bytes,
            unknown: vocab.special.unk,
            space_prefix: vocab.space_prefix,
        }
    }

    /// `fresh`: the text begins, or follows a special token; then it gets the space that words have in front.
    pub(crate) fn encode(&self, tokens: &TokenTable, text: &str, fresh: bool, out: &mut Vec<u32>) {
        let mut escaped = String::with_capacity(text.len() + text.len() / 2);
        if fresh && self.space_prefix {
            escaped.push_str(SPACE);
        }
        for (i, part) in text.split(' ').enumerate() {
            if i > 0 {
                escaped.push_str(SPACE);
            }
            escaped.push_str(part);
        }
        let bytes = escaped.as_bytes();
        let slice = |start: u32, end: u32| bytes.get(start as usize..end as usize).unwrap_or(&[]);
        let mut chain = Chain::default();
        for (at, c) in escaped.char_indices() {
            let end = at + c.len_utf8();
            let id = tokens.find_spelled(slice(at as u32, end as u32));
            chain.push(at, end, id.unwrap_or(NONE));
        }
        let mut after_unknown = false;
        chain.merge(
            |left, right| {
                let id = tokens.find_spelled(slice(left.start, right.end))?;
                Some(Join {
                    order: order(tokens.score(id)?),
                    id,
                })
            },
            |symbol| match symbol.id {
                NONE => {
                    after_unknown = self.spell(slice(symbol.start, symbol.end), after_unknown, out);
                }
                id => {
                    out.push(id);
                    after_unknown = false;
                }
            },
        );
    }

    /// A character without a token: its bytes, else one unknown token for all such neighbours. Says whether it was the
    /// latter.
    fn spell(&self, bytes: &[u8], after_unknown: bool, out: &mut Vec<u32>) -> bool {
        let ids = bytes.iter().map(|b| self.bytes[usize::from(*b)]);
        if ids.clone().all(|id| id != NONE) {
            out.extend(ids);
            return false;
        }
        if !after_unknown {
            out.extend(self.unknown);
        }
        true
    }
}

/// Highest score first; what is not a number comes last.
fn order(score: f32) -> u32 {
    if score.is_nan() {
        return u32::MAX - 1;
    }
    // -0.0 + 0.0 is 0.0, so that the two zeros are equal. The bits of floats order like integers once the sign is dealt
    // with.
    let bits = (score + 0.0).to_bits();
    let ascending = match bits >> 31 {
        0 => bits | 1 << 31,
        _ => !bits,
    };
    !ascending
}

#[cfg(test)]
mod tests {
    use super::order;

    #[test]
    fn higher_scores_come_first_and_nan_last() {
        let scores = [
            f32::INFINITY,
            2.5,
            0.0,
            -0.25,
            -1e9,
            f32::NEG_INFINITY,
            f32::NAN,
        ];
        assert!(
            scores
                .windows(2)
                .all(|pair| order(pair[0]) < order(pair[1]))
        );
        assert_eq!(order(0.0), order(-0.0));
    }
}
