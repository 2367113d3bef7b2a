//! What a head attends to, for those who look on: the softmax that [`paged`](super::paged) never writes down whole.

use super::alibi;
use super::paged::Attention;
use crate::pages::{Half, PAGE};
use crate::workspace::TokenPosition;
use alloc::vec;
use alloc::vec::Vec;
use strata_kernels::KvRows;

impl Attention<'_> {
    /// The shares of one query head of one token, and the position that the first of them belongs to. The scores are those
    /// that attention computes, from the same keys with the same kernel.
    pub(crate) fn shares(&self, token: usize, head: usize) -> (usize, Vec<f32>) {
        let Self { config, kv, .. } = self;
        let kernels = self.compute.kernels;
        let size = config.head_size;
        let TokenPosition { span, position, .. } = self.positions[token];
        let sequence = &self.batch[span as usize].sequence;
        let visible = self.visible(token);
        let kv_head = head / (config.heads / config.kv_heads);
        let query = &self.qkv[token * config.qkv_width() + head * size..][..size];
        let mut scores = vec![0.0; visible.len()];
        for page in visible.start / PAGE..visible.end.div_ceil(PAGE) {
            let start = page * PAGE;
            let rows = visible.start.max(start) - start..(visible.end - start).min(PAGE);
            let out = &mut scores[start + rows.start - visible.start..];
            let keys = kv.rows(sequence.pages[page], Half::Keys, kv_head, rows);
            let keys = KvRows::new(kv.kind, size, keys);
            kernels.kv_scores(query, keys, config.scale, out, visible.len());
        }
        if let Some(cap) = config.soft_cap {
            kernels.soft_cap(&mut scores, cap);
        }
        if let Some(&slope) = self.slopes.get(head) {
            alibi::lower(slope, position as usize, visible.start, &mut scores);
        }
        if let Some(buckets) = self.buckets {
            buckets.add(head, position as usize, visible.start, &mut scores);
        }
        let sink = self.sinks.map(|sinks| sinks[head]);
        let maximum = kernels.max(&scores).max(sink.unwrap_or(f32::NEG_INFINITY));
        let mut sum = kernels.exp_sub(&mut scores, maximum);
        if let Some(sink) = sink {
            sum += kernels.exp_sub(&mut [sink], maximum);
        }
        kernels.scale(&mut scores, 1.0 / sum);
        (visible.start, scores)
    }
}
