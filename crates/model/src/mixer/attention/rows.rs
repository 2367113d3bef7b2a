//! The softmax over a run of positions, for rows of queries that share keys and values.

use strata_kernels::{Kernels, KvRows, Partial};

/// Rows of queries that see the same positions.
pub(super) struct QueryRows<'a> {
    pub(super) kernels: &'a Kernels,
    /// (rows, head_size).
    pub(super) queries: &'a [f32],
    /// What scores are multiplied by.
    pub(super) scale: f32,
    /// Scores pass cap · tanh(x / cap).
    pub(super) soft_cap: Option<f32>,
}

/// Keys or values at positions next to each other, and how far into the run they begin.
pub(super) type Stored<'k> = (usize, KvRows<'k>);

impl QueryRows<'_> {
    /// Joins a run of positions to what the positions before it gave.
    ///
    /// `scores` is (rows, positions), for use on the way; `bias` changes the scores of a row. The order in which runs
    /// are joined, and where they begin and end, is part of the result.
    #[inline(always)]
    pub(super) fn attend<'k>(
        &self,
        keys: impl Iterator<Item = Stored<'k>>,
        values: impl Iterator<Item = Stored<'k>>,
        bias: impl Fn(usize, &mut [f32]),
        scores: &mut [f32],
        into: &mut Partial<'_>,
    ) {
        let kernels = self.kernels;
        let rows = into.maxima.len();
        let (n, size) = (scores.len() / rows, into.acc.len() / rows);
        for (offset, keys) in keys {
            kernels.kv_scores(self.queries, keys, self.scale, &mut scores[offset..], n);
        }
        if let Some(cap) = self.soft_cap {
            kernels.soft_cap(scores, cap);
        }
        for (i, scores) in scores.chunks_exact_mut(n).enumerate() {
            bias(i, scores);
            let before = into.maxima[i];
            let maximum = before.max(kernels.max(scores));
            into.maxima[i] = maximum;
            let sum = kernels.exp_sub(scores, maximum);
            if before == f32::NEG_INFINITY {
                into.sums[i] = sum;
                continue;
            }
            let shrink = kernels.exp_sub(&mut [before - maximum], 0.0);
            into.sums[i] = into.sums[i] * shrink + sum;
            if shrink != 1.0 {
                kernels.scale(&mut into.acc[i * size..][..size], shrink);
            }
        }
        for (offset, values) in values {
            kernels.kv_accumulate(&scores[offset..], n, values, into.acc);
        }
    }
}

/// The softmax over no positions.
pub(super) fn clear(partial: &mut Partial<'_>) {
    partial.maxima.fill(f32::NEG_INFINITY);
    partial.sums.fill(0.0);
    partial.acc.fill(0.0);
}
