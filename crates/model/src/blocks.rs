//! Layers of attention and feed-forward networks over rows that are all there at once: what hears is made of them.

use crate::compute::Compute;
use crate::config::AttentionConfig;
use crate::error::LoadError;
use crate::layer::{self, NormWeights};
use crate::matrix::{Linear, Matrix};
use crate::mixer::attention::whole::{Attention, WholeBuffers, WholeLengths};
use crate::packed::PackedMatrices;
use crate::spare::Spare;
use crate::spec::{AttnGate, Norm, Presence};
use crate::tensors::Tensors;
use crate::workspace::TokenPosition;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use strata_kernels::{Activation, TileMut};

/// Attention and the norm beside it.
pub(crate) struct AttentionLayer {
    pub(crate) norm: NormWeights,
    pub(crate) query: Linear,
    pub(crate) key: Linear,
    pub(crate) value: Linear,
    pub(crate) output: Linear,
}

/// A feed-forward network and the norm beside it.
pub(crate) struct Network {
    pub(crate) norm: NormWeights,
    pub(crate) up: Linear,
    pub(crate) down: Linear,
}

/// Asks for the weights of blocks of one width.
pub(crate) struct BlockReader<'t, 'a, 'f> {
    pub(crate) tensors: &'t mut Tensors<'a, 'f>,
    pub(crate) width: usize,
}

impl BlockReader<'_, '_, '_> {
    /// A matrix and the bias that it may have.
    pub(crate) fn linear(
        &mut self,
        name: &str,
        columns: usize,
        rows: usize,
    ) -> Result<Linear, LoadError> {
        let matrix = self
            .tensors
            .matrix(&format!("{name}.weight"), columns, rows)?;
        self.with_bias(name, matrix)
    }

    /// The bias that a matrix may have.
    pub(crate) fn with_bias(&mut self, name: &str, matrix: Matrix) -> Result<Linear, LoadError> {
        let rows = matrix.rows as u64;
        let bias =
            self.tensors
                .maybe_vector(Presence::IfPresent, &format!("{name}.bias"), &[rows])?;
        Ok(Linear { matrix, bias })
    }

    /// A convolution three wide over `channels` channels.
    pub(crate) fn convolution(&mut self, name: &str, channels: usize) -> Result<Linear, LoadError> {
        let kernel = [3, channels as u64];
        let matrix = self
            .tensors
            .patch_matrix(&format!("{name}.weight"), &kernel, self.width)?;
        // Some converters write a column.
        let bias = format!("{name}.bias");
        if self.tensors.rows(&bias) == Some(self.width) && self.width > 1 {
            let column = [1, self.width as u64];
            let bias = Some(self.tensors.vector(&bias, &column)?);
            return Ok(Linear { matrix, bias });
        }
        self.with_bias(name, matrix)
    }

    /// A norm with a bias.
    pub(crate) fn norm(&mut self, name: &str) -> Result<NormWeights, LoadError> {
        layer::norm(self.tensors, Norm::LayerBias, name, self.width)
    }

    /// Attention whose norm and matrices have these names, in the order of the struct.
    pub(crate) fn attention(&mut self, names: [&str; 5]) -> Result<AttentionLayer, LoadError> {
        let width = self.width;
        let [norm, query, key, value, output] = names;
        Ok(AttentionLayer {
            norm: self.norm(norm)?,
            query: self.linear(query, width, width)?,
            key: self.linear(key, width, width)?,
            value: self.linear(value, width, width)?,
            output: self.linear(output, width, width)?,
        })
    }

    /// A network whose norm and matrices have these names.
    pub(crate) fn network(
        &mut self,
        [norm, up, down]: [&str; 3],
        inner: usize,
    ) -> Result<Network, LoadError> {
        let width = self.width;
        Ok(Network {
            norm: self.norm(norm)?,
            up: self.linear(up, width, inner)?,
            down: self.linear(down, inner, width)?,
        })
    }
}

/// Room for what a layer makes on its way.
pub(crate) struct Room {
    pub(crate) attention: WholeBuffers,
    pub(crate) spare: Spare,
}

/// Computes with a model's matrices.
#[derive(Copy, Clone)]
pub(crate) struct BlockPass<'a> {
    pub(crate) packed: &'a PackedMatrices,
    pub(crate) compute: &'a Compute<'a>,
    /// The epsilon of all norms.
    pub(crate) epsilon: f32,
}

impl BlockPass<'_> {
    pub(crate) fn linear(&self, linear: &Linear, input: &[f32]) -> Vec<f32> {
        self.linear_in(&mut Spare::default(), linear, input)
    }

    /// The same in a spare buffer.
    pub(crate) fn linear_in(&self, spare: &mut Spare, linear: &Linear, input: &[f32]) -> Vec<f32> {
        let tokens = input.len() / linear.matrix.columns;
        let mut out = spare.take(tokens * linear.matrix.rows);
        self.packed.linear(self.compute, linear, input, &mut out);
        out
    }

    pub(crate) fn norm(&self, weights: &NormWeights, x: &[f32]) -> Vec<f32> {
        self.norm_in(&mut Spare::default(), weights, x)
    }

    /// The same in a spare buffer.
    pub(crate) fn norm_in(&self, spare: &mut Spare, weights: &NormWeights, x: &[f32]) -> Vec<f32> {
        let mut out = spare.take(x.len());
        self.compute
            .norm(Norm::LayerBias, weights, self.epsilon, x, &mut out);
        out
    }

    /// x += linear over `input`.
    pub(crate) fn add_branch(
        &self,
        spare: &mut Spare,
        linear: &Linear,
        input: &[f32],
        x: &mut [f32],
    ) {
        let branch = self.linear_in(spare, linear, input);
        self.compute.add(x, &branch, linear.matrix.rows);
        spare.give(branch);
    }

    pub(crate) fn gelu(&self, x: &mut [f32], width: usize) {
        let kernels = self.compute.kernels;
        self.compute.each_row(x, width, |_, row| {
            kernels.activate(Activation::GeluErf, row);
        });
    }

    /// The feed-forward network of `input`, added to `x`.
    pub(crate) fn network(
        &self,
        spare: &mut Spare,
        network: &Network,
        input: &[f32],
        x: &mut [f32],
    ) {
        let mut hidden = self.linear_in(spare, &network.up, input);
        self.gelu(&mut hidden, network.up.matrix.rows);
        self.add_branch(spare, &network.down, &hidden, x);
        spare.give(hidden);
    }

    /// A convolution three wide over rows of `x`, and GELU: a row for each `stride` rows.
    pub(crate) fn convolve(
        &self,
        linear: &Linear,
        x: &[f32],
        channels: usize,
        stride: usize,
    ) -> Vec<f32> {
        let rows = x.len() / channels;
        let mut columns = vec![0.0; rows / stride * channels * 3];
        self.compute
            .each_row(&mut columns, channels * 3, |row, out| {
                for tap in 0..3 {
                    // Silence before the first row and after the last.
                    let place = (row * stride + tap).checked_sub(1);
                    let Some(place) = place.filter(|&place| place < rows) else {
                        continue;
                    };
                    let from = &x[place * channels..][..channels];
                    for (channel, &value) in from.iter().enumerate() {
                        out[channel * 3 + tap] = value;
                    }
                }
            });
        let mut out = self.linear(linear, &columns);
        self.gelu(&mut out, linear.matrix.rows);
        out
    }

    /// Attention of `input` among all its positions, added to `x`.
    pub(crate) fn attend(
        &self,
        layer: &AttentionLayer,
        (sizes, room): (&AttentionConfig, &mut Room),
        input: &[f32],
        x: &mut [f32],
    ) {
        let width = layer.query.matrix.rows;
        let tokens = input.len() / width;
        let Room { attention, spare } = room;
        let mut qkv = spare.take(3 * input.len());
        let linears = [&layer.query, &layer.key, &layer.value];
        let (queries, rest) = TileMut::from_slice(&mut qkv, tokens, 3 * width).split_rows(width);
        let (keys, values) = rest.split_rows(width);
        let parts = linears.iter().zip([queries, keys, values]);
        let parts = parts.map(|(linear, part)| (&linear.matrix, part));
        self.packed
            .multiply_each(self.compute, parts.collect(), input);
        let kernels = self.compute.kernels;
        self.compute.each_row(&mut qkv, 3 * width, |_, row| {
            for (linear, part) in linears.iter().zip(row.chunks_exact_mut(width)) {
                if let Some(bias) = &linear.bias {
                    kernels.add(part, bias);
                }
            }
        });
        let end = tokens as u32;
        let positions: Vec<TokenPosition> = (0..end)
            .map(|position| TokenPosition {
                span: 0,
                position,
                end,
            })
            .collect();
        let mut mixed = spare.take(input.len());
        Attention {
            compute: self.compute,
            config: sizes,
            positions: &positions,
            starts: &[0, end],
            qkv: &qkv,
            slopes: &[],
            buckets: None,
        }
        .run(attention, &mut mixed);
        self.add_branch(spare, &layer.output, &mixed, x);
        spare.give(mixed);
        spare.give(qkv);
    }
}

/// Attention of so many heads without positions.
pub(crate) fn attention_sizes(width: usize, heads: usize) -> AttentionConfig {
    let head_size = width / heads;
    AttentionConfig {
        heads,
        kv_heads: heads,
        head_size,
        window: None,
        chunked: false,
        rope: None,
        scale: 1.0 / libm::sqrtf(head_size as f32),
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

/// What layers over so many positions need room for.
pub(crate) fn room(sizes: &AttentionConfig, tokens: usize) -> Room {
    Room {
        attention: WholeBuffers::new(&WholeLengths::new(sizes, tokens)),
        spare: Spare::default(),
    }
}
