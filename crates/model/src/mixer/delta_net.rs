//! The gated delta rule (<https://arxiv.org/abs/2412.06464>).
//!
//! Queries, keys and values pass a convolution and SiLU; queries and keys are brought to length 1. A state of keys × values
//! decays by e^(A · softplus(a + bias)), and what it holds for a key moves towards the value by a share σ(b). What a query reads is
//! normed head by head and multiplied by SiLU of a gate.

use super::convolution::{ConvShape, ConvWeights};
use super::scan::{Gate, NormTime, ScanShape, softplus};
use crate::config::DeltaNetConfig;
use crate::decoder::Pass;
use crate::error::LoadError;
use crate::layer::{Projections, block_linear};
use crate::matrix::Linear;
use crate::pages::PagesMut;
use crate::spec::{Presence, SharedKeys};
use crate::tensors::{Tensors, block_name};
use crate::workspace::Workspace;
use alloc::format;
use alloc::vec::Vec;
use strata_kernels::{Activation, Decay, Kernels, StateRule, StateStep};

impl DeltaNetConfig {
    fn key_width(&self) -> usize {
        self.key_heads * self.key_size
    }

    fn value_width(&self) -> usize {
        self.value_heads * self.value_size
    }

    /// The width of queries, keys, values, the gate, shares and decays together.
    pub(crate) fn projected(&self) -> usize {
        2 * self.key_width() + 2 * self.value_width() + 2 * self.value_heads
    }

    pub(crate) fn conv(&self) -> ConvShape {
        ConvShape {
            before: 0,
            stride: self.projected(),
            offset: 0,
            channels: 2 * self.key_width() + self.value_width(),
            taps: self.taps,
        }
    }

    pub(crate) fn scan(&self) -> ScanShape {
        ScanShape {
            heads: self.value_heads,
            keys: self.key_size,
            values: self.value_size,
        }
    }

    /// The width of what the last matrix sees.
    pub(crate) fn mixed(&self) -> usize {
        self.value_width()
    }

    /// Floats for each token besides what the first matrices give and what the last one sees.
    pub(crate) fn spare(&self) -> usize {
        self.conv().channels + self.value_width()
    }

    /// The key head that a value head reads.
    fn key_head(&self, value_head: usize) -> usize {
        match self.shared {
            SharedKeys::Neighbours => value_head / (self.value_heads / self.key_heads),
            SharedKeys::Striding => value_head % self.key_heads,
        }
    }
}

/// One layer's weights.
#[derive(Clone, Debug)]
pub(crate) struct DeltaNetWeights {
    pub(crate) config: DeltaNetConfig,
    /// Queries, keys and values; the gate; shares and decays, in one matrix or two.
    pub(crate) input: Projections,
    conv: ConvWeights,
    /// By head.
    decay_bias: Vec<f32>,
    /// By head, below 0.
    rates: Vec<f32>,
    /// Of each head.
    norm: Vec<f32>,
    pub(crate) output: Linear,
}

impl DeltaNetWeights {
    pub(crate) fn load(
        tensors: &mut Tensors<'_, '_>,
        width: usize,
        config: &DeltaNetConfig,
        layer: usize,
    ) -> Result<Self, LoadError> {
        let heads = config.value_heads;
        let conv = config.conv();
        let together = tensors.has(&block_name(layer, "ssm_ba", "weight"));
        let mut linear =
            |name, rows| block_linear(tensors, layer, name, width, rows, Presence::Never);
        let mut input = Vec::from([
            linear("attn_qkv", conv.channels)?,
            linear("attn_gate", config.value_width())?,
        ]);
        if together {
            input.push(linear("ssm_ba", 2 * heads)?);
        } else {
            input.push(linear("ssm_beta", heads)?);
            input.push(linear("ssm_alpha", heads)?);
        }
        let by_head = &[heads as u64];
        Ok(Self {
            config: *config,
            input: Projections(input),
            conv: ConvWeights::load(tensors, conv, layer, "ssm_conv1d", Presence::Never)?,
            decay_bias: tensors.vector(&block_name(layer, "ssm_dt", "bias"), by_head)?,
            rates: tensors.vector(&format!("blk.{layer}.ssm_a"), by_head)?,
            norm: tensors.vector(
                &block_name(layer, "ssm_norm", "weight"),
                &[config.value_size as u64],
            )?,
            output: block_linear(
                tensors,
                layer,
                "ssm_out",
                config.value_width(),
                width,
                Presence::Never,
            )?,
        })
    }

    /// Where a head's share and decay stand among those of a token.
    fn share_and_decay(&self, head: usize) -> (usize, usize) {
        let (heads, groups) = (self.config.value_heads, self.config.key_heads);
        if self.input.0.len() == 4 {
            return (head, heads + head);
        }
        // Those of the value heads of one key head come together.
        let each = heads / groups;
        let start = head / each * 2 * each + head % each;
        (start, start + each)
    }

    /// One token and one head.
    fn step(
        &self,
        kernels: &Kernels,
        (projected, convolved): (&[f32], &[f32]),
        head: usize,
        state: &mut [u8],
        out: &mut [f32],
    ) {
        let config = &self.config;
        let (keys, key_head) = (config.key_size, config.key_head(head));
        let (queries, rest) = convolved.split_at(config.key_width());
        let (all_keys, values) = rest.split_at(config.key_width());
        let numbers = &projected[projected.len() - 2 * config.value_heads..];
        let (share, decay) = self.share_and_decay(head);
        let mut share = [numbers[share]];
        kernels.activate(Activation::Sigmoid, &mut share);
        let step = softplus(numbers[decay] + self.decay_bias[head]);
        let mut decay = [self.rates[head] * step];
        kernels.exp_sub(&mut decay, 0.0);
        kernels.state_step(StateStep {
            state,
            decay: Decay::All(decay[0]),
            rule: StateRule::Delta(share[0]),
            key: &all_keys[key_head * keys..][..keys],
            query: &queries[key_head * keys..][..keys],
            value: &values[head * config.value_size..][..config.value_size],
            out,
        });
    }
}

impl Pass<'_> {
    /// The delta rule, from a layer's encoded input to the encoded input of its last matrix.
    pub(super) fn delta_net(
        &self,
        layer: usize,
        weights: &DeltaNetWeights,
        pages: &mut PagesMut<'_>,
        work: &mut Workspace,
    ) {
        let Self {
            compute, tokens, ..
        } = *self;
        let (config, kernels) = (weights.config, compute.kernels);
        let (conv, shape, stride) = (config.conv(), config.scan(), config.projected());
        let width = config.value_width();
        let projected = &mut work.projected[..tokens * stride];
        self.observe_all(&weights.input, &work.normed);
        self.project(&weights.input, &mut work.acts, projected);
        self.adapt_all(&weights.input, &work.normed, projected);

        let (convolved, rest) = work.spare.split_at_mut(tokens * conv.channels);
        let read = &mut rest[..tokens * width];
        self.convolve(
            layer,
            (conv, &weights.conv),
            (projected, &work.positions),
            (pages.storage, &mut work.states),
            convolved,
        );
        let heads = (config.key_width(), config.key_size);
        self.unit_heads(convolved, conv.channels, heads);
        let (rows, columns) = (&*projected, &*convolved);
        let step = |token: usize, head: usize, state: &mut [u8], out: &mut [f32]| {
            let row = &rows[token * stride..][..stride];
            let convolved = &columns[token * conv.channels..][..conv.channels];
            weights.step(kernels, (row, convolved), head, state, out);
        };
        let storage = &mut *pages.storage;
        let read = self.scan(layer, (shape, conv.state_floats()), storage, read, step);

        let gate = Gate {
            rows: projected,
            stride,
            offset: conv.channels,
            activation: Activation::Silu,
        };
        let out = (&mut work.mixed[..], &mut work.acts, &work.positions[..]);
        self.gate_read(&read, gate, &weights.output, out, |time, out| {
            if time == NormTime::BeforeGate {
                for head in out.chunks_exact_mut(config.value_size) {
                    kernels.rms_norm_in_place(head, Some(&weights.norm), self.config.epsilon);
                }
            }
        });
    }
}
