//! State spaces: Mamba (<https://arxiv.org/abs/2312.00752>) and Mamba 2 (<https://arxiv.org/abs/2405.21060>).
//!
//! x, B and C pass a convolution and SiLU (in Mamba x alone does, and B, C and the steps are made from it). A state of
//! `state` numbers for each channel decays by e^(A · step) and takes in B · step · x; C reads it, D · x is added, and SiLU of
//! a gate multiplies the result.

use super::convolution::{ConvShape, ConvWeights};
use super::scan::{Gate, NormTime, ScanShape, softplus};
use crate::config::{MambaConfig, MambaVersion};
use crate::decoder::Pass;
use crate::error::LoadError;
use crate::layer::{Projections, block_linear, projection};
use crate::matrix::{Linear, Matrix};
use crate::pages::PagesMut;
use crate::spec::Presence;
use crate::tensors::{Tensors, block_name};
use crate::workspace::{Acts, Workspace};
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use strata_kernels::{Activation, Decay, StateRule, StateStep};

/// Channels whose states are a unit of work, at most, where steps belong to channels.
const CHANNELS: usize = 64;

impl MambaConfig {
    /// The width of what the first matrix gives: x and the gate; or the gate, x, B, C and the steps.
    pub(crate) fn projected(&self) -> usize {
        match self.version {
            MambaVersion::Channels { .. } => 2 * self.inner,
            MambaVersion::Heads { heads, .. } => self.inner + self.conv_channels() + heads,
        }
    }

    fn conv_channels(&self) -> usize {
        match self.version {
            MambaVersion::Channels { .. } => self.inner,
            MambaVersion::Heads { groups, .. } => self.inner + 2 * groups * self.state,
        }
    }

    pub(crate) fn conv(&self) -> ConvShape {
        ConvShape {
            before: 0,
            stride: self.projected(),
            offset: match self.version {
                MambaVersion::Channels { .. } => 0,
                MambaVersion::Heads { .. } => self.inner,
            },
            channels: self.conv_channels(),
            taps: self.taps,
        }
    }

    /// Where the gate begins.
    fn gate(&self) -> usize {
        match self.version {
            MambaVersion::Channels { .. } => self.inner,
            MambaVersion::Heads { .. } => 0,
        }
    }

    pub(crate) fn scan(&self) -> ScanShape {
        let heads = match self.version {
            MambaVersion::Channels { .. } => {
                let fits = |&n: &usize| self.inner.is_multiple_of(n);
                self.inner / (1..=CHANNELS).rev().find(fits).unwrap_or(1)
            }
            MambaVersion::Heads { heads, .. } => heads,
        };
        ScanShape {
            heads,
            keys: self.state,
            values: self.inner / heads,
        }
    }

    /// The width of steps.
    fn steps(&self) -> usize {
        match self.version {
            MambaVersion::Channels { .. } => self.inner,
            MambaVersion::Heads { heads, .. } => heads,
        }
    }

    /// The width of what steps, B and C are made from, where x makes them.
    fn selection(&self) -> usize {
        match self.version {
            MambaVersion::Channels { rank, .. } => rank + 2 * self.state,
            MambaVersion::Heads { .. } => 0,
        }
    }

    /// Floats for each token besides what the first matrix gives and what the last one sees.
    pub(crate) fn spare(&self) -> usize {
        self.conv_channels() + self.selection() + self.steps() + self.inner
    }
}

/// One layer's weights.
#[derive(Clone, Debug)]
pub(crate) struct MambaWeights {
    pub(crate) config: MambaConfig,
    pub(crate) input: Projections,
    conv: ConvWeights,
    /// What makes steps, B and C, where x does.
    selection: Option<Selection>,
    /// Added to steps.
    step_bias: Vec<f32>,
    /// A: (heads, state, channels of a head), or by head.
    rates: Vec<f32>,
    /// D, by channel.
    skip: Vec<f32>,
    /// Of each group's channels.
    norm: Option<Vec<f32>>,
    pub(crate) output: Linear,
}

/// What makes steps, B and C from x.
#[derive(Clone, Debug)]
struct Selection {
    /// To what steps are made from, B and C.
    input: Projections,
    /// Weights of the norms of those three.
    norms: Option<[Vec<f32>; 3]>,
    steps: Projections,
}

impl MambaWeights {
    pub(crate) fn load(
        tensors: &mut Tensors<'_, '_>,
        width: usize,
        config: &MambaConfig,
        layer: usize,
    ) -> Result<Self, LoadError> {
        let (inner, state) = (config.inner, config.state);
        let input = projection(tensors, layer, "ssm_in", (width, config.projected()))?;
        let conv = ConvWeights::load(
            tensors,
            config.conv(),
            layer,
            "ssm_conv1d",
            Presence::IfPresent,
        )?;
        let step_bias = tensors.vector(
            &block_name(layer, "ssm_dt", "bias"),
            &[config.steps() as u64],
        )?;
        let (a, d) = (format!("blk.{layer}.ssm_a"), format!("blk.{layer}.ssm_d"));
        let (selection, rates, skip, norm) = match config.version {
            MambaVersion::Channels { rank, normed } => {
                let rates = tensors.vector(&a, &[state as u64, inner as u64])?;
                (
                    Some(Selection::load(tensors, config, (rank, normed), layer)?),
                    by_head(&rates, config.scan()),
                    tensors.vector(&d, &[inner as u64])?,
                    None,
                )
            }
            MambaVersion::Heads { heads, groups } => {
                let by_head = tensors.vector(&d, &[1, heads as u64])?;
                let skip = by_head.iter().flat_map(|&d| vec![d; inner / heads]);
                let shape = [(inner / groups) as u64, groups as u64];
                (
                    None,
                    tensors.vector(&a, &[1, heads as u64])?,
                    skip.collect(),
                    tensors.maybe_vector(
                        Presence::IfPresent,
                        &block_name(layer, "ssm_norm", "weight"),
                        &shape,
                    )?,
                )
            }
        };
        Ok(Self {
            config: *config,
            input,
            conv,
            selection,
            step_bias,
            rates,
            skip,
            norm,
            output: block_linear(tensors, layer, "ssm_out", inner, width, Presence::Never)?,
        })
    }

    /// The matrices between the first and the last.
    pub(crate) fn inner_matrices(&self) -> impl Iterator<Item = &Matrix> {
        let selection = self.selection.iter();
        let linears = selection.flat_map(|s| s.input.0.iter().chain(&s.steps.0));
        linears.map(|linear| &linear.matrix)
    }
}

/// Rates by channel and state to (heads, state, channels of a head).
fn by_head(rates: &[f32], shape: ScanShape) -> Vec<f32> {
    let ScanShape {
        heads,
        keys,
        values,
    } = shape;
    let mut out = Vec::with_capacity(rates.len());
    for head in 0..heads {
        for key in 0..keys {
            out.extend((0..values).map(|value| rates[(head * values + value) * keys + key]));
        }
    }
    out
}

impl Selection {
    fn load(
        tensors: &mut Tensors<'_, '_>,
        config: &MambaConfig,
        (rank, normed): (usize, bool),
        layer: usize,
    ) -> Result<Self, LoadError> {
        let (inner, state) = (config.inner, config.state);
        let input = projection(tensors, layer, "ssm_x", (inner, config.selection()))?;
        let steps = projection(tensors, layer, "ssm_dt", (rank, inner))?;
        let name = |part| block_name(layer, part, "weight");
        let norms = if normed {
            Some([rank, state, state].map(|size| vec![1.0; size]))
        } else if tensors.has(&name("ssm_dt_norm")) {
            Some([
                tensors.vector(&name("ssm_dt_norm"), &[rank as u64])?,
                tensors.vector(&name("ssm_b_norm"), &[state as u64])?,
                tensors.vector(&name("ssm_c_norm"), &[state as u64])?,
            ])
        } else {
            None
        };
        Ok(Self {
            input,
            norms,
            steps,
        })
    }
}

/// What goes into the states of a batch's tokens and comes out.
struct Inputs<'a> {
    config: MambaConfig,
    /// (tokens, convolved channels): x first.
    convolved: &'a [f32],
    /// (tokens, selection): B and C last.
    selected: &'a [f32],
    /// (tokens, steps).
    steps: &'a [f32],
}

impl<'a> Inputs<'a> {
    /// B and C of a token and a head.
    fn b_and_c(&self, token: usize, head: usize) -> (&'a [f32], &'a [f32]) {
        let MambaConfig { inner, state, .. } = self.config;
        let (rows, stride, b, groups) = match self.config.version {
            MambaVersion::Channels { rank, .. } => {
                (self.selected, self.config.selection(), rank, 1)
            }
            MambaVersion::Heads { groups, .. } => {
                (self.convolved, self.config.conv_channels(), inner, groups)
            }
        };
        let group = head / (self.config.scan().heads / groups);
        let row = &rows[token * stride + b..][..2 * groups * state];
        let (b, c) = row.split_at(groups * state);
        (&b[group * state..][..state], &c[group * state..][..state])
    }
}

impl Pass<'_> {
    /// A state space, from a layer's encoded input to the encoded input of its last matrix.
    pub(super) fn mamba(
        &self,
        layer: usize,
        weights: &MambaWeights,
        pages: &mut PagesMut<'_>,
        work: &mut Workspace,
    ) {
        let Self {
            compute, tokens, ..
        } = *self;
        let (config, kernels) = (weights.config, compute.kernels);
        let (inner, conv, shape) = (config.inner, config.conv(), config.scan());
        let projected = &mut work.projected[..tokens * config.projected()];
        self.observe_all(&weights.input, &work.normed);
        self.project(&weights.input, &mut work.acts, projected);
        self.adapt_all(&weights.input, &work.normed, projected);

        let (convolved, rest) = work.spare.split_at_mut(tokens * conv.channels);
        let (selected, rest) = rest.split_at_mut(tokens * config.selection());
        let (steps, rest) = rest.split_at_mut(tokens * config.steps());
        let read = &mut rest[..tokens * inner];
        self.convolve(
            layer,
            (conv, &weights.conv),
            (projected, &work.positions),
            (pages.storage, &mut work.states),
            convolved,
        );
        match &weights.selection {
            Some(selection) => self.select(selection, convolved, &mut work.acts, selected, steps),
            None => compute.each_row(steps, config.steps(), |token, steps| {
                let row = &projected[token * config.projected()..][..config.projected()];
                steps.copy_from_slice(&row[inner + conv.channels..]);
            }),
        }
        compute.each_row(steps, config.steps(), |_, steps| {
            kernels.add(steps, &weights.step_bias);
            steps.iter_mut().for_each(|step| *step = softplus(*step));
        });

        let inputs = Inputs {
            config,
            convolved,
            selected,
            steps,
        };
        let step = |token: usize, head: usize, state: &mut [u8], out: &mut [f32]| {
            weights.step(kernels, &inputs, (token, head), state, out);
        };
        let storage = &mut *pages.storage;
        let read = self.scan(layer, (shape, conv.state_floats()), storage, read, step);

        let gate = Gate {
            rows: projected,
            stride: config.projected(),
            offset: config.gate(),
            activation: Activation::Silu,
        };
        let out = (&mut work.mixed[..], &mut work.acts, &work.positions[..]);
        self.gate_read(&read, gate, &weights.output, out, |time, out| {
            if let (NormTime::AfterGate, Some(norm), MambaVersion::Heads { groups, .. }) =
                (time, &weights.norm, config.version)
            {
                let size = inner / groups;
                for (out, weight) in out.chunks_exact_mut(size).zip(norm.chunks_exact(size)) {
                    kernels.rms_norm_in_place(out, Some(weight), self.config.epsilon);
                }
            }
        });
    }

    /// B, C and the steps before their bias, from x.
    fn select(
        &self,
        selection: &Selection,
        x: &[f32],
        acts: &mut Acts,
        selected: &mut [f32],
        steps: &mut [f32],
    ) {
        let width = selection.input.rows();
        self.project_rows(&selection.input, x, acts, selected);
        if let Some(norms) = &selection.norms {
            self.compute.each_row(selected, width, |_, row| {
                let mut rest = row;
                for norm in norms {
                    let part;
                    (part, rest) = rest.split_at_mut(norm.len());
                    let (weight, epsilon) = (Some(&norm[..]), self.config.epsilon);
                    self.compute
                        .kernels
                        .rms_norm_in_place(part, weight, epsilon);
                }
            });
        }
        self.project_part(&selection.steps, (selected, width, 0), acts, steps);
    }
}

impl MambaWeights {
    /// One token and one head.
    fn step(
        &self,
        kernels: &strata_kernels::Kernels,
        inputs: &Inputs<'_>,
        (token, head): (usize, usize),
        state: &mut [u8],
        out: &mut [f32],
    ) {
        let ScanShape { keys, values, .. } = self.config.scan();
        let x = &inputs.convolved[token * self.config.conv_channels() + head * values..][..values];
        let (key, query) = inputs.b_and_c(token, head);
        let mut value = [0.0; super::scan::MAX_VALUES];
        let value = &mut value[..values];
        let steps = &inputs.steps[token * self.config.steps()..][..self.config.steps()];
        let decay = match self.config.version {
            MambaVersion::Channels { .. } => {
                let steps = &steps[head * values..][..values];
                for ((value, x), step) in value.iter_mut().zip(x).zip(steps) {
                    *value = x * step;
                }
                let rates = &self.rates[head * keys * values..][..keys * values];
                Decay::Rates { rates, steps }
            }
            MambaVersion::Heads { .. } => {
                let step = steps[head];
                for (value, x) in value.iter_mut().zip(x) {
                    *value = x * step;
                }
                let mut decay = [self.rates[head] * step];
                kernels.exp_sub(&mut decay, 0.0);
                Decay::All(decay[0])
            }
        };
        kernels.state_step(StateStep {
            state,
            decay,
            rule: StateRule::Add,
            key,
            query,
            value,
            out: &mut *out,
        });
        let skip = &self.skip[head * values..][..values];
        for ((out, x), skip) in out.iter_mut().zip(x).zip(skip) {
            *out += skip * x;
        }
    }
}
