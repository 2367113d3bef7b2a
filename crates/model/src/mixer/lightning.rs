//! Lightning attention (<https://arxiv.org/abs/2501.08313>): a state of keys × values for each head that decays at a fixed
//! rate. SiLU of queries, keys and values goes in; what heads read is normed, all together, and multiplied by the sigmoid of a
//! gate.

use super::scan::{Gate, NormTime, ScanShape};
use crate::config::LightningConfig;
use crate::decoder::Pass;
use crate::error::LoadError;
use crate::layer::{Projections, block_linear};
use crate::matrix::Linear;
use crate::pages::PagesMut;
use crate::spec::Presence;
use crate::tensors::{Tensors, block_name};
use crate::workspace::Workspace;
use alloc::vec::Vec;
use strata_kernels::{Activation, Decay, StateRule, StateStep};

impl LightningConfig {
    /// The width of all heads.
    pub(crate) fn width(&self) -> usize {
        self.heads * self.size
    }

    pub(crate) fn scan(&self) -> ScanShape {
        ScanShape {
            heads: self.heads,
            keys: self.size,
            values: self.size,
        }
    }

    /// By how much each head's state decays, in a layer of so many.
    fn decays(&self, layer: usize, layers: usize) -> Vec<f32> {
        let base = libm::exp2f(-8.0 / self.heads as f32);
        let depth = layer as f32 / (layers as f32 - 1.0 + 1e-5);
        let rate = |head: i32| libm::powf(base, (head + 1) as f32) * (1.0 - depth + 1e-5);
        (0..self.heads as i32)
            .map(|head| libm::expf(-rate(head)))
            .collect()
    }
}

/// One layer's weights.
#[derive(Clone, Debug)]
pub(crate) struct LightningWeights {
    pub(crate) config: LightningConfig,
    /// Queries, keys and values, head by head; the gate.
    pub(crate) input: Projections,
    decays: Vec<f32>,
    norm: Vec<f32>,
    pub(crate) output: Linear,
}

impl LightningWeights {
    pub(crate) fn load(
        tensors: &mut Tensors<'_, '_>,
        (width, layers): (usize, usize),
        config: &LightningConfig,
        layer: usize,
    ) -> Result<Self, LoadError> {
        let (all, never) = (config.width(), Presence::Never);
        let mut linear = |name, rows| block_linear(tensors, layer, name, width, rows, never);
        let input = Projections(Vec::from([
            linear("attn_qkv", 3 * all)?,
            linear("attn_gate", all)?,
        ]));
        Ok(Self {
            config: *config,
            input,
            decays: config.decays(layer, layers),
            norm: tensors.vector(&block_name(layer, "attn_norm_2", "weight"), &[all as u64])?,
            output: block_linear(tensors, layer, "attn_output", all, width, never)?,
        })
    }
}

impl Pass<'_> {
    /// Lightning attention, from a layer's encoded input to the encoded input of its last matrix.
    pub(super) fn lightning(
        &self,
        layer: usize,
        weights: &LightningWeights,
        pages: &mut PagesMut<'_>,
        work: &mut Workspace,
    ) {
        let Self {
            compute, tokens, ..
        } = *self;
        let (config, kernels) = (weights.config, compute.kernels);
        let (shape, width, size) = (config.scan(), config.width(), config.size);
        let stride = 4 * width;
        let projected = &mut work.projected[..tokens * stride];
        self.observe_all(&weights.input, &work.normed);
        self.project(&weights.input, &mut work.acts, projected);
        self.adapt_all(&weights.input, &work.normed, projected);
        compute.each_row(projected, stride, |_, row| {
            kernels.activate(Activation::Silu, &mut row[..3 * width]);
        });
        let rows = &*projected;
        let step = |token: usize, head: usize, state: &mut [u8], out: &mut [f32]| {
            let own = &rows[token * stride + head * 3 * size..][..3 * size];
            kernels.state_step(StateStep {
                state,
                decay: Decay::All(weights.decays[head]),
                rule: StateRule::Add,
                key: &own[size..2 * size],
                query: &own[..size],
                value: &own[2 * size..],
                out,
            });
        };
        let read = &mut work.spare[..tokens * width];
        let read = self.scan(layer, (shape, 0), pages.storage, read, step);

        let gate = Gate {
            rows: projected,
            stride,
            offset: 3 * width,
            activation: Activation::Sigmoid,
        };
        let out = (&mut work.mixed[..], &mut work.acts, &work.positions[..]);
        self.gate_read(&read, gate, &weights.output, out, |time, out| {
            if time == NormTime::BeforeGate {
                kernels.rms_norm_in_place(out, Some(&weights.norm), self.config.epsilon);
            }
        });
    }
}
