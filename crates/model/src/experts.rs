//! Mixtures of experts.

use crate::adaptation::every_token;
use crate::adapter::{Rows, RowsMut};
use crate::config::ExpertConfig;
use crate::decoder::Pass;
use crate::layer::{ExpertFfn, ExpertMatrices, Formats};
use crate::matrix::Linear;
use crate::spec::{ExpertGate, RouterInput, Routing, Weighed};
use crate::workspace::{ActParts, Acts, ExpertBuffers, Slot, Workspace};
use core::ops::Range;
use strata_kernels::{ActRowsMut, Activation, Gated, Kernels, Product, TileMut, act_format};
use strata_platform::Chunks;

/// Experts that are computed in one go.
const TOGETHER: usize = 8;

/// Neighbours in the order of experts that have the same one.
#[derive(Clone, Default)]
struct Run {
    expert: usize,
    slots: Range<usize>,
}

impl Pass<'_> {
    /// A mixture of experts: from `normed` and its encoding into `branch`.
    pub(crate) fn experts(&self, weights: &ExpertFfn, work: &mut Workspace) {
        let sizes = &weights.config;
        let width = self.config.width;
        let kernels = self.compute.kernels;
        if let Some(beside) = &weights.beside {
            self.before_routing(beside, &weights.router, work);
        }
        let floats = self.tokens * width;
        let seen = match sizes.routing.sees {
            RouterInput::Experts => &work.normed[..floats],
            RouterInput::Layer => {
                let input = &work.second[..floats];
                let format = act_format(weights.router.matrix.ty);
                let rows = work.acts.rows_mut(format, width, self.tokens);
                self.compute.encode(format, input, width, width, rows);
                input
            }
        };
        self.route(weights, sizes, seen, &mut work.acts, &mut work.experts);
        if let (RouterInput::Layer, Some(shared)) = (sizes.routing.sees, &weights.shared) {
            self.encode_input(&shared.ffn.input, &work.normed[..floats], &mut work.acts);
        }
        if let Some(beside) = &weights.beside {
            self.after_routing(beside, work);
        }
        let normed = &work.normed[..self.tokens * width];
        let out = &mut work.branch[..self.tokens * width];
        let buffers = &mut work.experts;
        match &weights.shared {
            None => out.fill(0.0),
            Some(shared) => {
                self.dense(&shared.ffn, normed, &mut work.acts, &mut work.ffn, out);
                if let Some(gate) = &shared.gate {
                    self.compute.each_row(out, width, |token, row| {
                        let gate = kernels.dot(&normed[token * width..][..width], gate);
                        let sigmoid = 1.0 / (1.0 + kernels.exp_sub(&mut [-gate], 0.0));
                        kernels.scale(row, sigmoid);
                    });
                }
            }
        }
        let bias = weights.choice_bias.as_deref();
        choose(kernels, sizes, bias, buffers, self.tokens);
        let slots = self.tokens * sizes.used;
        if let Some(beside) = &weights.beside {
            for slot in &mut buffers.chosen[..slots] {
                slot.weight *= beside.scales[slot.expert as usize];
            }
        }
        self.encode_inputs(weights, sizes, normed, buffers);
        let mut from = 0;
        while from < slots {
            let runs: [Run; TOGETHER] = core::array::from_fn(|_| {
                let run = buffers.run(from..slots);
                from = run.slots.end;
                run
            });
            self.run_experts(weights, sizes, &runs, buffers, &mut work.acts);
            if self.observer.is_some() {
                self.observe_experts(weights, sizes, &runs, normed, buffers);
            }
        }
        self.gather(sizes, buffers, out);
        if weights.scale != 1.0 {
            self.compute
                .each_row(out, width, |_, row| kernels.scale(row, weights.scale));
        }
        if let Some(beside) = &weights.beside {
            self.after_experts(beside, work);
        }
    }

    /// Every token's weight for every expert.
    fn route(
        &self,
        weights: &ExpertFfn,
        sizes: &ExpertConfig,
        normed: &[f32],
        acts: &mut Acts,
        buffers: &mut ExpertBuffers,
    ) {
        let scores = &mut buffers.scores[..self.tokens * sizes.count];
        let Linear {
            matrix: router,
            bias,
        } = &weights.router;
        self.multiply_one(router, acts, scores);
        let x = Rows {
            floats: normed,
            stride: self.config.width,
        };
        self.observe(router, x, self.tokens);
        let out = RowsMut {
            floats: &mut *scores,
            stride: sizes.count,
            offset: 0,
        };
        self.adapt(router, x, out, every_token);
        let kernels = self.compute.kernels;
        let Routing { gate, soft_cap, .. } = sizes.routing;
        self.compute.each_row(scores, sizes.count, |_, row| {
            if let Some(bias) = bias {
                kernels.add(row, bias);
            }
            if let Some(cap) = soft_cap {
                kernels.soft_cap(row, cap);
            }
            match gate {
                ExpertGate::Softmax => kernels.softmax(row),
                ExpertGate::Sigmoid => kernels.activate(Activation::Sigmoid, row),
                ExpertGate::SoftmaxOfChosen | ExpertGate::SparseMixer => {}
            }
        });
    }

    /// Each slot's input, in the order of experts.
    fn encode_inputs(
        &self,
        weights: &ExpertFfn,
        sizes: &ExpertConfig,
        normed: &[f32],
        buffers: &mut ExpertBuffers,
    ) {
        let width = self.config.width;
        let slots = self.tokens * sizes.used;
        // All experts of a tensor are alike.
        let inputs = [Some(&weights.gate), weights.up.as_ref()];
        let inputs = inputs.into_iter().flatten();
        let formats: Formats = inputs
            .map(|experts| act_format(experts.matrices.0[0].ty))
            .collect();
        for format in formats.iter() {
            let ExpertBuffers {
                inputs,
                order,
                chosen,
                results,
                ..
            } = buffers;
            let bytes = format.row_bytes(width);
            let rows = inputs.rows_mut(format, width, slots);
            let kernels = self.compute.kernels;
            let row = |rank: usize| {
                let token = order[rank] as usize / sizes.used;
                &normed[token * width..][..width]
            };
            match sizes.routing.weighed {
                // A token by itself has one input for all its experts.
                Weighed::Output if self.tokens == 1 => {
                    let (first, rest) = rows.split_at_mut(bytes);
                    kernels.quantize_act(format, &normed[..width], first);
                    rest.chunks_exact_mut(bytes)
                        .for_each(|row| row.copy_from_slice(first));
                }
                Weighed::Output => {
                    let rows = Chunks::new(rows, bytes);
                    self.compute.each_piece(slots * width, rows, |rank, out| {
                        kernels.quantize_act(format, row(rank), out);
                    });
                }
                // Results come later: their place serves until then.
                Weighed::Input => {
                    let scaled = Chunks::new(&mut results[..slots * width], width);
                    let pieces = (Chunks::new(rows, bytes), scaled);
                    let weigh = |rank: usize, (out, scaled): (&mut [u8], &mut [f32])| {
                        scaled.copy_from_slice(row(rank));
                        kernels.scale(scaled, chosen[order[rank] as usize].weight);
                        kernels.quantize_act(format, scaled, out);
                    };
                    self.compute.each_piece(slots * width, pieces, weigh);
                }
            }
        }
    }

    /// Some experts, each over all the slots that chose it. Runs come one after the other.
    fn run_experts(
        &self,
        weights: &ExpertFfn,
        sizes: &ExpertConfig,
        runs: &[Run; TOGETHER],
        buffers: &mut ExpertBuffers,
        acts: &mut Acts,
    ) {
        let (width, ffn) = (self.config.width, sizes.ffn);
        let ActParts { scratch, .. } = acts.parts();
        let format = act_format(weights.down.matrices.0[0].ty);
        let row = format.row_bytes(ffn);
        let fused = self.encodes_in_runs(format, ffn);
        let ExpertBuffers {
            inputs,
            hidden,
            encoded,
            results,
            order,
            ..
        } = buffers;
        let first = runs[0].slots.start;
        let last = runs[TOGETHER - 1].slots.end;
        let hidden = &mut hidden[first * 2 * ffn..last * 2 * ffn];
        let bytes = &mut encoded.rows_mut(format, ffn, order.len())[first * row..last * row];

        // No cache has kept where they are, so all are looked up at once and not one after the other.
        let found = |experts: &ExpertMatrices| {
            let matrices = runs.each_ref().map(|run| &experts.matrices.0[run.expert]);
            matrices.map(|matrix| self.model.weights(matrix))
        };
        let gates = found(&weights.gate);
        let ups = weights.up.as_ref().map(&found);
        let downs = found(&weights.down);

        let (mut hidden_left, mut bytes_left) = (&mut *hidden, &mut *bytes);
        let mut gated: [_; TOGETHER] = core::array::from_fn(|i| {
            let run = &runs[i];
            let count = run.slots.len();
            let out = hidden_left.split_off_mut(..count * 2 * ffn)?;
            let encoded = bytes_left.split_off_mut(..count * row)?;
            let product = |experts: &ExpertMatrices, weights, out| {
                let matrix = &experts.matrices.0[run.expert];
                self.model.before(matrix);
                Product {
                    weights,
                    x: inputs.range(act_format(matrix.ty), width, run.slots.clone()),
                    out,
                }
            };
            if count == 0 {
                return None;
            }
            let (gate_out, up_out) = TileMut::from_slice(out, count, 2 * ffn).split_rows(ffn);
            let gate = product(&weights.gate, gates[i], gate_out);
            let up = weights.up.as_ref().zip(ups.as_ref());
            let up = up.map(|(experts, found)| product(experts, found[i], up_out));
            let gated = Gated::new(gate, up, weights.activation).with_biases([
                weights.gate.bias(run.expert),
                weights.up.as_ref().and_then(|up| up.bias(run.expert)),
            ]);
            Some(if fused {
                gated.encoding(ActRowsMut::new(format, ffn, encoded))
            } else {
                gated
            })
        });
        self.compute.multiply(&mut gated, scratch);
        if !fused {
            self.compute.encode(format, hidden, 2 * ffn, ffn, bytes);
        }

        let mut results_left = &mut results[first * width..last * width];
        let mut down: [_; TOGETHER] = core::array::from_fn(|i| {
            let run = &runs[i];
            let count = run.slots.len();
            let out = results_left.split_off_mut(..count * width)?;
            let matrix = &weights.down.matrices.0[run.expert];
            if count == 0 {
                return None;
            }
            self.model.before(matrix);
            Some(Product {
                weights: downs[i],
                x: encoded.range(format, ffn, run.slots.clone()),
                out: TileMut::from_slice(out, count, width),
            })
        });
        self.compute.multiply(&mut down, scratch);
        for run in runs.iter().filter(|run| !run.slots.is_empty()) {
            let up = weights.up.as_ref();
            for experts in [Some(&weights.gate), up, Some(&weights.down)]
                .into_iter()
                .flatten()
            {
                self.model.after(&experts.matrices.0[run.expert]);
            }
            if let Some(bias) = weights.down.bias(run.expert) {
                let rows = &mut results[run.slots.start * width..run.slots.end * width];
                self.compute
                    .each_row(rows, width, |_, row| self.compute.kernels.add(row, bias));
            }
        }
    }

    /// Shows what went into experts that have been computed.
    fn observe_experts(
        &self,
        weights: &ExpertFfn,
        sizes: &ExpertConfig,
        runs: &[Run; TOGETHER],
        normed: &[f32],
        buffers: &ExpertBuffers,
    ) {
        let (width, ffn) = (self.config.width, sizes.ffn);
        for run in runs {
            for rank in run.slots.clone() {
                let token = buffers.order[rank] as usize / sizes.used;
                let input = Rows {
                    floats: &normed[token * width..],
                    stride: width,
                };
                self.observe(&weights.gate.matrices.0[run.expert], input, 1);
                if let Some(up) = &weights.up {
                    self.observe(&up.matrices.0[run.expert], input, 1);
                }
                let hidden = Rows {
                    floats: &buffers.hidden[rank * 2 * ffn..],
                    stride: 2 * ffn,
                };
                self.observe(&weights.down.matrices.0[run.expert], hidden, 1);
            }
        }
    }

    /// Adds each token's experts in the order of their rank, whatever order they were computed in.
    fn gather(&self, sizes: &ExpertConfig, buffers: &ExpertBuffers, out: &mut [f32]) {
        let width = self.config.width;
        self.compute.each_row(out, width, |token, out| {
            for slot in token * sizes.used..(token + 1) * sizes.used {
                let result = &buffers.results[buffers.ranks[slot] as usize * width..][..width];
                let weight = match sizes.routing.weighed {
                    Weighed::Output => buffers.chosen[slot].weight,
                    Weighed::Input => 1.0,
                };
                self.compute.kernels.add_scaled(out, result, weight);
            }
        });
    }
}

impl ExpertBuffers {
    /// The slots at the beginning of `ranks` that have the same expert.
    fn run(&self, ranks: Range<usize>) -> Run {
        let expert_at = |rank: usize| self.chosen[self.order[rank] as usize].expert as usize;
        let mut run = Run {
            expert: 0,
            slots: ranks.start..ranks.start,
        };
        for rank in ranks {
            let expert = expert_at(rank);
            if !run.slots.is_empty() && expert != run.expert {
                break;
            }
            run.expert = expert;
            run.slots.end = rank + 1;
        }
        run
    }
}

/// Each token's best experts, by weight and then by number, and the order in which to compute them.
fn choose(
    kernels: &Kernels,
    sizes: &ExpertConfig,
    bias: Option<&[f32]>,
    buffers: &mut ExpertBuffers,
    tokens: usize,
) {
    let rank = |expert: usize, score: f32| bias.map_or(score, |bias| score + bias[expert]);
    for token in 0..tokens {
        let scores = &mut buffers.scores[token * sizes.count..][..sizes.count];
        if let Some((groups, used)) = sizes.groups {
            leave_groups(scores, groups, used, rank);
        }
        let chosen = &mut buffers.chosen[token * sizes.used..][..sizes.used];
        let mut sum = 0.0;
        for slot in chosen.iter_mut() {
            let mut best = 0;
            for (expert, &score) in scores.iter().enumerate() {
                if rank(expert, score) > rank(best, scores[best]) {
                    best = expert;
                }
            }
            let weight = match sizes.routing.gate {
                ExpertGate::SparseMixer => mixer_weight(kernels, scores, scores[best]),
                _ => scores[best],
            };
            *slot = Slot {
                expert: best as u32,
                weight,
            };
            sum += weight;
            scores[best] = f32::NEG_INFINITY;
        }
        if sizes.routing.gate == ExpertGate::SoftmaxOfChosen {
            sum = 1.0;
            let best = chosen.iter().map(|slot| slot.weight);
            let best = best.fold(f32::NEG_INFINITY, f32::max);
            let mut total = 0.0;
            for slot in chosen.iter_mut() {
                slot.weight = kernels.exp_sub(&mut [slot.weight], best);
                total += slot.weight;
            }
            chosen.iter_mut().for_each(|slot| slot.weight /= total);
        }
        let divisor = if sizes.routing.renormalize { sum } else { 1.0 };
        for slot in chosen {
            slot.weight = slot.weight / divisor * sizes.scale;
        }
    }
    let slots = tokens * sizes.used;
    let order = &mut buffers.order[..slots];
    for (i, slot) in order.iter_mut().enumerate() {
        *slot = i as u32;
    }
    order.sort_unstable_by_key(|&slot| (buffers.chosen[slot as usize].expert, slot));
    for (rank, &slot) in order.iter().enumerate() {
        buffers.ranks[slot as usize] = rank as u32;
    }
}

/// The best score's weight among the scores that come near it.
fn mixer_weight(kernels: &Kernels, scores: &[f32], best: f32) -> f32 {
    const NEAR: f32 = 0.02;
    let near = scores.iter().filter(|&&score| {
        score != f32::NEG_INFINITY && (best - score) / score.abs().max(best) <= NEAR
    });
    let sum: f32 = near.map(|&score| kernels.exp_sub(&mut [score], best)).sum();
    1.0 / sum
}

/// Leaves scores only to the groups that are used: those whose two best experts rank highest together.
fn leave_groups(scores: &mut [f32], groups: usize, used: usize, rank: impl Fn(usize, f32) -> f32) {
    let size = scores.len() / groups;
    let worth = |scores: &[f32], group: usize| {
        let (mut best, mut second) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
        let members = scores.iter().enumerate().skip(group * size).take(size);
        for (expert, &score) in members {
            let rank = rank(expert, score);
            second = second.max(rank.min(best));
            best = best.max(rank);
        }
        best + second
    };
    for _ in used..groups {
        let left = (0..groups).filter(|group| scores[group * size] != f32::NEG_INFINITY);
        let worst = left.min_by(|&a, &b| {
            // Of equals the later goes.
            worth(scores, a)
                .total_cmp(&worth(scores, b))
                .then(b.cmp(&a))
        });
        if let Some(group) = worst {
            scores[group * size..(group + 1) * size].fill(f32::NEG_INFINITY);
        }
    }
}
