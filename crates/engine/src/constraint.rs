//! Constraints on what is generated: which tokens may come next, given those that came.
//!
//! A grammar, a schema or a list of choices is a [`Constraint`] for the engine, whoever compiled it. The engine asks
//! for the mask before each choice, tells what was chosen, and ends the request with an error where the constraint
//! fails or allows nothing: no token is ever generated that the constraint did not allow.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// What may come next in a text.
///
/// Calls come in this order: [`forced`](Self::forced) or [`allowed`](Self::allowed), then [`accept`](Self::accept) with
/// a token of those, and so on. All must be functions of the accepted tokens alone; otherwise a text would depend on
/// what else runs. In a program where code can panic, wrap what might, and give the panic as an error.
pub trait Constraint: Send {
    /// Sets the bit of each token that may come next; all are clear on entry. A token that ends the turn is
    /// allowed like any other, where the text may end.
    fn allowed(&mut self, mask: &mut TokenMask) -> Result<(), ConstraintError>;

    /// Takes the token that was chosen; one that ends the turn too.
    fn accept(&mut self, token: u32) -> Result<(), ConstraintError>;

    /// Adds the tokens that must come next whatever the logits say; none where there is a choice. It takes none of
    /// them: each is accepted before anything else is asked.
    fn forced(&mut self, out: &mut Vec<u32>) -> Result<(), ConstraintError>;

    /// Whether the text is complete and nothing may follow.
    fn is_complete(&self) -> bool;

    /// A copy at the same place, for choices and forks.
    fn fork(&self) -> Box<dyn Constraint>;
}

impl Clone for Box<dyn Constraint> {
    fn clone(&self) -> Self {
        self.fork()
    }
}

impl fmt::Debug for dyn Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Constraint")
    }
}

/// Why a constraint could not go on. The request ends with it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
#[non_exhaustive]
pub enum ConstraintError {
    #[error("token {token} is not allowed here")]
    Token { token: u32 },
    #[error("no token is allowed here")]
    DeadEnd,
    #[error("the constraint has exceeded its limit of {limit} {what}")]
    Limit { what: &'static str, limit: usize },
    #[error("the constraint failed: {reason}")]
    Failed { reason: String },
}

/// A bit for each token of a vocabulary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenMask {
    /// Token t is bit t % 32 of word t / 32.
    words: Vec<u32>,
    vocabulary: usize,
}

impl TokenMask {
    /// A mask that allows nothing.
    #[must_use]
    pub fn new(vocabulary: usize) -> Self {
        Self {
            words: alloc::vec![0; vocabulary.div_ceil(32)],
            vocabulary,
        }
    }

    /// How many tokens there are.
    pub fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// Allows nothing.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Allows a token. One that is not in the vocabulary stays forbidden.
    pub fn allow(&mut self, token: u32) {
        if (token as usize) < self.vocabulary {
            self.words[token as usize / 32] |= 1 << (token % 32);
        }
    }

    /// Forbids a token.
    pub fn forbid(&mut self, token: u32) {
        if (token as usize) < self.vocabulary {
            self.words[token as usize / 32] &= !(1 << (token % 32));
        }
    }

    /// Allows every token.
    pub fn allow_all(&mut self) {
        self.words.fill(u32::MAX);
    }

    /// Whether a token is allowed.
    pub fn is_allowed(&self, token: u32) -> bool {
        (token as usize) < self.vocabulary
            && self.words[token as usize / 32] >> (token % 32) & 1 == 1
    }

    /// How many tokens are allowed.
    pub fn count(&self) -> usize {
        let past = self.words.len() * 32 - self.vocabulary;
        let all: u32 = self.words.iter().map(|word| word.count_ones()).sum();
        let surplus = self.words.last().map_or(0, |word| match past {
            0 => 0,
            _ => (word >> (32 - past)).count_ones(),
        });
        (all - surplus) as usize
    }

    /// The bits: token t is bit t % 32 of word t / 32. Bits past the vocabulary mean nothing.
    pub fn words_mut(&mut self) -> &mut [u32] {
        &mut self.words
    }

    /// The bits.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Copies logits, with minus infinity for each token that is not allowed.
    pub fn apply(&self, logits: &[f32], out: &mut Vec<f32>) {
        out.clear();
        for (word, logits) in self.words.iter().zip(logits.chunks(32)) {
            match *word {
                0 => out.extend(logits.iter().map(|_| f32::NEG_INFINITY)),
                u32::MAX => out.extend_from_slice(logits),
                word => out.extend(logits.iter().enumerate().map(|(bit, &logit)| {
                    if word >> bit & 1 == 1 {
                        logit
                    } else {
                        f32::NEG_INFINITY
                    }
                })),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_allows_what_was_set_and_nothing_past_the_vocabulary() {
        let mut mask = TokenMask::new(70);
        for token in [0, 31, 32, 69, 70, 71, u32::MAX] {
            mask.allow(token);
        }
        assert_eq!(mask.count(), 4);
        assert!(mask.is_allowed(69) && !mask.is_allowed(70) && !mask.is_allowed(1));
        mask.forbid(31);
        assert_eq!(mask.count(), 3);
        mask.allow_all();
        assert_eq!(mask.count(), 70);
        assert!(!mask.is_allowed(70));
        mask.clear();
        assert_eq!(mask.count(), 0);
        let mut even = TokenMask::new(64);
        even.allow_all();
        assert_eq!(even.count(), 64);
    }

    #[test]
    fn forbidden_tokens_get_minus_infinity_and_the_others_keep_their_bits() {
        let logits: Vec<f32> = (0..100).map(|i| i as f32 - 50.0).collect();
        let mut mask = TokenMask::new(100);
        for token in (0..64).step_by(3).chain(64..96) {
            mask.allow(token);
        }
        let mut out = Vec::new();
        mask.apply(&logits, &mut out);
        assert_eq!(out.len(), 100);
        for (token, (&out, &logit)) in out.iter().zip(&logits).enumerate() {
            let expected = if mask.is_allowed(token as u32) {
                logit
            } else {
                f32::NEG_INFINITY
            };
            assert_eq!(out.to_bits(), expected.to_bits());
        }
    }
}
