//! From the states of a sequence to one vector.
//!
//! Sums run over tokens in order, in f64 and without vector instructions, so that a sequence cut into batches anyhow, on
//! any machine, has the same embedding.

use alloc::vec;
use alloc::vec::Vec;

/// How a sequence's states become its embedding. The numbers are those of GGUF's `pooling_type`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// They do not: every token keeps its state.
    None = 0,
    /// Their mean.
    Mean = 1,
    /// The first token's.
    Cls = 2,
    /// The last token's.
    Last = 3,
    /// The first token's, which a classifier then turns into scores.
    Rank = 4,
}

impl Pooling {
    /// All kinds.
    pub const ALL: [Self; 5] = [Self::None, Self::Mean, Self::Cls, Self::Last, Self::Rank];
}

/// The states of one sequence, as they come.
#[derive(Clone, Debug)]
pub struct Pooled {
    kind: Pooling,
    width: usize,
    tokens: usize,
    /// The sum of all states, or the one that counts; `None` keeps all in `rows`.
    sum: Vec<f64>,
    rows: Vec<f32>,
}

impl Pooled {
    /// Nothing yet, of states of `width` floats.
    pub fn new(kind: Pooling, width: usize) -> Self {
        Self {
            kind,
            width,
            tokens: 0,
            sum: match kind {
                Pooling::Mean => vec![0.0; width],
                _ => Vec::new(),
            },
            rows: Vec::new(),
        }
    }

    /// Takes the states of the sequence's next tokens: (tokens, width).
    ///
    /// # Panics
    /// If the last of them is not whole.
    pub fn add(&mut self, states: &[f32]) {
        assert!(states.len().is_multiple_of(self.width), "whole states");
        for state in states.chunks_exact(self.width) {
            match self.kind {
                Pooling::None => self.rows.extend_from_slice(state),
                Pooling::Mean => {
                    for (sum, x) in self.sum.iter_mut().zip(state) {
                        *sum += f64::from(*x);
                    }
                }
                Pooling::Cls | Pooling::Rank if self.tokens > 0 => {}
                Pooling::Cls | Pooling::Rank | Pooling::Last => {
                    self.rows.clear();
                    self.rows.extend_from_slice(state);
                }
            }
            self.tokens += 1;
        }
    }

    /// How many tokens there were.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// The embedding: one row, or with [`Pooling::None`] one for each token. Empty if there were no tokens.
    pub fn finish(self) -> Vec<f32> {
        match self.kind {
            Pooling::Mean if self.tokens > 0 => {
                let count = self.tokens as f64;
                self.sum.iter().map(|sum| (sum / count) as f32).collect()
            }
            _ => self.rows,
        }
    }
}

/// Makes a vector one unit long. One of zeros stays as it is.
pub fn normalize(x: &mut [f32]) {
    let squares: f64 = x.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    if squares > 0.0 {
        let length = libm::sqrt(squares);
        for x in x {
            *x = (f64::from(*x) / length) as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATES: [f32; 6] = [1.0, -2.0, 4.0, 0.5, 1.0, 7.5];

    fn pooled(kind: Pooling, chunk: usize) -> Vec<f32> {
        let mut pooled = Pooled::new(kind, 2);
        STATES.chunks(chunk).for_each(|states| pooled.add(states));
        assert_eq!(pooled.tokens(), 3);
        pooled.finish()
    }

    #[test]
    fn each_kind_takes_its_states_however_they_are_cut() {
        for chunk in [2, 4, 6] {
            assert_eq!(pooled(Pooling::None, chunk), STATES);
            assert_eq!(pooled(Pooling::Mean, chunk), [2.0, 2.0]);
            assert_eq!(pooled(Pooling::Cls, chunk), [1.0, -2.0]);
            assert_eq!(pooled(Pooling::Rank, chunk), [1.0, -2.0]);
            assert_eq!(pooled(Pooling::Last, chunk), [1.0, 7.5]);
        }
    }

    #[test]
    fn no_tokens_have_no_embedding() {
        for kind in Pooling::ALL {
            assert!(Pooled::new(kind, 2).finish().is_empty());
        }
    }

    #[test]
    fn a_vector_becomes_one_unit_long() {
        let mut x = [3.0, -4.0];
        normalize(&mut x);
        assert_eq!(x, [0.6, -0.8]);
        let mut x = [f32::MAX, f32::MAX];
        normalize(&mut x);
        assert_eq!(x, [core::f32::consts::FRAC_1_SQRT_2; 2]);
        let mut zero = [0.0; 3];
        normalize(&mut zero);
        assert_eq!(zero, [0.0; 3]);
    }
}
