//! `embed`: from pixels to embeddings, through every layer.

use super::patches::{Layout, Place};
use super::spec::TowerPosition;
use super::weights::{Tower, TowerLayer};
use super::{TowerError, TowerImage, TowerRows};
use crate::compute::Compute;
use crate::config::AttentionConfig;
use crate::layer::NormWeights;
use crate::matrix::{Linear, Matrix};
use crate::mixer::attention::whole::{self, Attention};
use crate::spec::AttnGate;
use crate::workspace::{EncoderBuffers, TokenPosition};
use alloc::vec;
use alloc::vec::Vec;
use strata_kernels::{RopeKind, TileMut, pow, sin_cos};

impl Tower {
    /// Embeds an image, or a tile of one. The rows come in the order of the grid, row by row.
    pub fn embed(
        &self,
        compute: &Compute<'_>,
        image: TowerImage<'_>,
    ) -> Result<TowerRows, TowerError> {
        let layout = Layout::new(&self.config, image)?;
        let pass = TowerPass {
            tower: self,
            compute,
            layout: &layout,
            classes: usize::from(self.weights.class.is_some()),
        };
        let mut x = pass.embed_patches(image);
        if let Some(norm) = &self.weights.pre_norm {
            x = pass.norm(norm, &x);
        }
        pass.layers(&mut x);
        x.drain(..pass.classes * self.config.width);
        if let Some(norm) = &self.weights.post_norm {
            x = pass.norm(norm, &x);
        }
        let rows = pass.project(x);
        Ok(TowerRows {
            rows,
            grid: layout.grid,
        })
    }
}

/// An image on its way through a tower.
pub(super) struct TowerPass<'a> {
    pub(super) tower: &'a Tower,
    pub(super) compute: &'a Compute<'a>,
    pub(super) layout: &'a Layout,
    /// Vectors before the patches.
    classes: usize,
}

impl TowerPass<'_> {
    /// Patches and their positions: (classes + patches, width).
    fn embed_patches(&self, image: TowerImage<'_>) -> Vec<f32> {
        let (config, weights) = (&self.tower.config, &self.tower.weights);
        let (kernels, width) = (self.compute.kernels, config.width);
        let pixels = self.layout.pixels(image, config.patch_size);
        let mut patches = vec![0.0; self.layout.patches.len() * width];
        for (frame, matrix) in weights.patch.iter().enumerate() {
            if frame == 0 {
                self.multiply(matrix, &pixels, &mut patches);
            } else {
                let mut more = vec![0.0; patches.len()];
                self.multiply(matrix, &pixels, &mut more);
                self.compute.add(&mut patches, &more, width);
            }
        }
        let mut x = weights.class.clone().unwrap_or_default();
        x.extend_from_slice(&patches);
        let side = config.image_size / config.patch_size;
        self.compute.each_row(&mut x, width, |token, row| {
            let place = token.checked_sub(self.classes);
            if place.is_some()
                && let Some(bias) = &weights.patch_bias
            {
                kernels.add(row, bias);
            }
            if !weights.position.is_empty() {
                let index = place.map_or(token, |patch| {
                    let (row, column) = self.layout.patches[patch];
                    self.classes + row * side + column
                });
                kernels.add(row, &weights.position[index * width..][..width]);
            }
        });
        x
    }

    fn layers(&self, x: &mut [f32]) {
        let config = &self.tower.config;
        let sizes = AttentionConfig {
            heads: config.heads,
            kv_heads: config.heads,
            head_size: config.head_size(),
            window: None,
            chunked: false,
            rope: None,
            scale: 1.0 / libm::sqrtf(config.head_size() as f32),
            soft_cap: None,
            alibi: None,
            buckets: None,
            temperature: None,
            clamp: None,
            gate: AttnGate::Never,
            latent: None,
            shares: None,
        };
        let tokens = x.len() / config.width;
        let floats = whole::query_floats(&sizes, tokens);
        let stored = whole::stored_bytes(&sizes, tokens);
        let mut buffers = EncoderBuffers {
            queries: vec![0.0; floats],
            keys: vec![0; stored],
            values: vec![0; stored],
            attended: vec![0.0; floats],
            ..EncoderBuffers::default()
        };
        let rotations = self.rotations();
        let everything = [0, tokens as u32];
        for (index, layer) in self.tower.weights.layers.iter().enumerate() {
            let starts = match config.windows {
                Some((_, every)) if !(index + 1).is_multiple_of(every) => &self.layout.windows[..],
                _ => &everything,
            };
            self.attention(layer, &sizes, (starts, &rotations), &mut buffers, x);
            self.network(layer, x);
        }
    }

    /// Attention inside windows that begin at `starts`, added to `x`.
    fn attention(
        &self,
        layer: &TowerLayer,
        sizes: &AttentionConfig,
        (starts, rotations): (&[u32], &[f32]),
        buffers: &mut EncoderBuffers,
        x: &mut [f32],
    ) {
        let width = self.tower.config.width;
        let tokens = x.len() / width;
        let normed = self.norm(&layer.attn_norm, x);
        let mut qkv = vec![0.0; 3 * x.len()];
        let mut rest = TileMut::from_slice(&mut qkv, tokens, 3 * width);
        for linear in &layer.qkv {
            let (part, after) = rest.split_rows(linear.matrix.rows);
            rest = after;
            self.multiply_into(&linear.matrix, &normed, part);
        }
        let kernels = self.compute.kernels;
        let angles = 2 * (sizes.head_size / 2);
        let kind = match self.tower.spec.position {
            TowerPosition::RopeAlternating => RopeKind::Interleaved,
            TowerPosition::Learned | TowerPosition::RopeHalves => RopeKind::HalfSplit,
        };
        self.compute.each_row(&mut qkv, 3 * width, |token, row| {
            let mut rest = &mut *row;
            for linear in &layer.qkv {
                let (part, after) = rest.split_at_mut(linear.matrix.rows);
                if let Some(bias) = &linear.bias {
                    kernels.add(part, bias);
                }
                rest = after;
            }
            if !rotations.is_empty() {
                let angles = &rotations[token * angles..][..angles];
                let (cosines, sines) = angles.split_at(angles.len() / 2);
                for head in row[..2 * width].chunks_exact_mut(sizes.head_size) {
                    kernels.rope(head, cosines, sines, kind);
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
        let mut mixed = vec![0.0; x.len()];
        Attention {
            compute: self.compute,
            config: sizes,
            positions: &positions,
            starts,
            qkv: &qkv,
            slopes: &[],
            buckets: None,
        }
        .run(buffers, &mut mixed);
        let scale = layer.attn_scale.as_deref();
        self.add_branch(&layer.output, &mixed, scale, x);
    }

    /// The feed-forward network, added to `x`.
    fn network(&self, layer: &TowerLayer, x: &mut [f32]) {
        let config = &self.tower.config;
        let tokens = x.len() / config.width;
        let normed = self.norm(&layer.ffn_norm, x);
        let mut hidden = vec![0.0; tokens * config.ffn];
        self.linear(&layer.up, &normed, &mut hidden);
        let (kernels, activation) = (self.compute.kernels, config.activation);
        match &layer.gate {
            None => self.compute.each_row(&mut hidden, config.ffn, |_, row| {
                kernels.activate(activation, row);
            }),
            Some(gate) => {
                let up = core::mem::replace(&mut hidden, vec![0.0; tokens * config.ffn]);
                self.linear(gate, &normed, &mut hidden);
                self.compute
                    .each_row(&mut hidden, config.ffn, |token, row| {
                        let up = &up[token * config.ffn..][..config.ffn];
                        kernels.activate_mul(activation, row, up);
                    });
            }
        }
        self.add_branch(&layer.down, &hidden, layer.ffn_scale.as_deref(), x);
    }

    /// x += scale · (linear over `input`).
    fn add_branch(&self, linear: &Linear, input: &[f32], scale: Option<&[f32]>, x: &mut [f32]) {
        let width = self.tower.config.width;
        let mut branch = vec![0.0; x.len()];
        self.linear(linear, input, &mut branch);
        if let Some(scale) = scale {
            self.compute.each_row(&mut branch, width, |_, row| {
                self.compute.kernels.mul(row, scale);
            });
        }
        self.compute.add(x, &branch, width);
    }

    /// What each patch's heads are turned by: cosines, then sines. Nothing where positions are learned.
    fn rotations(&self) -> Vec<f32> {
        let config = &self.tower.config;
        let pairs = config.head_size() / 2;
        let alternating = match self.tower.spec.position {
            TowerPosition::Learned => return Vec::new(),
            TowerPosition::RopeHalves => false,
            TowerPosition::RopeAlternating => true,
        };
        let half = pairs / 2;
        let frequency = |pair: usize| {
            let own = pair % half;
            let exponent = if alternating {
                (2 * own + pair / half) as f64 / pairs as f64
            } else {
                own as f64 / half as f64
            };
            pow(f64::from(config.rope_base), -exponent)
        };
        let frequencies: Vec<f64> = (0..pairs).map(frequency).collect();
        let angle = |(row, column): Place, pair: usize| {
            let place = if pair < half { row } else { column };
            sin_cos(frequencies[pair] * place as f64)
        };
        let patches = self.layout.patches.iter();
        patches
            .flat_map(|&place| {
                let angles = (0..pairs).map(move |pair| (place, pair));
                let cosines = angles.clone().map(|(place, pair)| angle(place, pair).1);
                cosines.chain(angles.map(|(place, pair)| angle(place, pair).0))
            })
            .collect()
    }

    /// Norms each row.
    pub(super) fn norm(&self, weights: &NormWeights, x: &[f32]) -> Vec<f32> {
        let mut out = vec![0.0; x.len()];
        let (kind, epsilon) = (self.tower.spec.norm, self.tower.config.epsilon);
        self.compute.norm(kind, weights, epsilon, x, &mut out);
        out
    }

    /// A matrix and its bias, over rows of `input`.
    pub(super) fn linear(&self, linear: &Linear, input: &[f32], out: &mut [f32]) {
        self.tower.packed.linear(self.compute, linear, input, out);
    }

    /// A matrix over rows of `input`.
    pub(super) fn multiply(&self, matrix: &Matrix, input: &[f32], out: &mut [f32]) {
        let tokens = input.len() / matrix.columns;
        self.multiply_into(matrix, input, TileMut::from_slice(out, tokens, matrix.rows));
    }

    fn multiply_into(&self, matrix: &Matrix, input: &[f32], out: TileMut<'_>) {
        self.tower.packed.multiply(self.compute, matrix, input, out);
    }
}
