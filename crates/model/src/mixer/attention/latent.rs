//! Multi-head latent attention (DeepSeek V2, <https://arxiv.org/abs/2405.04434>): keys and values of all heads are made from
//! one short vector c, and one rotated key is shared by all heads.
//!
//! **Compressed**, what is kept of a position is [rotated key | c]: one key head, whose tail is also the value. A head's
//! query is taken to where c is, q ↦ Uᵀq, before it meets the keys, and what comes out goes through V. That is done for
//! prompts and for single tokens alike, so both have the same bits.
//!
//! **Expanded**, each head's [rotated key | U c] and V c are kept, as files want that have U and V in one matrix.

use super::projection::Rotations;
use super::{AttentionWeights, Placed};
use crate::config::{AttentionConfig, Config, LatentConfig};
use crate::decoder::Pass;
use crate::error::LoadError;
use crate::layer::{Projections, block_linear};
use crate::matrix::{Experts, Linear, Matrix};
use crate::spec::Presence;
use crate::tensors::{Tensors, block_name};
use crate::workspace::{Acts, Workspace};
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use strata_kernels::{Product, TileMut, act_format};
use strata_platform::Chunks;

/// Heads whose matrices are multiplied in one go.
const TOGETHER: usize = 8;

impl LatentConfig {
    /// A head's queries, as the file has them: those that are not rotated, then those that are.
    fn query(&self) -> usize {
        self.plain + self.rotated
    }

    /// The width of c and the rotated key.
    fn kept(&self) -> usize {
        self.rank + self.rotated
    }

    /// The width of what the first matrices give.
    pub(crate) fn projected(&self, heads: usize) -> usize {
        self.query_rank.unwrap_or(heads * self.query()) + self.kept()
    }

    /// Floats for each token besides queries, keys and values and what the last matrix sees.
    pub(crate) fn spare(&self, config: &AttentionConfig) -> usize {
        let expanded = if self.compressed {
            0
        } else {
            config.heads * (self.plain + self.value)
        };
        self.projected(config.heads) + config.heads * self.query() + expanded + config.q_width()
    }
}

/// What a layer has besides the first matrices and the last.
#[derive(Clone, Debug)]
pub(crate) struct LatentWeights {
    config: LatentConfig,
    /// From a short vector to queries, and the norm of that vector.
    queries: Option<(Vec<f32>, Projections)>,
    /// Of c.
    norm: Vec<f32>,
    form: Form,
}

/// What makes keys and values.
#[derive(Clone, Debug)]
enum Form {
    /// Uᵀ and V of each head.
    Compressed { keys: Experts, values: Experts },
    /// U and V of each head, all in one.
    Expanded(Projections),
}

impl LatentWeights {
    pub(super) fn load(
        tensors: &mut Tensors<'_, '_>,
        (config, latent): (&AttentionConfig, &LatentConfig),
        layer: usize,
    ) -> Result<Self, LoadError> {
        let (heads, rank) = (config.heads, latent.rank);
        let name = |part| block_name(layer, part, "weight");
        let never = Presence::Never;
        let queries = match latent.query_rank {
            None => None,
            Some(rank) => {
                let norm = tensors.vector(&name("attn_q_a_norm"), &[rank as u64])?;
                let rows = heads * latent.query();
                let up = block_linear(tensors, layer, "attn_q_b", rank, rows, never)?;
                Some((norm, Projections(vec![up])))
            }
        };
        let norm = tensors.vector(&name("attn_kv_a_norm"), &[rank as u64])?;
        let form = if latent.compressed {
            Form::Compressed {
                keys: tensors.experts(&name("attn_k_b"), latent.plain, rank, heads)?,
                values: tensors.experts(&name("attn_v_b"), rank, latent.value, heads)?,
            }
        } else {
            let rows = heads * (latent.plain + latent.value);
            let both = block_linear(tensors, layer, "attn_kv_b", rank, rows, never)?;
            Form::Expanded(Projections(vec![both]))
        };
        Ok(Self {
            config: *latent,
            queries,
            norm,
            form,
        })
    }

    /// Its matrices.
    pub(crate) fn matrices(&self) -> impl Iterator<Item = &Matrix> {
        let queries = self.queries.iter().flat_map(|(_, up)| &up.0);
        let both: &[Linear] = match &self.form {
            Form::Compressed { .. } => &[],
            Form::Expanded(both) => &both.0,
        };
        queries.chain(both).map(|linear| &linear.matrix)
    }

    /// The matrices of one head, of which there are two for each.
    pub(crate) fn head_matrices(&self) -> Option<[&Matrix; 2]> {
        match &self.form {
            Form::Compressed { keys, values } => Some([&keys.0[0], &values.0[0]]),
            Form::Expanded(_) => None,
        }
    }
}

/// The first matrices.
pub(super) fn first(
    tensors: &mut Tensors<'_, '_>,
    model: &Config,
    (config, latent): (&AttentionConfig, &LatentConfig),
    layer: usize,
) -> Result<Projections, LoadError> {
    let mut linear =
        |name, rows| block_linear(tensors, layer, name, model.width, rows, Presence::Never);
    let queries = match latent.query_rank {
        Some(rank) => linear("attn_q_a", rank)?,
        None => linear("attn_q", config.heads * latent.query())?,
    };
    let kept = linear("attn_kv_a_mqa", latent.kept())?;
    Ok(Projections(vec![queries, kept]))
}

/// A part of each token's row.
#[derive(Copy, Clone)]
struct Part<'a> {
    floats: &'a [f32],
    stride: usize,
    offset: usize,
}

impl Part<'_> {
    fn get(&self, token: usize, range: Range<usize>) -> &[f32] {
        &self.floats[token * self.stride + self.offset..][range]
    }
}

impl Pass<'_> {
    /// Queries, keys and values of every token: `qkv` is (tokens, heads + 2 kv_heads, head_size). In a head, what is
    /// rotated comes first.
    pub(super) fn latent_qkv(
        &self,
        (weights, latent): (&AttentionWeights, &LatentWeights),
        input: &[f32],
        placed: Placed<'_>,
        (acts, spare): (&mut Acts, &mut [f32]),
        qkv: &mut [f32],
    ) {
        let (config, sizes) = (&weights.config, &latent.config);
        let kernels = self.compute.kernels;
        let stride = sizes.projected(config.heads);
        let (projected, rest) = spare.split_at_mut(self.tokens * stride);
        self.observe_all(&weights.qkv, input);
        self.project(&weights.qkv, acts, projected);
        self.adapt_all(&weights.qkv, input, projected);
        let kept = stride - sizes.kept();
        let epsilon = self.config.epsilon;
        self.compute.each_row(projected, stride, |_, row| {
            let (queries, kept) = row.split_at_mut(kept);
            if let Some((norm, _)) = &latent.queries {
                kernels.rms_norm_in_place(queries, Some(norm), epsilon);
            }
            kernels.rms_norm_in_place(&mut kept[..sizes.rank], Some(&latent.norm), epsilon);
        });
        let projected = &*projected;
        let (up, rest) = rest.split_at_mut(self.tokens * config.heads * sizes.query());
        let queries = match &latent.queries {
            None => Part {
                floats: projected,
                stride,
                offset: 0,
            },
            Some((_, matrix)) => {
                self.project_part(matrix, (projected, stride, 0), acts, up);
                Part {
                    floats: up,
                    stride: config.heads * sizes.query(),
                    offset: 0,
                }
            }
        };
        let kept = Part {
            floats: projected,
            stride,
            offset: kept,
        };
        match &latent.form {
            Form::Compressed { keys, .. } => {
                self.absorb(keys, (config, sizes), queries, acts, qkv);
                self.compute
                    .each_row(qkv, config.qkv_width(), |token, row| {
                        let (heads, keys) = row.split_at_mut(config.q_width());
                        copy_rotated(sizes, queries, token, config.head_size, heads);
                        keys[..sizes.rotated]
                            .copy_from_slice(kept.get(token, sizes.rank..sizes.kept()));
                        keys[sizes.rotated..sizes.kept()]
                            .copy_from_slice(kept.get(token, 0..sizes.rank));
                        self.turn(config, placed, token, &mut row[..config.qkv_width()]);
                    });
            }
            Form::Expanded(both) => {
                let each = sizes.plain + sizes.value;
                let expanded = &mut rest[..self.tokens * config.heads * each];
                let offset = kept.offset;
                self.project_part(both, (projected, stride, offset), acts, expanded);
                let expanded = &*expanded;
                self.compute
                    .each_row(qkv, config.qkv_width(), |token, row| {
                        let (heads, rest) = row.split_at_mut(config.q_width());
                        let (keys, values) = rest.split_at_mut(config.kv_width());
                        copy_rotated(sizes, queries, token, config.head_size, heads);
                        let own = &expanded[token * config.heads * each..][..config.heads * each];
                        let size = config.head_size;
                        for (head, both) in own.chunks_exact(each).enumerate() {
                            let query = head * sizes.query()..head * sizes.query() + sizes.plain;
                            heads[head * size + sizes.rotated..][..sizes.plain]
                                .copy_from_slice(queries.get(token, query));
                            let key = &mut keys[head * size..][..size];
                            key[..sizes.rotated]
                                .copy_from_slice(kept.get(token, sizes.rank..sizes.kept()));
                            key[sizes.rotated..].copy_from_slice(&both[..sizes.plain]);
                            let value = &mut values[head * size..][..size];
                            value[..sizes.value].copy_from_slice(&both[sizes.plain..]);
                            value[sizes.value..].fill(0.0);
                        }
                        self.turn(config, placed, token, row);
                    });
            }
        }
    }

    /// Rotates one token's queries and keys, and tempers its queries.
    fn turn(&self, config: &AttentionConfig, placed: Placed<'_>, token: usize, row: &mut [f32]) {
        let (queries, rest) = row.split_at_mut(config.q_width());
        let keys = &mut rest[..config.kv_width()];
        if let Some(Rotations { rope, floats }) = placed.rotations {
            let size = 2 * rope.pairs();
            let floats = &floats[token * size..][..size];
            for heads in [&mut *queries, keys] {
                self.rotate(rope, floats, config.head_size, heads);
            }
        }
        if let Some(temperature) = config.temperature {
            let position = placed.positions[token].position as f32;
            self.compute
                .kernels
                .scale(queries, temperature.at(position));
        }
    }

    /// Uᵀq of every head, behind where the rotated queries go.
    fn absorb(
        &self,
        keys: &Experts,
        (config, sizes): (&AttentionConfig, &LatentConfig),
        queries: Part<'_>,
        acts: &mut Acts,
        qkv: &mut [f32],
    ) {
        let input = |head: usize, token: usize| {
            let start = head * sizes.query();
            queries.get(token, start..start + sizes.plain)
        };
        let out = TileMut::from_slice(qkv, self.tokens, config.qkv_width());
        self.by_head(keys, input, acts, (out, sizes.rotated));
    }

    /// What goes into the last matrix, from what heads found: `mixed` is (tokens, heads, value).
    pub(super) fn latent_values(
        &self,
        (config, latent): (&AttentionConfig, &LatentWeights),
        found: &[f32],
        acts: &mut Acts,
        mixed: &mut [f32],
    ) {
        let (sizes, width) = (&latent.config, config.q_width());
        match &latent.form {
            Form::Compressed { values, .. } => {
                let input = |head: usize, token: usize| {
                    let start = token * width + head * config.head_size + sizes.rotated;
                    &found[start..][..sizes.rank]
                };
                let out = TileMut::from_slice(mixed, self.tokens, config.heads * sizes.value);
                self.by_head(values, input, acts, (out, 0));
            }
            Form::Expanded(_) => {
                let row = config.heads * sizes.value;
                self.compute.each_row(mixed, row, |token, out| {
                    let found = &found[token * width..][..width];
                    let heads = found.chunks_exact(config.head_size);
                    for (found, out) in heads.zip(out.chunks_exact_mut(sizes.value)) {
                        out.copy_from_slice(&found[..sizes.value]);
                    }
                });
            }
        }
    }

    /// Each head's matrix over its own input. Results come one after the other in `out`, each behind a gap.
    pub(in crate::mixer) fn by_head<'a>(
        &self,
        matrices: &Experts,
        input: impl Fn(usize, usize) -> &'a [f32] + Sync,
        acts: &mut Acts,
        (out, gap): (TileMut<'_>, usize),
    ) {
        let tokens = self.tokens;
        let Matrix {
            ty, columns, rows, ..
        } = matrices.0[0];
        let (format, kernels) = (act_format(ty), self.compute.kernels);
        let heads = matrices.0.len();
        let encoded = acts.rows_mut(format, columns, heads * tokens);
        let pieces = Chunks::new(encoded, format.row_bytes(columns));
        self.compute
            .each_piece(heads * tokens * columns, pieces, |row, out| {
                kernels.quantize_act(format, input(row / tokens, row % tokens), out);
            });
        let parts = acts.parts();
        let mut rest = Some(out);
        for (group, group_heads) in matrices.0.chunks(TOGETHER).enumerate() {
            let mut products: [Option<Product<'_>>; TOGETHER] = core::array::from_fn(|i| {
                let matrix = group_heads.get(i)?;
                let (_, after) = rest.take()?.split_rows(gap);
                let (out, after) = after.split_rows(rows);
                rest = Some(after);
                let head = group * TOGETHER + i;
                let inputs = head * tokens..(head + 1) * tokens;
                self.model.before(matrix);
                Some(Product {
                    weights: self.model.weights(matrix),
                    x: parts.rows.range(format, columns, inputs),
                    out,
                })
            });
            self.compute.multiply(&mut products, parts.scratch);
            group_heads
                .iter()
                .for_each(|matrix| self.model.after(matrix));
        }
    }

    /// Latent attention from a layer's encoded input to the encoded input of its last matrix, but for what happens
    /// between queries, keys and values and what heads find.
    pub(super) fn finish_latent(
        &self,
        (weights, latent): (&AttentionWeights, &LatentWeights),
        work: &mut Workspace,
    ) {
        let config = &weights.config;
        let width = weights.output.matrix.columns;
        let found = work.spare.len() - self.tokens * config.q_width();
        let mixed = &mut work.mixed[..self.tokens * width];
        let found = &work.spare[found..];
        self.latent_values((config, latent), found, &mut work.acts, mixed);
        let format = act_format(weights.output.matrix.ty);
        let encoded = work.acts.rows_mut(format, width, self.tokens);
        self.compute.encode(format, mixed, width, width, encoded);
    }
}

/// The rotated part of each head's query, to the beginning of the head.
fn copy_rotated(
    sizes: &LatentConfig,
    queries: Part<'_>,
    token: usize,
    head_size: usize,
    heads: &mut [f32],
) {
    for (head, out) in heads.chunks_exact_mut(head_size).enumerate() {
        let end = (head + 1) * sizes.query();
        out[..sizes.rotated].copy_from_slice(queries.get(token, end - sizes.rotated..end));
    }
}
