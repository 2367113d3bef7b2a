//! Causal convolutions: each channel is summed over the last few positions.
//!
//! What a sequence keeps for them are the columns that the next token's sum sees, as f32, the oldest first; zeros stand
//! before the first position. That does not depend on how the sequence was cut into batches.

use crate::decoder::Pass;
use crate::error::LoadError;
use crate::pages::PageStorage;
use crate::spec::Presence;
use crate::tensors::{Tensors, block_name};
use crate::workspace::TokenPosition;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use strata_kernels::Activation;
use strata_platform::Chunks;

/// Units of work for each worker, if tokens are few.
const PARTS: usize = 2;

/// The longest convolution, in positions.
pub(crate) const MAX_TAPS: usize = 16;

/// Which part of each token's row is summed over how many positions.
#[derive(Copy, Clone, Debug)]
pub(crate) struct ConvShape {
    /// Floats of a layer's state that come before what is kept for it.
    pub(crate) before: usize,
    /// Floats of a token's row.
    pub(crate) stride: usize,
    /// Where the channels begin in it.
    pub(crate) offset: usize,
    pub(crate) channels: usize,
    pub(crate) taps: usize,
}

impl ConvShape {
    /// Positions that a sequence keeps.
    fn kept(&self) -> usize {
        self.taps - 1
    }

    /// Floats that a sequence keeps.
    pub(crate) fn state_floats(&self) -> usize {
        self.kept() * self.channels
    }
}

/// A convolution's weights.
#[derive(Clone, Debug)]
pub(crate) struct ConvWeights {
    channels: usize,
    /// (positions, channels), the oldest position first.
    taps: Vec<f32>,
    pub(crate) bias: Option<Vec<f32>>,
    /// What sums pass.
    activation: Option<Activation>,
}

impl ConvWeights {
    pub(crate) fn load(
        tensors: &mut Tensors<'_, '_>,
        shape: ConvShape,
        layer: usize,
        name: &str,
        bias: Presence,
    ) -> Result<Self, LoadError> {
        let (channels, taps) = (shape.channels, shape.taps);
        let by_channel = tensors.vector(
            &block_name(layer, name, "weight"),
            &[taps as u64, channels as u64],
        )?;
        let bias =
            tensors.maybe_vector(bias, &block_name(layer, name, "bias"), &[channels as u64])?;
        Ok(Self::new(&by_channel, shape, bias))
    }

    /// The weights of several tensors, each with its share of the channels.
    pub(crate) fn join(
        tensors: &mut Tensors<'_, '_>,
        shape: ConvShape,
        layer: usize,
        names: &[&str],
    ) -> Result<Self, LoadError> {
        let (taps, channels) = (shape.taps as u64, (shape.channels / names.len()) as u64);
        let mut all = Vec::new();
        for name in names {
            let name = block_name(layer, name, "weight");
            // Some files have a dimension of one between.
            let between = tensors.rows(&name) == Some(1);
            let shape = [taps, 1, channels];
            let plain = [taps, channels];
            let shape = if between { &shape[..] } else { &plain[..] };
            all.extend(tensors.vector(&name, shape)?);
        }
        Ok(Self::new(&all, shape, None))
    }

    /// The same, with sums as they are.
    pub(crate) fn without_activation(self) -> Self {
        Self {
            activation: None,
            ..self
        }
    }

    /// Each position's weights of some channels.
    pub(super) fn taps(&self, channels: Range<usize>) -> [&[f32]; MAX_TAPS] {
        let mut taps: [&[f32]; MAX_TAPS] = [&[]; MAX_TAPS];
        for (tap, row) in taps.iter_mut().zip(self.taps.chunks_exact(self.channels)) {
            *tap = &row[channels.clone()];
        }
        taps
    }

    /// From weights by channel.
    fn new(by_channel: &[f32], shape: ConvShape, bias: Option<Vec<f32>>) -> Self {
        let (channels, taps) = (shape.channels, shape.taps);
        let mut by_position = vec![0.0; by_channel.len()];
        for (channel, own) in by_channel.chunks_exact(taps).enumerate() {
            for (position, &tap) in own.iter().enumerate() {
                by_position[position * channels + channel] = tap;
            }
        }
        Self {
            channels,
            taps: by_position,
            bias,
            activation: Some(Activation::Silu),
        }
    }
}

/// The columns of a batch's tokens, and what their spans kept of the positions before.
pub(in crate::mixer) struct Columns<'a> {
    pub(super) shape: ConvShape,
    /// (tokens, stride).
    pub(super) rows: &'a [f32],
    /// (tokens, kept, channels), of which each span's first token has its own.
    pub(super) states: &'a [f32],
}

impl<'a> Columns<'a> {
    /// The column at a place of the span whose first token is `first`; those before the span count from −1 down.
    fn get(&self, first: usize, place: isize) -> &'a [f32] {
        let ConvShape {
            stride,
            offset,
            channels,
            ..
        } = self.shape;
        let (floats, start) = match usize::try_from(place) {
            Ok(place) => (self.rows, (first + place) * stride + offset),
            Err(_) => {
                let kept = self.shape.kept();
                let row = first * kept + kept - place.unsigned_abs();
                (self.states, row * channels)
            }
        };
        &floats[start..][..channels]
    }

    /// The columns that a token's sum sees, the oldest first: as many as there are taps.
    pub(super) fn seen(&self, token: usize, place: usize) -> [&'a [f32]; MAX_TAPS] {
        let taps = self.shape.taps;
        let mut seen: [&[f32]; MAX_TAPS] = [&[]; MAX_TAPS];
        for (k, column) in seen[..taps].iter_mut().enumerate() {
            let back = (taps - 1 - k) as isize;
            *column = self.get(token - place, place as isize - back);
        }
        seen
    }
}

impl Pass<'_> {
    /// How far into its span a token is.
    pub(super) fn place(&self, at: TokenPosition) -> usize {
        at.position as usize - self.batch[at.span as usize].sequence.len()
    }

    /// Every token's sums, activated, into `out` (tokens, channels). `states` is (tokens, kept, channels), for use on the
    /// way; what the sequences keep is brought up to date.
    pub(super) fn convolve(
        &self,
        layer: usize,
        (shape, weights): (ConvShape, &ConvWeights),
        (rows, positions): (&[f32], &[TokenPosition]),
        (storage, states): (&mut PageStorage, &mut [f32]),
        out: &mut [f32],
    ) {
        self.read_columns(layer, shape, storage, states);
        let columns = Columns {
            shape,
            rows,
            states,
        };
        let kernels = self.compute.kernels;
        let parts = self.parts(shape.channels);
        let width = shape.channels / parts;
        let work = out.len() * shape.taps;
        let pieces = Chunks::new(out, width);
        self.compute.each_piece(work, pieces, |index, out| {
            let (token, first) = (index / parts, index % parts * width);
            let channels = first..first + width;
            let taps = weights.taps(channels.clone());
            let mut seen = columns.seen(token, self.place(positions[token]));
            let seen = &mut seen[..shape.taps];
            seen.iter_mut()
                .for_each(|column| *column = &column[channels.clone()]);
            kernels.short_conv(&taps[..shape.taps], seen, None, out);
            if let Some(bias) = &weights.bias {
                kernels.add(out, &bias[channels]);
            }
            if let Some(activation) = weights.activation {
                kernels.activate(activation, out);
            }
        });
        self.write_columns(layer, &columns, storage);
    }

    /// Into how many parts a token's channels are cut, where there are too few tokens for all workers.
    fn parts(&self, channels: usize) -> usize {
        let wanted = (PARTS * self.compute.pool.workers()).div_ceil(self.tokens.max(1));
        let whole_lines = |&n: &usize| channels.is_multiple_of(16 * n);
        (1..=wanted).rev().find(whole_lines).unwrap_or(1)
    }

    /// What all spans kept, each where its first token is: (tokens, kept, channels).
    pub(super) fn read_columns(
        &self,
        layer: usize,
        shape: ConvShape,
        storage: &PageStorage,
        out: &mut [f32],
    ) {
        let mut first = 0;
        for span in self.batch.iter().filter(|span| !span.tokens.is_empty()) {
            let out = &mut out[first * shape.state_floats()..][..shape.state_floats()];
            match span.sequence.state() {
                // Before the first position a state is empty, whatever its bytes are.
                Some(state) if !span.sequence.is_empty() => {
                    let bytes = storage.layer_state(state, layer);
                    let bytes = &bytes[shape.before * size_of::<f32>()..];
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
    pub(super) fn write_columns(
        &self,
        layer: usize,
        columns: &Columns<'_>,
        storage: &mut PageStorage,
    ) {
        let kept = columns.shape.kept() as isize;
        let mut first = 0;
        for span in self.batch.iter().filter(|span| !span.tokens.is_empty()) {
            let tokens = span.tokens.len();
            if let Some(state) = span.sequence.state() {
                let bytes = storage.layer_state_mut(state, layer);
                let bytes = &mut bytes[columns.shape.before * size_of::<f32>()..];
                let rows = bytes.chunks_exact_mut(columns.shape.channels * size_of::<f32>());
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
