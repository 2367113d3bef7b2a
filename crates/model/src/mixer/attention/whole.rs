//! Attention over whole sequences: online softmax over blocks of keys, in the order of positions.
//!
//! Queries, keys and values lie head by head, so that several tokens of one head meet the same keys together. A
//! token's sums run over its own sequence alone and in the same order whatever is computed beside it.

use super::rows::{self, QueryRows};
use super::{Buckets, alibi};
use crate::compute::Compute;
use crate::config::AttentionConfig;
use crate::workspace::{EncoderBuffers, TokenPosition};
use strata_kernels::{KvRows, KvType, Partial};
use strata_platform::for_each_chunk;

/// Tokens of one head that are computed together.
pub(crate) const ROWS: usize = 16;

/// Keys between two looks at the maximum.
const KEYS: usize = 32;

/// How queries, keys and values are put aside. There is no cache to be small, so they keep all their bits.
const KIND: KvType = KvType::F32;

/// Bytes of all keys, or of all values, of so many tokens.
pub(crate) fn stored_bytes(config: &AttentionConfig, tokens: usize) -> usize {
    config.kv_heads * tokens * KIND.row_bytes(config.head_size)
}

/// Floats of all queries of so many tokens: heads are padded to whole units of work.
pub(crate) fn query_floats(config: &AttentionConfig, tokens: usize) -> usize {
    config.q_width() * tokens.next_multiple_of(ROWS)
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

impl Attention<'_> {
    /// Attends for every token: `out` is (tokens, heads, head_size).
    pub(crate) fn run(&self, buffers: &mut EncoderBuffers, out: &mut [f32]) {
        let (config, pool) = (self.config, self.compute.pool);
        let (tokens, size) = (self.positions.len(), config.head_size);
        let EncoderBuffers {
            queries,
            keys,
            values,
            attended,
            ..
        } = buffers;
        let queries = &mut queries[..query_floats(config, tokens)];
        let attended = &mut attended[..query_floats(config, tokens)];
        let stored = stored_bytes(config, tokens);
        let (keys, values) = (&mut keys[..stored], &mut values[..stored]);
        let padded = tokens.next_multiple_of(ROWS);

        for_each_chunk(pool, queries, ROWS * size, |unit, out| {
            let (head, first) = (unit * ROWS / padded, unit * ROWS % padded);
            for (token, out) in (first..tokens).zip(out.chunks_exact_mut(size)) {
                out.copy_from_slice(self.row(token, head));
            }
        });
        for (first, stored) in [
            (config.heads, &mut *keys),
            (config.heads + config.kv_heads, &mut *values),
        ] {
            let row = KIND.row_bytes(size);
            for_each_chunk(pool, stored, tokens * row, |head, out| {
                for (token, out) in out.chunks_exact_mut(row).enumerate() {
                    let x = self.row(token, first + head);
                    self.compute.kernels.kv_store(KIND, x, out);
                }
            });
        }
        for_each_chunk(pool, attended, ROWS * size, |unit, out| {
            let (head, first) = (unit * ROWS / padded, unit * ROWS % padded);
            let queries = &queries[unit * ROWS * size..][..ROWS * size];
            self.unit(head, first, queries, keys, values, out);
        });
        self.compute.each_row(out, config.q_width(), |token, row| {
            for (head, out) in row.chunks_exact_mut(size).enumerate() {
                out.copy_from_slice(&attended[(head * padded + token) * size..][..size]);
            }
        });
    }

    /// One head's part of a token's queries, keys or values.
    fn row(&self, token: usize, head: usize) -> &[f32] {
        let size = self.config.head_size;
        &self.qkv[token * self.config.qkv_width() + head * size..][..size]
    }

    /// Up to `ROWS` tokens of one head, sequence by sequence.
    fn unit(
        &self,
        head: usize,
        first: usize,
        queries: &[f32],
        keys: &[u8],
        values: &[u8],
        out: &mut [f32],
    ) {
        let config = self.config;
        let (tokens, row) = (self.positions.len(), KIND.row_bytes(config.head_size));
        let kv_head = head / (config.heads / config.kv_heads);
        let last = tokens.min(first + ROWS);
        let mut token = first;
        while token < last {
            let sequence = self.positions[token].span as usize;
            let (start, end) = (
                self.starts[sequence] as usize,
                self.starts[sequence + 1] as usize,
            );
            let rows = end.min(last) - token;
            let stored = (kv_head * tokens + start) * row..(kv_head * tokens + end) * row;
            let range =
                (token - first) * config.head_size..(token - first + rows) * config.head_size;
            Rows {
                attention: self,
                head,
                position: token - start,
                queries: &queries[range.clone()],
                keys: &keys[stored.clone()],
                values: &values[stored],
            }
            .attend(&mut out[range]);
            token += rows;
        }
    }
}

/// Tokens of one sequence and one head, from `position` on, and the keys and values of the whole sequence.
struct Rows<'a> {
    attention: &'a Attention<'a>,
    head: usize,
    position: usize,
    queries: &'a [f32],
    keys: &'a [u8],
    values: &'a [u8],
}

impl Rows<'_> {
    fn attend(&self, out: &mut [f32]) {
        let config = self.attention.config;
        let size = config.head_size;
        let rows = self.queries.len() / size;
        let row_bytes = KIND.row_bytes(size);
        let queries = QueryRows {
            kernels: self.attention.compute.kernels,
            queries: self.queries,
            scale: config.scale,
            soft_cap: config.soft_cap,
        };
        let mut scores = [0.0; ROWS * KEYS];
        let (mut maxima, mut sums) = ([0.0; ROWS], [0.0; ROWS]);
        let mut total = Partial {
            maxima: &mut maxima[..rows],
            sums: &mut sums[..rows],
            acc: out,
        };
        rows::clear(&mut total);
        let step = KEYS * row_bytes;
        let blocks = self.keys.chunks(step).zip(self.values.chunks(step));
        for (block, (keys, values)) in blocks.enumerate() {
            let n = keys.len() / row_bytes;
            let stored = |bytes| [(0, KvRows::new(KIND, size, bytes))].into_iter();
            queries.attend(
                stored(keys),
                stored(values),
                |row, scores| {
                    self.add_distances(row, block * KEYS, scores);
                    self.hide(row, block * KEYS, scores);
                },
                &mut scores[..rows * n],
                &mut total,
            );
        }
        total.finish(queries.kernels, None);
    }

    /// Hides what token `row` does not see of the keys from position `first` on: those further away than half a window,
    /// before it or after. It sees itself, beside which hidden scores vanish.
    fn hide(&self, row: usize, first: usize, scores: &mut [f32]) {
        const HIDDEN: f32 = -1e30;
        let Some(window) = self.attention.config.window else {
            return;
        };
        let position = self.position + row;
        for (i, score) in scores.iter_mut().enumerate() {
            if position.abs_diff(first + i) > window / 2 {
                *score = HIDDEN;
            }
        }
    }

    /// Adds to the scores of token `row` what the distance of the keys from position `first` on does.
    fn add_distances(&self, row: usize, first: usize, scores: &mut [f32]) {
        if let Some(&slope) = self.attention.slopes.get(self.head) {
            alibi::lower(slope, self.position + row, first, scores);
        }
        if let Some(buckets) = self.attention.buckets {
            buckets.add(self.head, self.position + row, first, scores);
        }
    }
}
