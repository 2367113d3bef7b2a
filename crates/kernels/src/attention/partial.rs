//! A softmax in parts: what some of the positions add up to, joined to what others do.

use crate::Kernels;

/// What a run of positions contributes to the attention of several heads: for each the greatest score m, Σ e^(s − m), and
/// Σ e^(s − m) · v.
pub struct Partial<'a> {
    /// The greatest scores.
    pub maxima: &'a mut [f32],
    /// Σ e^(s − m).
    pub sums: &'a mut [f32],
    /// Σ e^(s − m) · v: heads × head_dim.
    pub acc: &'a mut [f32],
}

impl Partial<'_> {
    /// Joins the positions that come next. The order in which runs are joined is part of the result.
    ///
    /// # Panics
    /// If the heads differ.
    pub fn join(&mut self, kernels: &Kernels, next: &Partial<'_>) {
        let dim = self.head_dim();
        assert!(
            next.maxima.len() == self.maxima.len() && next.acc.len() == self.acc.len(),
            "the same heads"
        );
        for (h, acc) in self.acc.chunks_exact_mut(dim).enumerate() {
            let (old, new) = (self.maxima[h], next.maxima[h]);
            let maximum = greater(old, new);
            let (shrink, weight) = (exp(kernels, old - maximum), exp(kernels, new - maximum));
            self.maxima[h] = maximum;
            self.sums[h] = self.sums[h] * shrink + next.sums[h] * weight;
            if shrink != 1.0 {
                kernels.scale(acc, shrink);
            }
            kernels.add_scaled(acc, &next.acc[h * dim..][..dim], weight);
        }
    }

    /// Ends the softmax: `acc` becomes the weighted mean of the values.
    ///
    /// A head's sink is a score without a value: it takes its share of the weights and adds nothing.
    ///
    /// # Panics
    /// If there are sinks but not one for each head.
    pub fn finish(&mut self, kernels: &Kernels, sinks: Option<&[f32]>) {
        let dim = self.head_dim();
        assert!(
            sinks.is_none_or(|sinks| sinks.len() == self.maxima.len()),
            "a sink for each head"
        );
        for (h, acc) in self.acc.chunks_exact_mut(dim).enumerate() {
            let mut factor = 1.0;
            let mut sum = self.sums[h];
            if let Some(sinks) = sinks {
                let maximum = greater(self.maxima[h], sinks[h]);
                factor = exp(kernels, self.maxima[h] - maximum);
                sum = sum * factor + exp(kernels, sinks[h] - maximum);
            }
            kernels.scale(acc, factor / sum);
        }
    }

    fn head_dim(&self) -> usize {
        assert!(
            !self.maxima.is_empty()
                && self.sums.len() == self.maxima.len()
                && self.acc.len().is_multiple_of(self.maxima.len()),
            "a maximum, a sum and a vector for each head"
        );
        self.acc.len() / self.maxima.len()
    }
}

/// The greater of two; NaN never is.
fn greater(a: f32, b: f32) -> f32 {
    if b > a { b } else { a }
}

/// e^x; most differences here are 0, whose power is 1 exactly.
fn exp(kernels: &Kernels, x: f32) -> f32 {
    if x == 0.0 {
        1.0
    } else {
        kernels.exp_sub(&mut [x], 0.0)
    }
}
