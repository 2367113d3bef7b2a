//! Recurrences whose states belong to channels: the real-gated linear recurrent unit of RecurrentGemma
//! (<https://arxiv.org/abs/2402.19427>), and RWKV 4 (<https://arxiv.org/abs/2305.13048>).
//!
//! The first decays a number for each channel by a gate and takes in what another lets through; what goes in has passed a
//! convolution, and GELU of a second branch multiplies what comes out. The second keeps a weighted mean of all values, with its
//! numerator, its denominator and the largest exponent.

use super::convolution::{Columns, ConvShape, ConvWeights};
use super::scan::{Gate, ScanShape, softplus};
use crate::config::{RgLruConfig, Rwkv4Config};
use crate::decoder::Pass;
use crate::error::LoadError;
use crate::layer::{Projections, block_linear, projection};
use crate::matrix::{Experts, Linear, Matrix};
use crate::pages::PagesMut;
use crate::spec::Presence;
use crate::tensors::{Tensors, block_name};
use crate::workspace::Workspace;
use alloc::vec::Vec;
use strata_kernels::{Activation, Kernels, TileMut};

/// Channels that are a unit of work, at most.
const CHANNELS: usize = 64;

/// How strongly gates of RecurrentGemma decay.
const STRENGTH: f32 = -8.0;

/// So many numbers for each channel, some channels to a unit of work.
fn scan_shape(channels: usize, keys: usize) -> ScanShape {
    let fits = |&n: &usize| channels.is_multiple_of(n);
    let values = (1..=CHANNELS).rev().find(fits).unwrap_or(1);
    ScanShape {
        heads: channels / values,
        keys,
        values,
    }
}

/// The floats of a state, changed in place.
fn change<const N: usize>(
    state: &mut [u8],
    values: usize,
    at: usize,
    f: impl FnOnce(&mut [f32; N]),
) {
    let float = size_of::<f32>();
    let place = |key: usize| (key * values + at) * float;
    let mut own = [0.0; N];
    for (key, own) in own.iter_mut().enumerate() {
        let bytes = &state[place(key)..][..float];
        *own = f32::from_le_bytes(bytes.try_into().expect("four bytes"));
    }
    f(&mut own);
    for (key, own) in own.iter().enumerate() {
        state[place(key)..][..float].copy_from_slice(&own.to_le_bytes());
    }
}

fn exp(kernels: &Kernels, x: f32) -> f32 {
    let mut x = [x];
    kernels.exp_sub(&mut x, 0.0);
    x[0]
}

impl RgLruConfig {
    pub(crate) fn conv(&self) -> ConvShape {
        ConvShape {
            before: 0,
            stride: 2 * self.channels,
            offset: 0,
            channels: self.channels,
            taps: self.taps,
        }
    }

    pub(crate) fn scan(&self) -> ScanShape {
        scan_shape(self.channels, 1)
    }

    /// Floats for each token: what is convolved, two gates, what comes out.
    pub(crate) fn spare(&self) -> usize {
        4 * self.channels
    }
}

/// One layer's weights.
#[derive(Clone, Debug)]
pub(crate) struct RgLruWeights {
    pub(crate) config: RgLruConfig,
    /// What is convolved, and what multiplies the result.
    pub(crate) input: Projections,
    conv: ConvWeights,
    input_gate: (Experts, Vec<f32>),
    decay_gate: (Experts, Vec<f32>),
    /// softplus of a number for each channel, times the strength.
    rates: Vec<f32>,
    pub(crate) output: Linear,
}

impl RgLruWeights {
    pub(crate) fn load(
        tensors: &mut Tensors<'_, '_>,
        width: usize,
        config: &RgLruConfig,
        layer: usize,
    ) -> Result<Self, LoadError> {
        let (channels, always) = (config.channels, Presence::Always);
        let mut linear =
            |name, (columns, rows)| block_linear(tensors, layer, name, columns, rows, always);
        let input = Projections(Vec::from([
            linear("lru_x", (width, channels))?,
            linear("lru_y", (width, channels))?,
        ]));
        let output = linear("lru_out", (channels, width))?;
        let conv = ConvWeights::load(tensors, config.conv(), layer, "lru_conv1d", always)?;
        let size = channels / config.heads;
        let mut gate = |name: &str| {
            let weight = block_name(layer, name, "weight");
            let bias = block_name(layer, name, "bias");
            Ok::<_, LoadError>((
                tensors.experts(&weight, size, size, config.heads)?,
                tensors.vector(&bias, &[size as u64, config.heads as u64])?,
            ))
        };
        let (input_gate, decay_gate) = (gate("lru_input_gate")?, gate("lru_decay_gate")?);
        let rates = tensors.vector(&block_name(layer, "lru_rate", "weight"), &[channels as u64])?;
        Ok(Self {
            config: *config,
            input,
            conv: conv.without_activation(),
            input_gate,
            decay_gate,
            rates: rates.iter().map(|&x| STRENGTH * softplus(x)).collect(),
            output,
        })
    }

    /// The matrices that each head has its own of, as they are in one head, and the number of heads.
    pub(crate) fn head_matrices(&self) -> ([&Matrix; 2], usize) {
        let matrices = [&self.input_gate.0.0[0], &self.decay_gate.0.0[0]];
        (matrices, self.config.heads)
    }
}

impl Rwkv4Config {
    /// The token before.
    pub(crate) fn shift(&self) -> ConvShape {
        ConvShape {
            before: 0,
            stride: self.width,
            offset: 0,
            channels: self.width,
            taps: 2,
        }
    }

    /// Floats that come before the states of channels: inputs of this mixer and of the feed-forward network.
    pub(crate) fn kept(&self) -> usize {
        2 * self.width
    }

    pub(crate) fn scan(&self) -> ScanShape {
        scan_shape(self.width, 3)
    }

    /// Floats for each token: a mixed input, keys, values, what is let through, what comes out.
    pub(crate) fn spare(&self) -> usize {
        5 * self.width
    }
}

/// One layer's weights.
#[derive(Clone, Debug)]
pub(crate) struct Rwkv4Weights {
    pub(crate) config: Rwkv4Config,
    /// How much of the token before goes into keys, values, and what is let through.
    lerps: [Vec<f32>; 3],
    key: Projections,
    value: Projections,
    pub(crate) receptance: Projections,
    /// What is added to exponents with each token; below 0.
    decay: Vec<f32>,
    /// What is added to a token's own.
    first: Vec<f32>,
    pub(crate) output: Linear,
}

impl Rwkv4Weights {
    pub(crate) fn load(
        tensors: &mut Tensors<'_, '_>,
        config: &Rwkv4Config,
        layer: usize,
    ) -> Result<Self, LoadError> {
        let width = config.width;
        let square = (width, width);
        let (key, value, receptance) = (
            projection(tensors, layer, "time_mix_key", square)?,
            projection(tensors, layer, "time_mix_value", square)?,
            projection(tensors, layer, "time_mix_receptance", square)?,
        );
        let (name, never) = ("time_mix_output", Presence::Never);
        let output = block_linear(tensors, layer, name, width, width, never)?;
        let mut vector = |name: &str| {
            let name = alloc::format!("blk.{layer}.time_mix_{name}.weight");
            tensors.vector(&name, &[width as u64])
        };
        Ok(Self {
            config: *config,
            lerps: [vector("lerp_k")?, vector("lerp_v")?, vector("lerp_r")?],
            key,
            value,
            receptance,
            decay: vector("decay")?,
            first: vector("first")?,
            output,
        })
    }

    /// The matrices between the first and the last.
    pub(crate) fn inner_matrices(&self) -> impl Iterator<Item = &Matrix> {
        let all = self.key.0.iter().chain(&self.value.0);
        all.map(|linear| &linear.matrix)
    }

    /// One token and one channel: what is read of numerator, denominator and largest exponent.
    fn step(
        &self,
        kernels: &Kernels,
        channel: usize,
        (k, v): (f32, f32),
        state: &mut [f32; 3],
    ) -> f32 {
        let [numerator, denominator, largest] = state;
        // Before the first token there is nothing.
        let before = if *denominator == 0.0 {
            f32::MIN
        } else {
            *largest
        };
        let own = k + self.first[channel];
        let top = before.max(own);
        let (old, new) = (exp(kernels, before - top), exp(kernels, own - top));
        let out = (old * *numerator + new * v) / (old * *denominator + new);
        let decayed = before + self.decay[channel];
        let top = decayed.max(k);
        let (old, new) = (exp(kernels, decayed - top), exp(kernels, k - top));
        *numerator = old * *numerator + new * v;
        *denominator = old * *denominator + new;
        *largest = top;
        out
    }
}

impl Pass<'_> {
    /// RecurrentGemma's recurrence, from a layer's encoded input to the encoded input of its last matrix.
    pub(super) fn rg_lru(
        &self,
        layer: usize,
        weights: &RgLruWeights,
        pages: &mut PagesMut<'_>,
        work: &mut Workspace,
    ) {
        let Self {
            compute, tokens, ..
        } = *self;
        let (config, kernels) = (weights.config, compute.kernels);
        let (conv, shape, width) = (config.conv(), config.scan(), config.channels);
        let projected = &mut work.projected[..tokens * 2 * width];
        self.observe_all(&weights.input, &work.normed);
        self.project(&weights.input, &mut work.acts, projected);
        self.adapt_all(&weights.input, &work.normed, projected);
        compute.each_row(projected, 2 * width, |_, row| {
            weights.input.add_biases(kernels, row);
        });
        let (convolved, rest) = work.spare.split_at_mut(tokens * width);
        let (gates, rest) = rest.split_at_mut(tokens * width);
        let (decays, rest) = rest.split_at_mut(tokens * width);
        let read = &mut rest[..tokens * width];
        self.convolve(
            layer,
            (conv, &weights.conv),
            (projected, &work.positions),
            (pages.storage, &mut work.states),
            convolved,
        );
        let size = width / config.heads;
        let columns = &*convolved;
        let input = |head: usize, token: usize| &columns[token * width + head * size..][..size];
        let both = [
            (&weights.input_gate, &mut *gates),
            (&weights.decay_gate, &mut *decays),
        ];
        for ((matrices, bias), out) in both {
            let tile = TileMut::from_slice(out, tokens, width);
            self.by_head(matrices, input, &mut work.acts, (tile, 0));
            compute.each_row(out, width, |_, row| {
                kernels.add(row, bias);
                kernels.activate(Activation::Sigmoid, row);
            });
        }
        let (gates, decays, positions) = (&*gates, &*decays, &work.positions);
        let step = |token: usize, head: usize, state: &mut [u8], out: &mut [f32]| {
            let start = token * width + head * shape.values;
            let first = positions[token].position == 0;
            for (i, out) in out.iter_mut().enumerate() {
                let rate = weights.rates[head * shape.values + i] * decays[start + i];
                let decay = exp(kernels, rate);
                let share = match first {
                    true => 1.0,
                    false => libm::sqrtf(1.0 - exp(kernels, 2.0 * rate)),
                };
                let x = columns[start + i] * gates[start + i] * share;
                change::<1>(state, shape.values, i, |[own]| {
                    *own = decay * *own + x;
                    *out = *own;
                });
            }
        };
        let storage = &mut *pages.storage;
        let read = self.scan(layer, (shape, conv.state_floats()), storage, read, step);

        let gate = Gate {
            rows: projected,
            stride: 2 * width,
            offset: width,
            activation: Activation::GeluTanh,
        };
        let out = (&mut work.mixed[..], &mut work.acts, &positions[..]);
        self.gate_read(&read, gate, &weights.output, out, |_, _| {});
    }

    /// RWKV 4's mixing of tokens, from a layer's normed input to the encoded input of its last matrix.
    pub(super) fn rwkv4(
        &self,
        layer: usize,
        weights: &Rwkv4Weights,
        pages: &mut PagesMut<'_>,
        work: &mut Workspace,
    ) {
        let Self {
            compute, tokens, ..
        } = *self;
        let (config, kernels) = (weights.config, compute.kernels);
        let (width, shift, shape) = (config.width, config.shift(), config.scan());
        let floats = tokens * width;
        self.read_columns(layer, shift, pages.storage, &mut work.states);
        let columns = Columns {
            shape: shift,
            rows: &work.normed[..floats],
            states: &work.states,
        };
        let (mixed, rest) = work.spare.split_at_mut(floats);
        let (keys, rest) = rest.split_at_mut(floats);
        let (values, rest) = rest.split_at_mut(floats);
        let (gate, rest) = rest.split_at_mut(floats);
        let read = &mut rest[..floats];
        let positions = &work.positions;
        let all = [
            (&weights.lerps[0], &weights.key, &mut *keys),
            (&weights.lerps[1], &weights.value, &mut *values),
            (&weights.lerps[2], &weights.receptance, &mut *gate),
        ];
        for (lerp, matrix, out) in all {
            compute.each_row(mixed, width, |token, row| {
                let [before, x, ..] = columns.seen(token, self.place(positions[token]));
                for (i, row) in row.iter_mut().enumerate() {
                    *row = x[i] + (before[i] - x[i]) * lerp[i];
                }
            });
            self.project_rows(matrix, mixed, &mut work.acts, out);
        }
        self.write_columns(layer, &columns, pages.storage);
        let (keys, values) = (&*keys, &*values);
        let step = |token: usize, head: usize, state: &mut [u8], out: &mut [f32]| {
            let first = head * shape.values;
            for (i, out) in out.iter_mut().enumerate() {
                let at = token * width + first + i;
                let own = (keys[at], values[at]);
                change::<3>(state, shape.values, i, |state| {
                    *out = weights.step(kernels, first + i, own, state);
                });
            }
        };
        let storage = &mut *pages.storage;
        let read = self.scan(layer, (shape, config.kept()), storage, read, step);

        let gate = Gate {
            rows: gate,
            stride: width,
            offset: 0,
            activation: Activation::Sigmoid,
        };
        let out = (&mut work.mixed[..], &mut work.acts, &positions[..]);
        self.gate_read(&read, gate, &weights.output, out, |_, _| {});
    }
}
