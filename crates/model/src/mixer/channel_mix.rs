//! RWKV's feed-forward network: what it sees mixes with the token before, and a second matrix may gate its result.

use super::convolution::{Columns, ConvShape};
use crate::decoder::Pass;
use crate::error::LoadError;
use crate::layer::{Projections, projection};
use crate::pages::PagesMut;
use crate::tensors::{Tensors, block_name};
use crate::workspace::Workspace;
use alloc::vec::Vec;
use strata_kernels::Activation;

/// Floats for each token besides hidden ones: a mixed input, and what gates.
pub(crate) fn spare(width: usize) -> usize {
    2 * width
}

/// One layer's weights.
#[derive(Clone, Debug)]
pub(crate) struct ChannelMixWeights {
    width: usize,
    /// How much of the token before goes into `key`'s input.
    lerp: Vec<f32>,
    pub(crate) key: Projections,
    pub(crate) value: Projections,
    /// What gates, and how much of the token before it sees.
    pub(crate) receptance: Option<(Vec<f32>, Projections)>,
}

impl ChannelMixWeights {
    pub(crate) fn load(
        tensors: &mut Tensors<'_, '_>,
        (width, ffn): (usize, usize),
        layer: usize,
    ) -> Result<Self, LoadError> {
        let shape = &[width as u64];
        let name = |part| block_name(layer, part, "weight");
        let gated = tensors.has(&name("channel_mix_receptance"));
        let lerp = tensors.vector(&name("channel_mix_lerp_k"), shape)?;
        let key = projection(tensors, layer, "channel_mix_key", (width, ffn))?;
        let value = projection(tensors, layer, "channel_mix_value", (ffn, width))?;
        let receptance = if gated {
            let lerp = tensors.vector(&name("channel_mix_lerp_r"), shape)?;
            let name = "channel_mix_receptance";
            let matrix = projection(tensors, layer, name, (width, width))?;
            Some((lerp, matrix))
        } else {
            None
        };
        Ok(Self {
            width,
            lerp,
            key,
            value,
            receptance,
        })
    }

    /// The token before, which is kept behind that of the mixer.
    fn shift(&self) -> ConvShape {
        ConvShape {
            before: self.width,
            stride: self.width,
            offset: 0,
            channels: self.width,
            taps: 2,
        }
    }
}

impl Pass<'_> {
    /// The network, from `normed` into `branch`.
    pub(crate) fn channel_mix(
        &self,
        layer: usize,
        weights: &ChannelMixWeights,
        pages: &mut PagesMut<'_>,
        work: &mut Workspace,
    ) {
        let (tokens, width) = (self.tokens, weights.width);
        let (floats, ffn) = (tokens * width, weights.key.rows());
        let (kernels, shift) = (self.compute.kernels, weights.shift());
        self.read_columns(layer, shift, pages.storage, &mut work.states);
        let columns = Columns {
            shape: shift,
            rows: &work.normed[..floats],
            states: &work.states,
        };
        let (mixed, rest) = work.spare.split_at_mut(floats);
        let gate = &mut rest[..floats];
        let positions = &work.positions;
        let lerp = |lerp: &[f32], out: &mut [f32]| {
            self.compute.each_row(out, width, |token, out| {
                let [before, x, ..] = columns.seen(token, self.place(positions[token]));
                for (i, out) in out.iter_mut().enumerate() {
                    *out = x[i] + (before[i] - x[i]) * lerp[i];
                }
            });
        };
        if let Some((share, matrix)) = &weights.receptance {
            lerp(share, mixed);
            self.project_rows(matrix, mixed, &mut work.acts, gate);
            self.compute.each_row(gate, width, |_, row| {
                kernels.activate(Activation::Sigmoid, row);
            });
        }
        lerp(&weights.lerp, mixed);
        let hidden = &mut work.ffn[..tokens * ffn];
        self.project_rows(&weights.key, mixed, &mut work.acts, hidden);
        self.compute.each_row(hidden, ffn, |_, row| {
            kernels.activate(Activation::ReluSquared, row);
        });
        let branch = &mut work.branch[..floats];
        self.project_rows(&weights.value, hidden, &mut work.acts, branch);
        if weights.receptance.is_some() {
            self.compute.each_row(branch, width, |token, row| {
                kernels.mul(row, &gate[token * width..][..width]);
            });
        }
        self.write_columns(layer, &columns, pages.storage);
    }
}
