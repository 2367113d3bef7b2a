//! Attention over KV pages, in chunks of positions.
//!
//! A chunk's scores, their maximum, their sum and the weighted values are worked out by themselves, and chunks are joined
//! in the order of positions. That is so whoever computes them and whatever else is in the batch, and where chunks begin
//! depends on nothing but the position: the result has the same bits whether a token's chunks are shared out among
//! workers, as for a few tokens with a long context, or all done by one, as for the many tokens of a prompt.

use super::rows::{self, QueryRows};
use super::{Buckets, alibi};
use crate::batch::Span;
use crate::compute::Compute;
use crate::config::AttentionConfig;
use crate::pages::{Half, PAGE, Sequence, StoredPages};
use crate::workspace::TokenPosition;
use core::ops::Range;
use strata_kernels::{ActFormat, KvRows, Partial};
use strata_platform::{Chunks, each_alone, for_each_chunk, for_each_piece};

/// Positions in a chunk: whole pages.
const CHUNK: usize = 8 * PAGE;

/// Query heads that are computed together at most; they share a key head.
const GROUP: usize = 8;

/// Floats of a group's result at most.
pub(crate) const GROUP_FLOATS: usize = 2048;

/// Chunks that workers compute before they are joined.
const PARTIALS: usize = 128;

/// Tokens whose heads are computed one after the other, so that their keys and values stay in the cache.
const BLOCK: usize = 8;

/// Multiplications below which no worker is woken.
const LITTLE: usize = 1 << 17;

/// What one layer's attention reads.
pub(crate) struct Attention<'a> {
    pub(crate) compute: &'a Compute<'a>,
    pub(crate) config: &'a AttentionConfig,
    pub(crate) kv: StoredPages<'a>,
    pub(crate) batch: &'a [Span<'a>],
    pub(crate) positions: &'a [TokenPosition],
    /// (tokens, heads + 2 kv_heads, head_size); queries come first.
    pub(crate) qkv: &'a [f32],
    /// A score without a value for each head.
    pub(crate) sinks: Option<&'a [f32]>,
    /// By head; empty without ALiBi.
    pub(crate) slopes: &'a [f32],
    /// What is added to scores by distance.
    pub(crate) buckets: Option<&'a Buckets>,
    pub(crate) sees: Sees,
}

/// What a token sees of its sequence.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sees {
    /// What comes after the source, up to itself, or up to the end of an image whose positions see each other.
    Itself,
    /// What comes after the source, up to itself, in images too.
    NothingLater,
    /// What comes after the first position, up to itself.
    ButFirst,
    /// The source.
    Source,
}

/// Where attention's results go.
pub(crate) struct AttentionOut<'a> {
    /// (tokens, heads, head_size).
    pub(crate) floats: &'a mut [f32],
    /// The same, encoded for the next matrix, if that comes next.
    pub(crate) encoded: Option<(&'a mut [u8], ActFormat)>,
    /// [`partial_floats`].
    pub(crate) partials: &'a mut [f32],
}

/// One chunk of one token's group of heads.
#[derive(Copy, Clone)]
struct Item {
    token: usize,
    group: usize,
    chunk: usize,
}

/// Query heads that are computed together.
fn group_size(config: &AttentionConfig) -> usize {
    let shared = config.heads / config.kv_heads;
    (1..=GROUP.min(shared))
        .rev()
        .find(|&n| shared.is_multiple_of(n) && n * config.head_size <= GROUP_FLOATS)
        .unwrap_or(1)
}

/// The floats of a partial result: what is weighted, the maxima, the sums.
fn partial_size(config: &AttentionConfig) -> usize {
    group_size(config) * (config.head_size + 2)
}

/// Floats that attention needs besides its results.
pub(crate) fn partial_floats(config: &AttentionConfig) -> usize {
    PARTIALS * partial_size(config)
}

impl Attention<'_> {
    /// Attends for every token, and encodes what comes out.
    pub(crate) fn run(&self, out: AttentionOut<'_>) {
        let tokens = self.positions.len();
        let width = self.config.q_width();
        let workers = self.compute.pool.workers();
        let products =
            self.config.q_width() * (0..tokens).map(|t| self.visible(t).len()).sum::<usize>();
        if self.are_few() && workers > 1 && products > LITTLE {
            self.split(out.floats, out.partials);
            if let Some((encoded, format)) = out.encoded {
                self.compute
                    .encode(format, out.floats, width, width, encoded);
            }
            return;
        }
        let block = (tokens / (8 * workers)).clamp(1, BLOCK);
        let floats = Chunks::new(out.floats, block * width);
        let attend = |index: usize, floats: &mut [f32]| {
            let group = group_size(self.config) * self.config.head_size;
            for unit in 0..width / group {
                for (i, out) in floats.chunks_exact_mut(width).enumerate() {
                    let out = &mut out[unit * group..][..group];
                    self.attend(index * block + i, unit, out);
                }
            }
        };
        let Some((encoded, format)) = out.encoded else {
            return if products <= LITTLE {
                each_alone(floats, attend);
            } else {
                for_each_piece(self.compute.pool, floats, attend);
            };
        };
        let row = format.row_bytes(width);
        let pieces = (floats, Chunks::new(encoded, block * row));
        let work = |index: usize, (floats, encoded): (&mut [f32], &mut [u8])| {
            attend(index, floats);
            let rows = floats.chunks_exact(width);
            for (floats, encoded) in rows.zip(encoded.chunks_exact_mut(row)) {
                self.compute.kernels.quantize_act(format, floats, encoded);
            }
        };
        if products <= LITTLE {
            each_alone(pieces, work);
        } else {
            for_each_piece(self.compute.pool, pieces, work);
        }
    }

    /// Whether there are so few tokens that their chunks are shared out.
    fn are_few(&self) -> bool {
        self.positions.len() < 4 * self.compute.pool.workers()
    }

    /// All chunks of one group of heads of one token, in order.
    fn attend(&self, token: usize, group: usize, out: &mut [f32]) {
        let kernels = self.compute.kernels;
        let heads = group_size(self.config);
        let (mut maxima, mut sums) = ([0.0; GROUP], [0.0; GROUP]);
        let mut total = Partial {
            maxima: &mut maxima[..heads],
            sums: &mut sums[..heads],
            acc: out,
        };
        let chunks = chunks(&self.visible(token));
        let first = Item {
            token,
            group,
            chunk: chunks.start,
        };
        self.chunk(first, &mut total);
        if chunks.len() > 1 {
            self.attend_rest(first, chunks.start + 1..chunks.end, &mut total);
        }
        total.finish(kernels, self.group_sinks(group));
    }

    /// Joins later chunks. A function of its own: only long contexts have any, and pay for the buffer.
    #[inline(never)]
    fn attend_rest(&self, first: Item, chunks: Range<usize>, total: &mut Partial<'_>) {
        let mut acc = [0.0; GROUP_FLOATS];
        let (mut maxima, mut sums) = ([0.0; GROUP], [0.0; GROUP]);
        let heads = total.maxima.len();
        let mut next = Partial {
            maxima: &mut maxima[..heads],
            sums: &mut sums[..heads],
            acc: &mut acc[..total.acc.len()],
        };
        for chunk in chunks {
            self.chunk(Item { chunk, ..first }, &mut next);
            total.join(self.compute.kernels, &next);
        }
    }

    /// Shares chunks out among the workers; the caller joins them, in the same order.
    fn split(&self, out: &mut [f32], partials: &mut [f32]) {
        let kernels = self.compute.kernels;
        let heads = group_size(self.config);
        let group_floats = heads * self.config.head_size;
        let size = partial_size(self.config);
        let groups = self.config.heads / heads;
        let items: usize = (0..self.positions.len())
            .map(|token| groups * chunks(&self.visible(token)).len())
            .sum();
        let (mut maxima, mut sums) = ([0.0; GROUP], [0.0; GROUP]);
        for base in (0..items).step_by(PARTIALS) {
            let partials = &mut partials[..PARTIALS.min(items - base) * size];
            for_each_chunk(self.compute.pool, partials, size, |index, partial| {
                let mut partial = view(partial, heads);
                self.chunk(self.item(base + index), &mut partial);
            });
            for (index, partial) in partials.chunks_exact_mut(size).enumerate() {
                let Item {
                    token,
                    group,
                    chunk,
                } = self.item(base + index);
                let next = view(partial, heads);
                let out = &mut out[(token * groups + group) * group_floats..][..group_floats];
                let mut total = Partial {
                    maxima: &mut maxima[..heads],
                    sums: &mut sums[..heads],
                    acc: out,
                };
                let chunks = chunks(&self.visible(token));
                if chunk == chunks.start {
                    total.maxima.copy_from_slice(next.maxima);
                    total.sums.copy_from_slice(next.sums);
                    total.acc.copy_from_slice(next.acc);
                } else {
                    total.join(kernels, &next);
                }
                if chunk + 1 == chunks.end {
                    total.finish(kernels, self.group_sinks(group));
                }
            }
        }
    }

    /// The items by number: all chunks of a group, all groups of a token, all tokens.
    fn item(&self, mut index: usize) -> Item {
        let groups = self.config.heads / group_size(self.config);
        for token in 0..self.positions.len() {
            let chunks = chunks(&self.visible(token));
            if index < groups * chunks.len() {
                return Item {
                    token,
                    group: index / chunks.len(),
                    chunk: chunks.start + index % chunks.len(),
                };
            }
            index -= groups * chunks.len();
        }
        unreachable!("items are numbered up to the chunks of all tokens")
    }

    /// The positions that a token sees; at least its own, or all of the source.
    pub(super) fn visible(&self, token: usize) -> Range<usize> {
        let TokenPosition {
            span,
            position,
            end,
        } = self.positions[token];
        let source = self.batch[span as usize].sequence.source();
        if self.sees == Sees::Source {
            return 0..source;
        }
        let position = position as usize;
        let start = match self.config.window {
            None => 0,
            Some(chunk) if self.config.chunked => position / chunk * chunk,
            Some(window) => (position + 1).saturating_sub(window),
        };
        let end = match self.sees {
            Sees::NothingLater | Sees::ButFirst => position + 1,
            _ => end as usize,
        };
        let start = match self.sees {
            Sees::ButFirst => start.max(1),
            _ => start,
        };
        start.min(position).max(source)..end
    }

    fn group_sinks(&self, group: usize) -> Option<&[f32]> {
        let heads = group_size(self.config);
        Some(&self.sinks?[group * heads..][..heads])
    }

    /// What the visible positions of one chunk contribute.
    fn chunk(&self, item: Item, into: &mut Partial<'_>) {
        let Self { config, kv, .. } = self;
        let kernels = self.compute.kernels;
        let (heads, size) = (into.maxima.len(), config.head_size);
        let head = item.group * heads;
        let kv_head = head / (config.heads / config.kv_heads);
        let TokenPosition { span, position, .. } = self.positions[item.token];
        let sequence: &Sequence = self.batch[span as usize].sequence;
        let visible = self.visible(item.token);
        let start = visible.start.max(item.chunk * CHUNK);
        let end = visible.end.min((item.chunk + 1) * CHUNK);
        let n = end - start;
        let queries = &self.qkv[item.token * config.qkv_width() + head * size..][..heads * size];
        let range = |page: usize| {
            let from = start.max(page * PAGE) - page * PAGE;
            from..(end - page * PAGE).min(PAGE)
        };
        let stored = |half: Half, page: usize, rows: Range<usize>| {
            kv.rows(sequence.pages[page], half, kv_head, rows)
        };
        let pages = start / PAGE..end.div_ceil(PAGE);
        // Few tokens read keys and values from memory, many from the cache.
        let far = self.are_few();
        let stored_rows = |half: Half, page: usize| {
            let range = range(page);
            let next = match half {
                _ if !far => &[],
                _ if page + 1 < pages.end => stored(half, page + 1, 0..PAGE),
                Half::Keys => stored(Half::Values, pages.start, 0..PAGE),
                Half::Values if end < visible.end => stored(Half::Keys, page + 1, 0..PAGE),
                Half::Values => &[],
            };
            let bytes = stored(half, page, range.clone());
            (
                (page * PAGE + range.start) - start,
                KvRows::new(kv.kind, size, bytes).before(next),
            )
        };

        let mut scores = [0.0; GROUP * CHUNK];
        rows::clear(into);
        QueryRows {
            kernels,
            queries,
            scale: config.scale,
            soft_cap: config.soft_cap,
        }
        .attend(
            pages.clone().map(|page| stored_rows(Half::Keys, page)),
            pages.clone().map(|page| stored_rows(Half::Values, page)),
            |row, scores| {
                if let Some(&slope) = self.slopes.get(head + row) {
                    alibi::lower(slope, position as usize, start, scores);
                }
                if let Some(buckets) = self.buckets {
                    buckets.add(head + row, position as usize, start, scores);
                }
            },
            &mut scores[..heads * n],
            into,
        );
    }
}

/// The chunks that hold these positions.
fn chunks(positions: &Range<usize>) -> Range<usize> {
    positions.start / CHUNK..positions.end.div_ceil(CHUNK)
}

/// A partial result in a buffer.
fn view(floats: &mut [f32], heads: usize) -> Partial<'_> {
    let (maxima, rest) = floats.split_at_mut(heads);
    let (sums, acc) = rest.split_at_mut(heads);
    Partial { maxima, sums, acc }
}
