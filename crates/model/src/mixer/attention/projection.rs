//! Queries, keys and values from a layer's input.

use super::AttentionWeights;
use crate::config::AttentionConfig;
use crate::decoder::Pass;
use crate::embedded::{EmbeddedRun, axes};
use crate::layer::NormWeights;
use crate::model::Model;
use crate::rope::Rope;
use crate::spec::{AttnGate, Position, QkNorm, QkNormOrder, ValueNorm};
use crate::workspace::{Acts, TokenPosition};
use alloc::vec::Vec;
use strata_kernels::RopeKind;

/// A layer's rotations, and those of each token: (tokens, 2, pairs).
#[derive(Copy, Clone)]
pub(crate) struct Rotations<'a> {
    pub(crate) rope: &'a Rope,
    pub(crate) floats: &'a [f32],
}

/// Where a batch's tokens are.
#[derive(Copy, Clone)]
pub(crate) struct Placed<'a> {
    /// What a layer rotates by, if it does.
    pub(crate) rotations: Option<Rotations<'a>>,
    pub(crate) positions: &'a [TokenPosition],
}

impl Model {
    /// Writes what each RoPE turns a token by: `out` has a buffer for each.
    pub(crate) fn rotate(&self, position: usize, token: usize, out: &mut [Vec<f32>]) {
        for (rope, out) in self.parts.ropes.iter().zip(out) {
            let size = 2 * rope.pairs();
            rope.write(position, &mut out[token * size..][..size]);
        }
    }

    /// The same for a token of a sequence with images, whose positions have axes where the model's rotations do.
    pub(crate) fn rotate_axes(
        &self,
        runs: &[EmbeddedRun],
        position: usize,
        token: usize,
        out: &mut [Vec<f32>],
    ) {
        if runs.is_empty() {
            return self.rotate(position, token, out);
        }
        let places = axes(runs, position);
        for (rope, out) in self.parts.ropes.iter().zip(out) {
            let size = 2 * rope.pairs();
            let out = &mut out[token * size..][..size];
            if rope.has_axes() {
                rope.write_axes(places, out);
            } else {
                rope.write(position, out);
            }
        }
    }
}

impl Pass<'_> {
    /// What a layer rotates by, if it does.
    pub(crate) fn rotations<'a>(
        &'a self,
        config: &AttentionConfig,
        floats: &'a [Vec<f32>],
    ) -> Option<Rotations<'a>> {
        let index = config.rope?;
        Some(Rotations {
            rope: &self.model.parts.ropes[index],
            floats: &floats[index],
        })
    }

    /// Projects every token's encoded input, norms queries and keys, and rotates them: `qkv` is
    /// (tokens, heads + 2 kv_heads, head_size).
    pub(crate) fn queries_keys_values(
        &self,
        weights: &AttentionWeights,
        input: &[f32],
        placed: Placed<'_>,
        (acts, spare): (&mut Acts, &mut [f32]),
        qkv: &mut [f32],
    ) {
        let Placed {
            rotations,
            positions,
        } = placed;
        let (config, compute) = (&weights.config, self.compute);
        self.observe_all(&weights.qkv, input);
        if config.gate == AttnGate::WithQueries {
            let projected = &mut spare[..qkv.len()];
            self.project(&weights.qkv, acts, projected);
            self.adapt_all(&weights.qkv, input, projected);
            self.part_gates(config, projected, qkv);
        } else {
            self.project(&weights.qkv, acts, qkv);
            self.adapt_all(&weights.qkv, input, qkv);
        }
        compute.each_row(qkv, config.qkv_width(), |token, row| {
            weights.qkv.add_biases(compute.kernels, row);
            if let Some(limit) = config.clamp {
                compute.kernels.clamp(row, limit);
            }
            let (q, rest) = row.split_at_mut(config.q_width());
            let kv = if config.shares.is_some() {
                0
            } else {
                config.kv_width()
            };
            let (k, rest) = rest.split_at_mut(kv);
            if self.config.spec.value_norm == ValueNorm::Plain {
                for head in rest[..kv].chunks_exact_mut(config.head_size) {
                    let epsilon = self.config.epsilon;
                    compute.kernels.rms_norm_in_place(head, None, epsilon);
                }
            }
            let order = self.config.spec.qk_norm_order;
            for (heads, norm) in [(&mut *q, &weights.q_norm), (k, &weights.k_norm)] {
                let norm = |heads: &mut [f32], now: QkNormOrder| {
                    if let Some(norm) = norm.as_ref().filter(|_| order == now) {
                        self.norm_heads(norm, config.head_size, heads);
                    }
                };
                norm(heads, QkNormOrder::BeforeRope);
                if let Some(Rotations { rope, floats }) = rotations {
                    let size = 2 * rope.pairs();
                    let floats = &floats[token * size..][..size];
                    self.rotate(rope, floats, config.head_size, heads);
                }
                norm(heads, QkNormOrder::AfterRope);
            }
            if let Some(temperature) = config.temperature {
                let position = positions[token].position as f32;
                compute.kernels.scale(q, temperature.at(position));
            }
        });
    }

    /// Brings rows in which each head's gate comes after its queries into the usual order: queries, keys, values, gates.
    fn part_gates(&self, config: &AttentionConfig, from: &[f32], to: &mut [f32]) {
        let (size, q, kv) = (config.head_size, config.q_width(), config.kv_width());
        self.compute.each_row(to, config.qkv_width(), |token, to| {
            let from = &from[token * config.qkv_width()..][..config.qkv_width()];
            let (both, rest) = from.split_at(2 * q);
            let (queries, others) = to.split_at_mut(q);
            let (keys_values, gates) = others.split_at_mut(2 * kv);
            keys_values.copy_from_slice(rest);
            for (head, both) in both.chunks_exact(2 * size).enumerate() {
                queries[head * size..][..size].copy_from_slice(&both[..size]);
                gates[head * size..][..size].copy_from_slice(&both[size..]);
            }
        });
    }

    /// Norms queries or keys of one token, each head or all together.
    fn norm_heads(&self, norm: &NormWeights, head_size: usize, heads: &mut [f32]) {
        let spec = self.config.spec;
        let (kernels, epsilon) = (self.compute.kernels, self.config.epsilon);
        let size = match spec.qk_norm {
            QkNorm::Whole | QkNorm::WholeIfPresent => heads.len(),
            _ => head_size,
        };
        for (i, head) in heads.chunks_exact_mut(size).enumerate() {
            let range = match spec.qk_norm {
                QkNorm::PerHeadOwnIfPresent => i * size..(i + 1) * size,
                _ => 0..size,
            };
            let weight = Some(&norm.weight[range.clone()]);
            let bias = norm.bias.as_deref().map(|bias| &bias[range]);
            if spec.norm.is_rms() {
                kernels.rms_norm_in_place(head, weight, epsilon);
            } else {
                kernels.layer_norm_in_place(head, weight, bias, epsilon);
            }
        }
    }

    pub(super) fn rotate(
        &self,
        rope: &Rope,
        rotations: &[f32],
        head_size: usize,
        heads: &mut [f32],
    ) {
        let kind = match self.config.spec.position {
            Position::RopeInterleaved | Position::AlibiAtLayers(_) => RopeKind::Interleaved,
            Position::RopeHalfSplit => RopeKind::HalfSplit,
            Position::None
            | Position::Learned
            | Position::Alibi
            | Position::AlibiOrLearned
            | Position::Buckets => return,
        };
        let (cosines, sines) = rotations.split_at(rope.pairs());
        for head in heads.chunks_exact_mut(head_size) {
            let turned = &mut head[..2 * rope.pairs()];
            self.compute.kernels.rope(turned, cosines, sines, kind);
        }
    }
}
