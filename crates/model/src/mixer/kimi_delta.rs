//! Kimi's delta rule (<https://arxiv.org/abs/2510.26692>): the gated delta rule with a decay for each key.
//!
//! Queries, keys and values pass convolutions and SiLU; queries and keys are brought to length 1. Decays and the gate come from
//! pairs of matrices with little between them; the sigmoid of the gate multiplies what heads read, normed.

use super::convolution::{ConvShape, ConvWeights};
use super::scan::{Gate, NormTime, ScanShape, softplus};
use crate::config::KimiDeltaConfig;
use crate::decoder::Pass;
use crate::error::LoadError;
use crate::layer::{Projections, block_linear, projection};
use crate::matrix::{Linear, Matrix};
use crate::pages::PagesMut;
use crate::spec::Presence;
use crate::tensors::{Tensors, block_name};
use crate::workspace::Workspace;
use alloc::format;
use alloc::vec::Vec;
use strata_kernels::{Activation, Decay, StateRule, StateStep};

impl KimiDeltaConfig {
    /// The width of all heads.
    pub(crate) fn width(&self) -> usize {
        self.heads * self.size
    }

    /// The width of queries, keys, values and shares together.
    pub(crate) fn projected(&self) -> usize {
        3 * self.width() + self.heads
    }

    pub(crate) fn conv(&self) -> ConvShape {
        ConvShape {
            before: 0,
            stride: self.projected(),
            offset: 0,
            channels: 3 * self.width(),
            taps: self.taps,
        }
    }

    pub(crate) fn scan(&self) -> ScanShape {
        ScanShape {
            heads: self.heads,
            keys: self.size,
            values: self.size,
        }
    }

    /// Floats for each token: what is convolved, what is between two small matrices, decays, the gate, what heads read.
    pub(crate) fn spare(&self) -> usize {
        6 * self.width() + self.size
    }
}

/// One layer's weights.
#[derive(Clone, Debug)]
pub(crate) struct KimiDeltaWeights {
    pub(crate) config: KimiDeltaConfig,
    /// Queries, keys, values and shares.
    pub(crate) input: Projections,
    conv: ConvWeights,
    /// Two matrices, one after the other.
    decay: [Projections; 2],
    gate: [Projections; 2],
    decay_bias: Vec<f32>,
    /// By head, below 0.
    rates: Vec<f32>,
    /// Of each head.
    norm: Vec<f32>,
    pub(crate) output: Linear,
}

impl KimiDeltaWeights {
    pub(crate) fn load(
        tensors: &mut Tensors<'_, '_>,
        width: usize,
        config: &KimiDeltaConfig,
        layer: usize,
    ) -> Result<Self, LoadError> {
        let (all, size, never) = (config.width(), config.size, Presence::Never);
        let mut linear = |name, rows| block_linear(tensors, layer, name, width, rows, never);
        let input = Projections(Vec::from([
            linear("attn_q", all)?,
            linear("attn_k", all)?,
            linear("attn_v", all)?,
            linear("ssm_beta", config.heads)?,
        ]));
        let names = ["ssm_conv1d_q", "ssm_conv1d_k", "ssm_conv1d_v"];
        let conv = ConvWeights::join(tensors, config.conv(), layer, &names)?;
        let mut pair = |first, second| {
            Ok::<_, LoadError>([
                projection(tensors, layer, first, (width, size))?,
                projection(tensors, layer, second, (size, all))?,
            ])
        };
        Ok(Self {
            config: *config,
            input,
            conv,
            decay: pair("ssm_f_a", "ssm_f_b")?,
            gate: pair("ssm_g_a", "ssm_g_b")?,
            decay_bias: tensors.vector(&block_name(layer, "ssm_dt", "bias"), &[all as u64])?,
            rates: tensors.vector(&format!("blk.{layer}.ssm_a"), &[1, config.heads as u64])?,
            norm: tensors.vector(&block_name(layer, "ssm_norm", "weight"), &[size as u64])?,
            output: block_linear(tensors, layer, "attn_output", all, width, never)?,
        })
    }

    /// The matrices between the first and the last.
    pub(crate) fn inner_matrices(&self) -> impl Iterator<Item = &Matrix> {
        let pairs = self.decay.iter().chain(&self.gate);
        pairs.flat_map(|one| one.0.iter().map(|linear| &linear.matrix))
    }
}

impl Pass<'_> {
    /// The delta rule, from a layer's encoded input to the encoded input of its last matrix.
    pub(super) fn kimi_delta(
        &self,
        layer: usize,
        weights: &KimiDeltaWeights,
        pages: &mut PagesMut<'_>,
        work: &mut Workspace,
    ) {
        let Self {
            compute, tokens, ..
        } = *self;
        let (config, kernels) = (weights.config, compute.kernels);
        let (conv, shape, stride) = (config.conv(), config.scan(), config.projected());
        let (width, size) = (config.width(), config.size);
        let projected = &mut work.projected[..tokens * stride];
        let normed = &work.normed[..tokens * self.config.width];
        self.observe_all(&weights.input, normed);
        self.project(&weights.input, &mut work.acts, projected);
        self.adapt_all(&weights.input, normed, projected);

        let (convolved, rest) = work.spare.split_at_mut(tokens * conv.channels);
        let (between, rest) = rest.split_at_mut(tokens * size);
        let (decays, rest) = rest.split_at_mut(tokens * width);
        let (gate, rest) = rest.split_at_mut(tokens * width);
        let read = &mut rest[..tokens * width];
        for ([first, second], out) in [(&weights.decay, &mut *decays), (&weights.gate, gate)] {
            self.project_rows(first, normed, &mut work.acts, between);
            self.project_rows(second, between, &mut work.acts, out);
        }
        self.convolve(
            layer,
            (conv, &weights.conv),
            (projected, &work.positions),
            (pages.storage, &mut work.states),
            convolved,
        );
        self.unit_heads(convolved, conv.channels, (width, size));
        compute.each_row(decays, width, |_, row| {
            kernels.add(row, &weights.decay_bias);
            for (head, rate) in row.chunks_exact_mut(size).zip(&weights.rates) {
                head.iter_mut().for_each(|x| *x = rate * softplus(*x));
            }
            kernels.exp_sub(row, 0.0);
        });
        let (rows, columns, decays) = (&*projected, &*convolved, &*decays);
        let step = |token: usize, head: usize, state: &mut [u8], out: &mut [f32]| {
            let mut share = [rows[token * stride + 3 * width + head]];
            kernels.activate(Activation::Sigmoid, &mut share);
            let part = |part: usize| {
                let start = token * conv.channels + part * width + head * size;
                &columns[start..][..size]
            };
            kernels.state_step(StateStep {
                state,
                decay: Decay::Keys(&decays[token * width + head * size..][..size]),
                rule: StateRule::Delta(share[0]),
                key: part(1),
                query: part(0),
                value: part(2),
                out,
            });
        };
        let storage = &mut *pages.storage;
        let read = self.scan(layer, (shape, conv.state_floats()), storage, read, step);

        let gate = Gate {
            rows: gate,
            stride: width,
            offset: 0,
            activation: Activation::Sigmoid,
        };
        let out = (&mut work.mixed[..], &mut work.acts, &work.positions[..]);
        self.gate_read(&read, gate, &weights.output, out, |time, out| {
            if time == NormTime::BeforeGate {
                for head in out.chunks_exact_mut(size) {
                    kernels.rms_norm_in_place(head, Some(&weights.norm), self.config.epsilon);
                }
            }
        });
    }
}
