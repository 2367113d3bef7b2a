//! A tower's layers: attention and a feed-forward network, each added to what it reads.

use super::clamped::TowerLinear;
use super::pass::TowerPass;
use super::spec::{HeadNorm, TowerRope};
use super::weights::TowerLayer;
use crate::blocks::{self, Room};
use crate::config::AttentionConfig;
use crate::layer::NormWeights;
use crate::mixer::attention::whole::Attention;
use crate::spare::Spare;
use crate::spec::AttnGate;
use crate::workspace::TokenPosition;
use alloc::vec::Vec;
use strata_kernels::{RopeKind, TileMut};

/// What is done to a branch's result before it is added to what the branch read.
#[derive(Copy, Clone)]
struct Ending<'a> {
    norm: Option<&'a NormWeights>,
    scale: Option<&'a [f32]>,
}

impl TowerPass<'_> {
    /// All layers; gives what the text model's first layers are given.
    pub(super) fn layers(&self, x: &mut [f32]) -> Vec<Vec<f32>> {
        let config = &self.tower.config;
        let sizes = self.sizes();
        let tokens = x.len() / config.width;
        let mut room = blocks::room(&sizes, tokens);
        let rotations = self.rotations();
        let everything = [0, tokens as u32];
        let mut stacked = Vec::new();
        for (index, layer) in self.tower.weights.layers.iter().enumerate() {
            let starts = match config.windows {
                Some((_, every)) if !(index + 1).is_multiple_of(every) => &self.layout.windows[..],
                _ => &everything,
            };
            self.attention(layer, &sizes, (starts, &rotations), &mut room, x);
            self.network(layer, &mut room.spare, x);
            let own = self.tower.weights.stacked.iter();
            for own in own.filter(|own| own.layer == index) {
                stacked.push(self.stack(own, &x[self.classes * config.width..]));
            }
        }
        stacked
    }

    fn sizes(&self) -> AttentionConfig {
        let config = &self.tower.config;
        AttentionConfig {
            heads: config.heads,
            kv_heads: config.heads,
            head_size: config.head_size(),
            window: None,
            chunked: false,
            rope: None,
            scale: match self.tower.spec.head_norm {
                HeadNorm::None => 1.0 / libm::sqrtf(config.head_size() as f32),
                HeadNorm::All => 1.0,
            },
            soft_cap: None,
            alibi: None,
            buckets: None,
            temperature: None,
            clamp: None,
            gate: AttnGate::Never,
            latent: None,
            shares: None,
        }
    }

    /// Attention inside windows that begin at `starts`, added to `x`.
    fn attention(
        &self,
        layer: &TowerLayer,
        sizes: &AttentionConfig,
        (starts, rotations): (&[u32], &[f32]),
        room: &mut Room,
        x: &mut [f32],
    ) {
        let width = self.tower.config.width;
        let tokens = x.len() / width;
        let Room { attention, spare } = room;
        let normed = self.norm_in(spare, &layer.attn_norm, x);
        let mut qkv = spare.take(3 * x.len());
        let mut rest = TileMut::from_slice(&mut qkv, tokens, 3 * width);
        for linear in &layer.qkv {
            let matrix = &linear.linear.matrix;
            let (part, after) = rest.split_rows(matrix.rows);
            rest = after;
            self.multiply_into(matrix, &linear.input(&normed), part);
        }
        self.compute.each_row(&mut qkv, 3 * width, |token, row| {
            self.finish_heads(layer, sizes.head_size, row);
            if !rotations.is_empty() {
                let angles = 2 * (sizes.head_size / 2);
                let angles = &rotations[token * angles..][..angles];
                for head in row[..2 * width].chunks_exact_mut(sizes.head_size) {
                    self.rotate(head, angles);
                }
            }
        });
        let mut positions = Vec::with_capacity(tokens);
        for (span, pair) in starts.windows(2).enumerate() {
            let len = pair[1] - pair[0];
            positions.extend((0..len).map(|position| TokenPosition {
                span: span as u32,
                position,
                end: len,
            }));
        }
        spare.give(normed);
        let mut mixed = spare.take(x.len());
        Attention {
            compute: self.compute,
            config: sizes,
            positions: &positions,
            starts,
            qkv: &qkv,
            slopes: &[],
            buckets: None,
        }
        .run(attention, &mut mixed);
        spare.give(qkv);
        let ending = Ending {
            norm: layer.attn_post_norm.as_ref(),
            scale: layer.attn_scale.as_deref(),
        };
        self.add_branch(&layer.output, &mixed, (ending, &mut *spare), x);
        spare.give(mixed);
    }

    /// Adds biases to a token's queries, keys and values, keeps them within bounds and norms them.
    fn finish_heads(&self, layer: &TowerLayer, size: usize, row: &mut [f32]) {
        let kernels = self.compute.kernels;
        let mut rest = &mut *row;
        for linear in &layer.qkv {
            let (part, after) = rest.split_at_mut(linear.linear.matrix.rows);
            if let Some(bias) = &linear.linear.bias {
                kernels.add(part, bias);
            }
            linear.bound(part);
            rest = after;
        }
        let Some([queries, keys]) = &layer.head_norms else {
            return;
        };
        let epsilon = self.tower.config.epsilon;
        let width = self.tower.config.width;
        let norms = [Some(&queries[..]), Some(&keys[..]), None];
        for (part, weight) in row.chunks_exact_mut(width).zip(norms) {
            for head in part.chunks_exact_mut(size) {
                kernels.rms_norm_in_place(head, weight, epsilon);
            }
        }
    }

    /// Turns a head by cosines and sines.
    fn rotate(&self, head: &mut [f32], angles: &[f32]) {
        let kernels = self.compute.kernels;
        let (cosines, sines) = angles.split_at(angles.len() / 2);
        match self.tower.spec.rope {
            TowerRope::None => {}
            TowerRope::Halves => kernels.rope(head, cosines, sines, RopeKind::HalfSplit),
            TowerRope::Alternating | TowerRope::FromOne => {
                kernels.rope(head, cosines, sines, RopeKind::Interleaved);
            }
            TowerRope::Quarters => {
                let half = cosines.len() / 2;
                let (first, second) = head.split_at_mut(2 * half);
                kernels.rope(first, &cosines[..half], &sines[..half], RopeKind::HalfSplit);
                kernels.rope(
                    second,
                    &cosines[half..],
                    &sines[half..],
                    RopeKind::HalfSplit,
                );
            }
        }
    }

    /// The feed-forward network, added to `x`.
    fn network(&self, layer: &TowerLayer, spare: &mut Spare, x: &mut [f32]) {
        let config = &self.tower.config;
        let normed = self.norm_in(spare, &layer.ffn_norm, x);
        let (kernels, activation) = (self.compute.kernels, config.activation);
        let up = self.linear_in(spare, &layer.up, &normed);
        let hidden = match &layer.gate {
            None => {
                let mut hidden = up;
                self.compute.each_row(&mut hidden, config.ffn, |_, row| {
                    kernels.activate(activation, row);
                });
                hidden
            }
            Some(gate) => {
                let mut hidden = self.linear_in(spare, gate, &normed);
                self.compute
                    .each_row(&mut hidden, config.ffn, |token, row| {
                        let up = &up[token * config.ffn..][..config.ffn];
                        kernels.activate_mul(activation, row, up);
                    });
                spare.give(up);
                hidden
            }
        };
        spare.give(normed);
        let ending = Ending {
            norm: layer.ffn_post_norm.as_ref(),
            scale: layer.ffn_scale.as_deref(),
        };
        self.add_branch(&layer.down, &hidden, (ending, &mut *spare), x);
        spare.give(hidden);
    }

    /// x += scale · norm (linear over `input`).
    fn add_branch(
        &self,
        linear: &TowerLinear,
        input: &[f32],
        (ending, spare): (Ending<'_>, &mut Spare),
        x: &mut [f32],
    ) {
        let width = self.tower.config.width;
        let mut branch = self.linear_in(spare, linear, input);
        if let Some(norm) = ending.norm {
            let normed = self.norm_in(spare, norm, &branch);
            spare.give(core::mem::replace(&mut branch, normed));
        }
        if let Some(scale) = ending.scale {
            self.compute.each_row(&mut branch, width, |_, row| {
                self.compute.kernels.mul(row, scale);
            });
        }
        self.compute.add(x, &branch, width);
        spare.give(branch);
    }
}
