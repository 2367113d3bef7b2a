//! Attention over KV pages: online softmax, one page at a time, in the order of positions.
//!
//! The unit of work is a token and the query heads that share a key head. A page's scores, its maximum and
//! its sum are worked out and folded in before the next page, whoever computes it and whatever else is in the
//! batch, so the result has the same bits.

use crate::batch::Span;
use crate::compute::Compute;
use crate::config::Config;
use crate::kv_pages::{Half, KvPages, PAGE, Sequence};
use crate::workspace::Place;
use strata_platform::for_each_chunk;

/// Query heads that one unit of work has at most.
const GROUP: usize = 16;

/// What one layer's attention reads.
pub(crate) struct Attention<'a> {
    pub(crate) compute: &'a Compute<'a>,
    pub(crate) config: &'a Config,
    pub(crate) kv: &'a KvPages,
    pub(crate) layer: usize,
    pub(crate) batch: &'a [Span<'a>],
    pub(crate) places: &'a [Place],
    /// (tokens, heads + 2 kv_heads, head_size); queries come first.
    pub(crate) qkv: &'a [f32],
}

impl Attention<'_> {
    /// Attends for every token: `out` is (tokens, heads, head_size).
    pub(crate) fn run(&self, out: &mut [f32]) {
        let config = self.config;
        let shared = config.heads / config.kv_heads;
        let group = (1..=GROUP.min(shared))
            .rev()
            .find(|&n| shared.is_multiple_of(n))
            .unwrap_or(1);
        let units = config.heads / group;
        for_each_chunk(
            self.compute.pool,
            out,
            group * config.head_size,
            |unit, out| {
                let (token, unit) = (unit / units, unit % units);
                self.attend(token, unit * group, group, out);
            },
        );
    }

    /// Query heads `head..head + group` of one token.
    fn attend(&self, token: usize, head: usize, group: usize, out: &mut [f32]) {
        let Self { config, kv, .. } = self;
        let kernels = self.compute.kernels;
        let size = config.head_size;
        let kv_head = head / (config.heads / config.kv_heads);
        let place = self.places[token];
        let sequence: &Sequence = self.batch[place.span as usize].sequence;
        let end = place.position as usize + 1;
        let start = config.windows[self.layer].map_or(0, |window| end.saturating_sub(window));
        let query = &self.qkv[token * config.qkv_width() + head * size..][..group * size];
        let kind = kv.shape().kind;

        let mut scores = [0.0; GROUP * PAGE];
        let mut maxima = [f32::NEG_INFINITY; GROUP];
        let mut sums = [0.0; GROUP];
        out.fill(0.0);
        for page in start / PAGE..end.div_ceil(PAGE) {
            let positions = (end - page * PAGE).min(PAGE);
            let hidden = start.saturating_sub(page * PAGE);
            let id = sequence.pages[page];
            let scores = &mut scores[..group * positions];
            let keys = kv.rows(id, self.layer, Half::Keys, kv_head, positions);
            kernels.kv_scores(kind, query, keys, positions, config.attn_scale, scores);
            if let Some(cap) = config.attn_soft_cap {
                kernels.soft_cap(scores, cap);
            }
            for (i, scores) in scores.chunks_exact_mut(positions).enumerate() {
                scores[..hidden].fill(f32::NEG_INFINITY);
                let maximum = maxima[i].max(kernels.max(scores));
                let shrink = kernels.exp_sub(&mut [maxima[i] - maximum], 0.0);
                maxima[i] = maximum;
                sums[i] = sums[i] * shrink + kernels.exp_sub(scores, maximum);
                if shrink != 1.0 {
                    kernels.scale(&mut out[i * size..][..size], shrink);
                }
            }
            let values = kv.rows(id, self.layer, Half::Values, kv_head, positions);
            kernels.kv_accumulate(kind, scores, values, positions, out);
        }
        for (out, sum) in out.chunks_exact_mut(size).zip(sums) {
            kernels.scale(out, 1.0 / sum);
        }
    }
}
