//! Log-probabilities of a token and of the likeliest alternatives, from the model's own logits.
//!
//! As in OpenAI's interface they are taken before temperature, penalties and truncation, over the whole vocabulary.

use alloc::vec::Vec;

use crate::exponential::{exp, sum};
use crate::sampling::{Candidate, Normalizer, SampleError, best, gather_top};

/// A token and its log-probability.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenLogprob {
    /// The token.
    pub token: u32,
    /// The natural logarithm of its probability; minus infinity for a banned token.
    pub logprob: f32,
}

/// Computes log-probabilities; keeps its buffers between calls.
#[derive(Debug, Clone, Default)]
pub struct Logprobs {
    best: Vec<Candidate>,
    top: Vec<TokenLogprob>,
}

impl Logprobs {
    /// Empty buffers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The log-probability of a token, and the `n` likeliest tokens with theirs, the likeliest first (of equal ones
    /// the lower token first). Fewer than `n` when the others are banned.
    pub fn compute(
        &mut self,
        logits: &[f32],
        token: u32,
        n: usize,
    ) -> Result<(TokenLogprob, &[TokenLogprob]), SampleError> {
        let normalizer = normalizer(logits)?;
        let logprob = |token, logit: f32| TokenLogprob {
            token,
            logprob: -normalizer.surprise(logit) as f32,
        };
        let Some(&logit) = logits.get(token as usize) else {
            return Err(SampleError::Length {
                expected: token as usize + 1,
                found: logits.len(),
            });
        };
        self.top.clear();
        if n > 0 {
            gather_top(logits, f32::NEG_INFINITY, n, &mut self.best);
            self.top
                .extend(self.best.iter().map(|c| logprob(c.token, c.logit)));
        }
        Ok((logprob(token, logit), &self.top))
    }

    /// The `n` likeliest tokens of those that `allowed` does not ban, with their log-probabilities among all.
    pub(crate) fn among(
        &mut self,
        logits: &[f32],
        allowed: &[f32],
        n: usize,
    ) -> Result<&[TokenLogprob], SampleError> {
        best(allowed)?;
        let normalizer = normalizer(logits)?;
        gather_top(allowed, f32::NEG_INFINITY, n, &mut self.best);
        self.top.clear();
        self.top.extend(self.best.iter().map(|c| TokenLogprob {
            token: c.token,
            logprob: -normalizer.surprise(c.logit) as f32,
        }));
        Ok(&self.top)
    }
}

fn normalizer(logits: &[f32]) -> Result<Normalizer, SampleError> {
    const BLOCK: usize = 64;
    let max = best(logits)?.logit;
    let mut total = 0.0;
    for block in logits.chunks(BLOCK) {
        let mut weights = [0.0; BLOCK];
        for (weight, &logit) in weights.iter_mut().zip(block) {
            *weight = exp(logit - max);
        }
        total += sum(&weights);
    }
    Ok(Normalizer {
        max: f64::from(max),
        log_sum: libm::log(total),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn logprobs_are_of_the_whole_vocabulary_and_in_order() {
        let logits: Vec<f32> = [1.0, 4.0, 0.0, 4.0, 1.0, 2.0].map(|p: f32| p.ln()).into();
        let mut logprobs = Logprobs::new();
        let (chosen, top) = logprobs.compute(&logits, 5, 4).unwrap();
        let share = |p: f64| (p / 12.0).ln() as f32;
        assert_eq!(
            chosen,
            TokenLogprob {
                token: 5,
                logprob: share(2.0)
            }
        );
        let expected = [(1, 4.0), (3, 4.0), (5, 2.0), (0, 1.0)];
        assert_eq!(top.len(), 4);
        for (got, (token, p)) in top.iter().zip(expected) {
            assert_eq!(got.token, token);
            assert!((got.logprob - share(p)).abs() < 1e-6);
        }
    }

    #[test]
    fn banned_tokens_are_no_alternatives() {
        let mut logprobs = Logprobs::new();
        let logits = vec![f32::NEG_INFINITY, 3.0, f32::NEG_INFINITY];
        let (chosen, top) = logprobs.compute(&logits, 0, usize::MAX).unwrap();
        assert_eq!(chosen.logprob, f32::NEG_INFINITY);
        assert_eq!(
            top,
            [TokenLogprob {
                token: 1,
                logprob: 0.0
            }]
        );
        assert!(logprobs.compute(&logits, 1, 0).unwrap().1.is_empty());
    }

    #[test]
    fn bad_logits_and_tokens_are_errors() {
        let mut logprobs = Logprobs::new();
        let nan = logprobs.compute(&[0.0, f32::NAN], 0, 1);
        assert!(matches!(nan, Err(SampleError::NotFinite { token: 1, .. })));
        assert_eq!(logprobs.compute(&[], 0, 1), Err(SampleError::AllBanned));
        assert!(logprobs.compute(&[0.0], 1, 1).is_err());
    }

    #[test]
    fn logits_that_overflow_exp_give_finite_logprobs() {
        let mut logprobs = Logprobs::new();
        let (chosen, _) = logprobs.compute(&[3e38, -3e38, 3e38], 0, 0).unwrap();
        assert!((chosen.logprob + core::f32::consts::LN_2).abs() < 1e-6);
    }
}
