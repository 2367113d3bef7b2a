//! Attention over whole sequences: online softmax over blocks of keys, in the order of positions.
//!
//! Queries, keys and values lie head by head, in panels of tokens, so that several tokens of one head meet the same keys
//! together. A token's sums run over its own sequence alone and in the same order whatever is computed beside it.

use super::{Buckets, alibi};
use crate::compute::Compute;
use crate::config::AttentionConfig;
use crate::workspace::TokenPosition;
use alloc::vec;
use alloc::vec::Vec;
use strata_kernels::{WHOLE_KEYS, WHOLE_ROWS, WholeScores, WholeSums};
use strata_platform::for_each_chunk;

/// Floats of a line.
const LINE: usize = 16;

/// How many floats attention over so many tokens needs room for. Tokens are padded to whole panels, and the heads of what
/// is summed up to whole lines.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct WholeLengths {
    pub(crate) queries: usize,
    pub(crate) keys: usize,
    pub(crate) values: usize,
    pub(crate) attended: usize,
}

impl WholeLengths {
    pub(crate) fn new(config: &AttentionConfig, tokens: usize) -> Self {
        let padded = tokens.next_multiple_of(WHOLE_ROWS);
        let (size, wide) = (config.head_size, config.head_size.next_multiple_of(LINE));
        Self {
            queries: config.heads * padded * size,
            keys: config.kv_heads * padded * size,
            values: config.kv_heads * padded * wide,
            attended: config.heads * padded * wide,
        }
    }

    /// All of them.
    pub(crate) fn floats(&self) -> usize {
        self.queries + self.keys + self.values + self.attended
    }
}

/// Room for a layer's attention.
#[derive(Default)]
pub(crate) struct WholeBuffers {
    /// (heads, panels, head_size, 16).
    queries: Vec<f32>,
    /// (kv_heads, panels, head_size, 16).
    keys: Vec<f32>,
    /// (kv_heads, tokens, lines, 16).
    values: Vec<f32>,
    /// (heads, tokens, lines, 16).
    attended: Vec<f32>,
}

impl WholeBuffers {
    pub(crate) fn new(lengths: &WholeLengths) -> Self {
        Self {
            queries: vec![0.0; lengths.queries],
            keys: vec![0.0; lengths.keys],
            values: vec![0.0; lengths.values],
            attended: vec![0.0; lengths.attended],
        }
    }

    #[cfg(test)]
    pub(crate) fn measured(&self) -> usize {
        [&self.queries, &self.keys, &self.values, &self.attended]
            .map(|buffer| size_of_val(&buffer[..]))
            .iter()
            .sum()
    }
}

/// What one layer's attention reads.
pub(crate) struct Attention<'a> {
    pub(crate) compute: &'a Compute<'a>,
    pub(crate) config: &'a AttentionConfig,
    /// Of each token.
    pub(crate) positions: &'a [TokenPosition],
    /// Where each sequence begins, and where the last ends.
    pub(crate) starts: &'a [u32],
    /// (tokens, heads + 2 kv_heads, head_size).
    pub(crate) qkv: &'a [f32],
    /// By head; empty without ALiBi.
    pub(crate) slopes: &'a [f32],
    /// What is added to scores by distance.
    pub(crate) buckets: Option<&'a Buckets>,
}

/// Some floats as lines.
fn lines(floats: &[f32]) -> &[[f32; LINE]] {
    floats.as_chunks().0
}

impl Attention<'_> {
    /// Attends for every token: `out` is (tokens, heads, head_size).
    pub(crate) fn run(&self, buffers: &mut WholeBuffers, out: &mut [f32]) {
        let (config, pool) = (self.config, self.compute.pool);
        let (tokens, size) = (self.positions.len(), config.head_size);
        let lengths = WholeLengths::new(config, tokens);
        let queries = &mut buffers.queries[..lengths.queries];
        let keys = &mut buffers.keys[..lengths.keys];
        let values = &mut buffers.values[..lengths.values];
        let attended = &mut buffers.attended[..lengths.attended];
        let padded = tokens.next_multiple_of(WHOLE_ROWS);
        let wide = size.next_multiple_of(LINE);

        for (first, scale, panels) in [
            (0, config.scale, &mut *queries),
            (config.heads, 1.0, &mut *keys),
        ] {
            for_each_chunk(pool, panels, WHOLE_ROWS * size, |unit, out| {
                let (head, token) = (unit * WHOLE_ROWS / padded, unit * WHOLE_ROWS % padded);
                self.fill_panel(first + head, token, scale, out);
            });
        }
        for_each_chunk(pool, values, padded * wide, |head, out| {
            for (token, out) in (0..tokens).zip(out.chunks_exact_mut(wide)) {
                let row = self.row(token, config.heads + config.kv_heads + head);
                out[..size].copy_from_slice(row);
                out[size..].fill(0.0);
            }
        });
        let (queries, keys, values) = (&*queries, &*keys, &*values);
        for_each_chunk(pool, attended, WHOLE_ROWS * wide, |unit, out| {
            let head = unit * WHOLE_ROWS / padded;
            let kv_head = head / (config.heads / config.kv_heads);
            let panel = Panel {
                attention: self,
                head,
                first: unit * WHOLE_ROWS % padded,
                queries: lines(&queries[unit * WHOLE_ROWS * size..][..WHOLE_ROWS * size]),
                keys: lines(&keys[kv_head * padded * size..][..padded * size]),
                values: lines(&values[kv_head * padded * wide..][..padded * wide]),
            };
            panel.attend(out);
        });
        self.compute.each_row(out, config.q_width(), |token, row| {
            for (head, out) in row.chunks_exact_mut(size).enumerate() {
                out.copy_from_slice(&attended[(head * padded + token) * wide..][..size]);
            }
        });
    }

    /// One head's part of a token's queries, keys or values.
    fn row(&self, token: usize, head: usize) -> &[f32] {
        let size = self.config.head_size;
        &self.qkv[token * self.config.qkv_width() + head * size..][..size]
    }

    /// One head's part of 16 tokens, column by column; zeros where there are no tokens.
    fn fill_panel(&self, head: usize, first: usize, scale: f32, out: &mut [f32]) {
        let (columns, _) = out.as_chunks_mut::<WHOLE_ROWS>();
        for lane in 0..WHOLE_ROWS {
            if first + lane < self.positions.len() {
                let row = self.row(first + lane, head);
                for (column, x) in columns.iter_mut().zip(row) {
                    column[lane] = scale * x;
                }
            } else {
                for column in &mut *columns {
                    column[lane] = 0.0;
                }
            }
        }
    }
}

/// A panel of one head's queries, and the keys and values of all tokens.
struct Panel<'a> {
    attention: &'a Attention<'a>,
    head: usize,
    /// The first token.
    first: usize,
    queries: &'a [[f32; LINE]],
    keys: &'a [[f32; LINE]],
    values: &'a [[f32; LINE]],
}

impl Panel<'_> {
    /// Attends sequence by sequence: `out` is (16, lines, 16).
    fn attend(&self, out: &mut [f32]) {
        let attention = self.attention;
        let (out, _) = out.as_chunks_mut::<LINE>();
        let wide = out.len() / WHOLE_ROWS;
        let last = attention.positions.len().min(self.first + WHOLE_ROWS);
        let mut token = self.first;
        // A panel of one sequence needs no other room.
        let mut spare = Vec::new();
        while token < last {
            let sequence = attention.positions[token].span as usize;
            let start = attention.starts[sequence] as usize;
            let end = attention.starts[sequence + 1] as usize;
            let next = end.min(last);
            if token == self.first && next == last {
                return self.attend_to(start, end, out);
            }
            spare.resize(out.len(), [0.0; LINE]);
            self.attend_to(start, end, &mut spare);
            let rows = (token - self.first) * wide..(next - self.first) * wide;
            out[rows.clone()].copy_from_slice(&spare[rows]);
            token = next;
        }
    }

    /// Attends from all rows to the tokens from `start` to `end`.
    fn attend_to(&self, start: usize, end: usize, out: &mut [[f32; LINE]]) {
        let Attention {
            compute, config, ..
        } = *self.attention;
        let kernels = compute.kernels;
        let (size, wide) = (config.head_size, out.len() / WHOLE_ROWS);
        let mut scores: WholeScores = [[0.0; WHOLE_KEYS + WHOLE_ROWS]; WHOLE_ROWS];
        let (mut maxima, mut sums) = ([f32::NEG_INFINITY; WHOLE_ROWS], [0.0; WHOLE_ROWS]);
        out.fill([0.0; LINE]);
        let mut total = WholeSums {
            maxima: &mut maxima,
            sums: &mut sums,
            acc: out,
        };
        for block in (start..end).step_by(WHOLE_KEYS) {
            let n = WHOLE_KEYS.min(end - block);
            let (panel, from) = (block / WHOLE_ROWS, block % WHOLE_ROWS);
            let panels = (from + n).div_ceil(WHOLE_ROWS);
            let keys = &self.keys[panel * size..][..panels * size];
            kernels.whole_scores(self.queries, keys, &mut scores);
            for (row, scores) in scores.iter_mut().enumerate() {
                let scores = &mut scores[from..][..n];
                if let Some(cap) = config.soft_cap {
                    kernels.soft_cap(scores, cap);
                }
                // Rows of other sequences are not used.
                if let Some(position) = (self.first + row).checked_sub(start) {
                    self.change(position, block - start, scores);
                }
            }
            kernels.whole_softmax(&mut scores, from, n, &mut total);
            let values = &self.values[block * wide..][..n * wide];
            kernels.whole_accumulate(&scores, from, values, total.acc);
        }
        for (out, sum) in out.chunks_exact_mut(wide).zip(sums) {
            kernels.scale(out.as_flattened_mut(), 1.0 / sum);
        }
    }

    /// Changes the scores of the token at `position` for the keys from `first` on: by their distance, and those that it
    /// does not see are hidden: further away than half a window, before it or after. It sees itself, beside which hidden
    /// scores vanish.
    fn change(&self, position: usize, first: usize, scores: &mut [f32]) {
        const HIDDEN: f32 = -1e30;
        let attention = self.attention;
        if let Some(&slope) = attention.slopes.get(self.head) {
            alibi::lower(slope, position, first, scores);
        }
        if let Some(buckets) = attention.buckets {
            buckets.add(self.head, position, first, scores);
        }
        if let Some(window) = attention.config.window {
            for (i, score) in scores.iter_mut().enumerate() {
                if position.abs_diff(first + i) > window / 2 {
                    *score = HIDDEN;
                }
            }
        }
    }
}
