//! RWKV at work: from a layer's normed input to what goes into its last matrix.

use super::{LowRank, RwkvWeights, Version};
use crate::decoder::Pass;
use crate::layer::Projections;
use crate::matrix::Matrix;
use crate::mixer::convolution::Columns;
use crate::mixer::scan::MAX_VALUES;
use crate::pages::PagesMut;
use crate::workspace::{Acts, TokenPosition, Workspace};
use strata_kernels::{Activation, Decay, Kernels, StateRule, StateStep, act_format};
use strata_platform::Chunks;

/// The norm of heads.
const HEAD_EPSILON: f32 = 64e-5;

/// The least length of a key.
const LENGTH_EPSILON: f32 = 1e-12;

/// What decays of RWKV 7 are raised from: −e^(−½).
const DECAY: f32 = -0.606_531;

/// A batch's inputs, each beside the token before.
struct Shifted<'a> {
    columns: Columns<'a>,
    positions: &'a [TokenPosition],
}

/// What goes into the states of a batch's tokens and comes out: (tokens, width) each, keys and values narrower.
struct Inputs<'a> {
    receptance: &'a [f32],
    decay: &'a [f32],
    key: &'a [f32],
    value: &'a [f32],
    /// RWKV 7: what is looked for, negated, and where it is added.
    read: &'a [f32],
    write: &'a [f32],
}

impl Pass<'_> {
    /// `x + (before − x) ⊙ (lerp + more)` of every token, into `out`.
    fn lerp(&self, shifted: &Shifted<'_>, lerp: &[f32], more: Option<&[f32]>, out: &mut [f32]) {
        let width = lerp.len();
        self.compute.each_row(out, width, |token, out| {
            let place = self.place(shifted.positions[token]);
            let [before, x, ..] = shifted.columns.seen(token, place);
            let more = more.map(|more| &more[token * width..][..width]);
            for (i, out) in out.iter_mut().enumerate() {
                let share = lerp[i] + more.map_or(0.0, |more| more[i]);
                *out = x[i] + (before[i] - x[i]) * share;
            }
        });
    }

    /// A matrix over rows of its own width, with its bias.
    fn through(&self, matrix: &Projections, x: &[f32], acts: &mut Acts, out: &mut [f32]) {
        self.project_rows(matrix, x, acts, out);
        if matrix.0[0].bias.is_some() {
            self.compute.each_row(out, matrix.rows(), |_, row| {
                matrix.add_biases(self.compute.kernels, row);
            });
        }
    }

    /// `f` of every number.
    fn apply(&self, activation: Activation, width: usize, x: &mut [f32]) {
        self.compute.each_row(x, width, |_, row| {
            self.compute.kernels.activate(activation, row);
        });
    }

    /// Two matrices, with a function between them, and what is added.
    fn low_rank(
        &self,
        low: &LowRank,
        between: Option<Activation>,
        (x, hidden): (&[f32], &mut [f32]),
        acts: &mut Acts,
        out: &mut [f32],
    ) {
        let rank = low.down.rows();
        let hidden = &mut hidden[..self.tokens * rank];
        self.through(&low.down, x, acts, hidden);
        if let Some(activation) = between {
            self.apply(activation, rank, hidden);
        }
        self.through(&low.up, hidden, acts, out);
        self.compute.each_row(out, low.bias.len(), |_, row| {
            self.compute.kernels.add(row, &low.bias);
        });
    }

    /// RWKV's mixing of tokens, from a layer's normed input to the encoded input of its last matrix.
    pub(in crate::mixer) fn rwkv(
        &self,
        layer: usize,
        weights: &RwkvWeights,
        pages: &mut PagesMut<'_>,
        work: &mut Workspace,
    ) {
        let Self {
            compute, tokens, ..
        } = *self;
        let (config, kernels) = (weights.config, compute.kernels);
        let (width, shift, shape) = (config.width, config.shift(), config.scan());
        let (floats, kv_floats) = (tokens * width, tokens * config.kv_width());
        self.read_columns(layer, shift, pages.storage, &mut work.states);
        let shifted = Shifted {
            columns: Columns {
                shape: shift,
                rows: &work.normed[..floats],
                states: &work.states,
            },
            positions: &work.positions,
        };
        let mut rest = &mut work.spare[..];
        let [mixed, receptance, decay, key, value, rate, gate, read] =
            core::array::from_fn(|_| rest.split_off_mut(..floats).expect("there is room"));
        let hidden = rest;
        let (key, value) = (&mut key[..kv_floats], &mut value[..kv_floats]);
        let acts = &mut work.acts;
        let lerp = |i: usize| &weights.lerps[i * width..][..width];
        match &weights.rest {
            Version::Six {
                lerp: first,
                down,
                up,
                gate: gates,
                bonus,
            } => {
                self.lerp(&shifted, first, None, mixed);
                let rank = down.rows() / 5;
                let hidden = &mut hidden[..tokens * 5 * rank];
                self.through(down, mixed, acts, hidden);
                self.apply(Activation::Tanh, 5 * rank, hidden);
                // What decides is needed until the last of them: decays come after it.
                for i in [1, 2, 3, 4, 0] {
                    self.part(&up.0[i], (hidden, 5 * rank, i * rank), acts, rate);
                    self.lerp(&shifted, lerp(i), Some(rate), mixed);
                    match i {
                        1 => self.through(&weights.key, mixed, acts, key),
                        2 => self.through(&weights.value, mixed, acts, value),
                        3 => self.through(&weights.receptance, mixed, acts, receptance),
                        4 => self.through(gates, mixed, acts, gate),
                        _ => {}
                    }
                }
                let between = Some(Activation::Tanh);
                self.low_rank(&weights.decay, between, (mixed, hidden), acts, decay);
                compute.each_row(decay, width, |_, row| {
                    kernels.exp_sub(row, 0.0);
                    kernels.scale(row, -1.0);
                    kernels.exp_sub(row, 0.0);
                });
                let activation = match bonus {
                    Some(_) => Activation::Silu,
                    None => Activation::Sigmoid,
                };
                self.apply(activation, width, gate);
            }
            Version::Seven {
                rate: rates,
                value: values,
                gate: gates,
                searched,
                key_rate,
                ..
            } => {
                self.lerp(&shifted, lerp(0), None, mixed);
                self.through(&weights.receptance, mixed, acts, receptance);
                self.lerp(&shifted, lerp(1), None, mixed);
                let between = Some(Activation::Tanh);
                self.low_rank(&weights.decay, between, (mixed, hidden), acts, decay);
                compute.each_row(decay, width, |_, row| {
                    kernels.activate(Activation::Sigmoid, row);
                    kernels.scale(row, DECAY);
                    kernels.exp_sub(row, 0.0);
                });
                self.lerp(&shifted, lerp(2), None, mixed);
                self.through(&weights.key, mixed, acts, key);
                self.lerp(&shifted, lerp(3), None, mixed);
                self.through(&weights.value, mixed, acts, value);
                match values {
                    None => work.first_values[..floats].copy_from_slice(value),
                    Some(values) => {
                        self.low_rank(values, None, (mixed, hidden), acts, rate);
                        self.apply(Activation::Sigmoid, width, rate);
                        let first = work.first_values[..floats].iter();
                        for ((value, first), share) in value.iter_mut().zip(first).zip(&*rate) {
                            *value += (first - *value) * share;
                        }
                    }
                }
                if let Some([down, up]) = gates {
                    self.lerp(&shifted, lerp(5), None, mixed);
                    let hidden = &mut hidden[..tokens * down.rows()];
                    self.through(down, mixed, acts, hidden);
                    self.apply(Activation::Sigmoid, down.rows(), hidden);
                    self.through(up, hidden, acts, gate);
                }
                self.lerp(&shifted, lerp(4), None, mixed);
                self.low_rank(rates, None, (mixed, hidden), acts, rate);
                let pieces = (
                    Chunks::new(mixed, width),
                    Chunks::new(rate, width),
                    Chunks::new(key, width),
                );
                compute.each_piece(floats, pieces, |_, (searched_key, rate, key)| {
                    kernels.activate(Activation::Sigmoid, rate);
                    searched_key.copy_from_slice(key);
                    kernels.mul(searched_key, searched);
                    for head in searched_key.chunks_exact_mut(config.head_size) {
                        let length = libm::sqrtf(kernels.dot(head, head));
                        kernels.scale(head, -1.0 / length.max(LENGTH_EPSILON));
                    }
                    for (i, key) in key.iter_mut().enumerate() {
                        let part = *key * key_rate[i];
                        *key += rate[i] * part - part;
                    }
                    for (rate, searched) in rate.iter_mut().zip(&*searched_key) {
                        *rate *= -searched;
                    }
                });
            }
        }
        self.write_columns(layer, &shifted.columns, pages.storage);

        let inputs = Inputs {
            receptance,
            decay,
            key,
            value,
            read: mixed,
            write: rate,
        };
        let step = |token: usize, head: usize, state: &mut [u8], out: &mut [f32]| {
            weights.step(kernels, &inputs, (token, head), state, out);
        };
        let storage = &mut *pages.storage;
        let kept = config.kept();
        let found = self.scan(layer, (shape, kept), storage, read, step);

        let format = act_format(weights.output.matrix.ty);
        let pieces = (
            Chunks::new(&mut work.mixed[..floats], width),
            Chunks::new(
                work.acts.rows_mut(format, width, tokens),
                format.row_bytes(width),
            ),
        );
        let positions = &work.positions;
        compute.each_piece(floats, pieces, |token, (out, encoded)| {
            let at = positions[token];
            found.gather(token, self.place(at), self.span_tokens(at), out);
            weights.finish(kernels, &inputs, token, out);
            if weights.is_gated() {
                kernels.mul(out, &gate[token * width..][..width]);
            }
            kernels.quantize_act(format, out, encoded);
        });
    }

    /// A matrix over a part of each row.
    fn part(
        &self,
        matrix: &Matrix,
        (rows, stride, offset): (&[f32], usize, usize),
        acts: &mut Acts,
        out: &mut [f32],
    ) {
        let format = act_format(matrix.ty);
        let encoded = acts.rows_mut(format, matrix.columns, self.tokens);
        let x = &rows[offset..];
        self.compute
            .encode(format, x, stride, matrix.columns, encoded);
        self.multiply_one(matrix, acts, out);
    }
}

impl RwkvWeights {
    fn is_gated(&self) -> bool {
        !matches!(&self.rest, Version::Seven { gate: None, .. })
    }

    /// One token and one head.
    fn step(
        &self,
        kernels: &Kernels,
        inputs: &Inputs<'_>,
        (token, head): (usize, usize),
        state: &mut [u8],
        out: &mut [f32],
    ) {
        let (width, size) = (self.config.width, self.config.head_size);
        let kv_width = self.config.kv_width();
        let kv_head = head / (width / kv_width);
        let own = token * width + head * size..token * width + (head + 1) * size;
        let kv = token * kv_width + kv_head * size..token * kv_width + (kv_head + 1) * size;
        let decay = &inputs.decay[own.clone()];
        let query = &inputs.receptance[own.clone()];
        let (key, value) = (&inputs.key[kv.clone()], &inputs.value[kv]);
        match &self.rest {
            Version::Six {
                bonus: Some(bonus), ..
            } => kernels.state_step(StateStep {
                state,
                decay: Decay::Keys(decay),
                rule: StateRule::Bonus(&bonus[head * size..][..size]),
                key,
                query,
                value,
                out,
            }),
            Version::Six { bonus: None, .. } => {
                // What decays less takes in less.
                let mut taken = [0.0; MAX_VALUES];
                for ((taken, key), decay) in taken.iter_mut().zip(key).zip(decay) {
                    *taken = key - key * decay;
                }
                kernels.state_step(StateStep {
                    state,
                    decay: Decay::Keys(decay),
                    rule: StateRule::Add,
                    key: &taken[..size],
                    query,
                    value,
                    out: &mut *out,
                });
                kernels.scale(out, 1.0 / libm::sqrtf(size as f32));
            }
            Version::Seven { .. } => kernels.state_step(StateStep {
                state,
                decay: Decay::Keys(decay),
                rule: StateRule::Replace {
                    read: &inputs.read[own.clone()],
                    write: &inputs.write[own],
                },
                key,
                query,
                value,
                out,
            }),
        }
    }

    /// What is done to what a token has read from all heads.
    fn finish(&self, kernels: &Kernels, inputs: &Inputs<'_>, token: usize, out: &mut [f32]) {
        let (width, size) = (self.config.width, self.config.head_size);
        if let Some([weight, bias]) = &self.norm {
            for head in out.chunks_exact_mut(size) {
                kernels.layer_norm_in_place(head, None, None, HEAD_EPSILON);
            }
            kernels.mul(out, weight);
            kernels.add(out, bias);
        }
        if let Version::Seven { own, .. } = &self.rest {
            for (head, out) in out.chunks_exact_mut(size).enumerate() {
                let start = token * width + head * size;
                let receptance = &inputs.receptance[start..][..size];
                let key = &inputs.key[start..][..size];
                let mut weighed = [0.0; MAX_VALUES];
                let weighed = &mut weighed[..size];
                weighed.copy_from_slice(key);
                kernels.mul(weighed, receptance);
                let share = kernels.dot(weighed, &own[head * size..][..size]);
                kernels.add_scaled(out, &inputs.value[start..][..size], share);
            }
        }
    }
}
