//! A short convolution (LFM2, <https://arxiv.org/abs/2511.23404>): out(C ⊙ conv(B ⊙ x)), where B, C and x are projections
//! of a layer's input and conv sums each channel over the last few positions.
//!
//! A sequence's state are B ⊙ x at the positions that the next token's convolution sees, as f32, the oldest first; zeros
//! stand before the first position. It does not depend on how the sequence was cut into batches.

use crate::config::ShortConvConfig;
use crate::decoder::Pass;
use crate::error::LoadError;
use crate::layer::{Projections, block_linear};
use crate::matrix::Linear;
use crate::pages::{PageStorage, PagesMut};
use crate::spec::Presence;
use crate::tensors::{Tensors, block_name};
use crate::workspace::{TokenPosition, Workspace};
use alloc::vec;
use alloc::vec::Vec;
use strata_kernels::act_format;
use strata_platform::Chunks;

/// The longest convolution, in positions.
pub(crate) const MAX_TAPS: usize = 16;

impl ShortConvConfig {
    /// The width of B, C and x together.
    pub(crate) fn projected(&self) -> usize {
        3 * self.channels
    }

    /// Positions of a sequence's state.
    fn kept(&self) -> usize {
        self.taps - 1
    }

    /// Floats of a sequence's state.
    pub(crate) fn state_floats(&self) -> usize {
        self.kept() * self.channels
    }

    /// Bytes of a sequence's state.
    pub(crate) fn state_bytes(&self) -> usize {
        self.state_floats() * size_of::<f32>()
    }
}

/// One layer's weights.
#[derive(Clone, Debug)]
pub(crate) struct ShortConvWeights {
    pub(crate) config: ShortConvConfig,
    /// B, C and x, in one matrix.
    pub(crate) input: Projections,
    /// (positions, channels), the oldest position first.
    pub(crate) taps: Vec<f32>,
    pub(crate) output: Linear,
}

impl ShortConvWeights {
    pub(crate) fn load(
        tensors: &mut Tensors<'_, '_>,
        config: &ShortConvConfig,
        layer: usize,
    ) -> Result<Self, LoadError> {
        let (channels, taps) = (config.channels, config.taps);
        let mut linear =
            |name, rows| block_linear(tensors, layer, name, channels, rows, Presence::Never);
        let input = linear("shortconv.in_proj", config.projected())?;
        let output = linear("shortconv.out_proj", channels)?;
        let by_channel = tensors.vector(
            &block_name(layer, "shortconv.conv", "weight"),
            &[taps as u64, channels as u64],
        )?;
        let mut by_position = vec![0.0; by_channel.len()];
        for (channel, own) in by_channel.chunks_exact(taps).enumerate() {
            for (position, &tap) in own.iter().enumerate() {
                by_position[position * channels + channel] = tap;
            }
        }
        Ok(Self {
            config: *config,
            input: Projections(vec![input]),
            taps: by_position,
            output,
        })
    }
}

/// B ⊙ x of a batch's tokens, and what their spans kept of the positions before.
struct Columns<'a> {
    config: ShortConvConfig,
    /// (tokens, 3, channels); B ⊙ x comes first.
    projected: &'a [f32],
    /// (tokens, kept, channels), of which each span's first token has its own.
    states: &'a [f32],
}

impl<'a> Columns<'a> {
    /// The column at a place of the span whose first token is `first`; those before the span count from −1 down.
    fn get(&self, first: usize, place: isize) -> &'a [f32] {
        let ShortConvConfig { channels, .. } = self.config;
        let (floats, start) = match usize::try_from(place) {
            Ok(place) => (self.projected, (first + place) * self.config.projected()),
            Err(_) => {
                let kept = self.config.kept();
                let row = first * kept + kept - place.unsigned_abs();
                (self.states, row * channels)
            }
        };
        &floats[start..][..channels]
    }
}

impl Pass<'_> {
    /// A short convolution, from a layer's encoded input to the encoded input of its last matrix.
    pub(super) fn convolve(
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
        let ShortConvConfig { channels, taps } = config;
        let projected = &mut work.projected[..tokens * config.projected()];
        self.observe_all(&weights.input, &work.normed);
        self.project(&weights.input, &mut work.acts, projected);
        self.adapt_all(&weights.input, &work.normed, projected);
        compute.each_row(projected, config.projected(), |_, row| {
            let (b, rest) = row.split_at_mut(channels);
            compute.kernels.mul(b, &rest[channels..]);
        });
        let states = &mut work.states[..tokens * config.state_floats()];
        self.read_states(layer, config, pages.storage, states);
        let columns = Columns {
            config,
            projected,
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
            let TokenPosition { span, position } = positions[token];
            let place = position as usize - self.batch[span as usize].sequence.len();
            let mut seen: [&[f32]; MAX_TAPS] = [&[]; MAX_TAPS];
            for (k, column) in seen[..taps].iter_mut().enumerate() {
                let back = (taps - 1 - k) as isize;
                *column = columns.get(token - place, place as isize - back);
            }
            let gate = &columns.projected[token * config.projected() + channels..][..channels];
            let kernels = compute.kernels;
            kernels.short_conv(&weights.taps, &seen[..taps], gate, out);
            kernels.quantize_act(format, out, encoded);
        });
        self.write_states(layer, &columns, pages.storage);
    }

    /// The states of all spans, each where its first token is: (tokens, kept, channels).
    fn read_states(
        &self,
        layer: usize,
        config: ShortConvConfig,
        storage: &PageStorage,
        out: &mut [f32],
    ) {
        let mut first = 0;
        for span in self.batch.iter().filter(|span| !span.tokens.is_empty()) {
            let out = &mut out[first * config.state_floats()..][..config.state_floats()];
            match span.sequence.state() {
                // Before the first position a state is empty, whatever its bytes are.
                Some(state) if !span.sequence.is_empty() => {
                    let bytes = storage.layer_state(state, layer);
                    for (out, bytes) in out.iter_mut().zip(bytes.as_chunks().0) {
                        *out = f32::from_le_bytes(*bytes);
                    }
                }
                _ => out.fill(0.0),
            }
            first += span.tokens.len();
        }
    }

    /// Leaves every sequence the columns that its next token sees.
    fn write_states(&self, layer: usize, columns: &Columns<'_>, storage: &mut PageStorage) {
        let ShortConvConfig { channels, .. } = columns.config;
        let kept = columns.config.kept() as isize;
        let mut first = 0;
        for span in self.batch.iter().filter(|span| !span.tokens.is_empty()) {
            let tokens = span.tokens.len();
            if let Some(state) = span.sequence.state() {
                let bytes = storage.layer_state_mut(state, layer);
                let rows = bytes.chunks_exact_mut(channels * size_of::<f32>());
                for (row, bytes) in (0..kept).zip(rows) {
                    let column = columns.get(first, tokens as isize + row - kept);
                    for (x, bytes) in column.iter().zip(bytes.as_chunks_mut().0) {
                        *bytes = x.to_le_bytes();
                    }
                }
            }
            first += tokens;
        }
    }
}
