//! A short convolution (LFM2, <https://arxiv.org/abs/2511.23404>): out(C ⊙ conv(B ⊙ x)), where B, C and x are projections
//! of a layer's input and conv sums each channel over the last few positions.

use super::convolution::{Columns, ConvShape, ConvWeights};
use crate::config::ShortConvConfig;
use crate::decoder::Pass;
use crate::error::LoadError;
use crate::layer::{Projections, block_linear};
use crate::matrix::Linear;
use crate::pages::PagesMut;
use crate::spec::Presence;
use crate::tensors::Tensors;
use crate::workspace::Workspace;
use alloc::vec;
use strata_kernels::act_format;
use strata_platform::Chunks;

impl ShortConvConfig {
    /// The width of B, C and x together.
    pub(crate) fn projected(&self) -> usize {
        3 * self.channels
    }

    /// What is summed: B ⊙ x, which takes the place of B.
    pub(crate) fn conv(&self) -> ConvShape {
        ConvShape {
            before: 0,
            stride: self.projected(),
            offset: 0,
            channels: self.channels,
            taps: self.taps,
        }
    }
}

/// One layer's weights.
#[derive(Clone, Debug)]
pub(crate) struct ShortConvWeights {
    pub(crate) config: ShortConvConfig,
    /// B, C and x, in one matrix.
    pub(crate) input: Projections,
    conv: ConvWeights,
    pub(crate) output: Linear,
}

impl ShortConvWeights {
    pub(crate) fn load(
        tensors: &mut Tensors<'_, '_>,
        config: &ShortConvConfig,
        layer: usize,
    ) -> Result<Self, LoadError> {
        let channels = config.channels;
        let mut linear =
            |name, rows| block_linear(tensors, layer, name, channels, rows, Presence::Never);
        let input = linear("shortconv.in_proj", config.projected())?;
        let output = linear("shortconv.out_proj", channels)?;
        let (name, bias) = ("shortconv.conv", Presence::Never);
        Ok(Self {
            config: *config,
            input: Projections(vec![input]),
            conv: ConvWeights::load(tensors, config.conv(), layer, name, bias)?,
            output,
        })
    }
}

impl Pass<'_> {
    /// A short convolution, from a layer's encoded input to the encoded input of its last matrix.
    pub(super) fn short_conv(
        &self,
        layer: usize,
        weights: &ShortConvWeights,
        pages: &mut PagesMut<'_>,
        work: &mut Workspace,
    ) {
        let Self {
            compute, tokens, ..
        } = *self;
        let config = weights.config;
        let (channels, shape) = (config.channels, config.conv());
        let projected = &mut work.projected[..tokens * config.projected()];
        self.observe_all(&weights.input, &work.normed);
        self.project(&weights.input, &mut work.acts, projected);
        self.adapt_all(&weights.input, &work.normed, projected);
        compute.each_row(projected, config.projected(), |_, row| {
            let (b, rest) = row.split_at_mut(channels);
            compute.kernels.mul(b, &rest[channels..]);
        });
        let states = &mut work.states[..tokens * shape.state_floats()];
        self.read_columns(layer, shape, pages.storage, states);
        let columns = Columns {
            shape,
            rows: projected,
            states,
        };

        let format = act_format(weights.output.matrix.ty);
        let encoded = work.acts.rows_mut(format, channels, tokens);
        let pieces = (
            Chunks::new(&mut work.mixed[..tokens * channels], channels),
            Chunks::new(encoded, format.row_bytes(channels)),
        );
        let positions = &work.positions;
        compute.each_piece(tokens * channels, pieces, |token, (out, encoded)| {
            let seen = columns.seen(token, self.place(positions[token]));
            let gate = &columns.rows[token * config.projected() + channels..][..channels];
            let kernels = compute.kernels;
            let taps = weights.conv.taps(0..channels);
            let taps = &taps[..shape.taps];
            kernels.short_conv(taps, &seen[..shape.taps], Some(gate), out);
            kernels.quantize_act(format, out, encoded);
        });
        self.write_columns(layer, &columns, pages.storage);
    }
}
