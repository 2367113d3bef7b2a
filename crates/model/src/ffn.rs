//! The feed-forward network of a layer, and mixtures of experts.

use crate::config::ExpertConfig;
use crate::decoder::Pass;
use crate::layer::{DenseFfn, ExpertFfn, Projections};
use crate::matrix::{Linear, Matrix};
use crate::spec::Ffn;
use crate::workspace::{Acts, EXPERT_TOKENS, ExpertBuffers, Slot, Workspace};
use strata_kernels::{ActRows, Product, TileMut, act_format};

impl Pass<'_> {
    /// A dense network: `normed` (tokens, width) to `out` (tokens, width), through `hidden`.
    pub(crate) fn dense(
        &self,
        weights: &DenseFfn,
        normed: &[f32],
        acts: &mut Acts,
        hidden: &mut [f32],
        out: &mut [f32],
    ) {
        let columns: usize = weights.input.0.iter().map(|l| l.matrix.rows).sum();
        let hidden = &mut hidden[..self.tokens * columns];
        self.project(&weights.input, normed, acts, hidden);
        let inner = weights.down.matrix.columns;
        self.activate(hidden, columns, inner);
        let format = act_format(weights.down.matrix.ty);
        self.compute.encode(
            format,
            hidden,
            columns,
            inner,
            acts.rows_mut(format, inner, self.tokens),
        );
        self.multiply_one(&weights.down.matrix, acts, out);
        if let Some(bias) = &weights.down.bias {
            self.compute.each_row(out, bias.len(), |_, row| {
                self.compute.kernels.add(row, bias);
            });
        }
    }

    /// Several matrices over one input, side by side in `out`, in one go.
    pub(crate) fn project(
        &self,
        projections: &Projections,
        input: &[f32],
        acts: &mut Acts,
        out: &mut [f32],
    ) {
        let width = projections.0[0].matrix.columns;
        let columns: usize = projections.0.iter().map(|l| l.matrix.rows).sum();
        for (i, linear) in projections.0.iter().enumerate() {
            let format = act_format(linear.matrix.ty);
            let encoded = projections.0[..i]
                .iter()
                .any(|other| act_format(other.matrix.ty) == format);
            if !encoded {
                let rows = acts.rows_mut(format, width, self.tokens);
                self.compute.encode(format, input, width, width, rows);
            }
        }
        let (acts, scratch) = acts.split();
        let mut rest = Some(TileMut::from_slice(out, self.tokens, columns));
        let mut product = |linear: &Linear| {
            let matrix = &linear.matrix;
            let (out, after) = rest.take()?.split_rows(matrix.rows);
            rest = Some(after);
            Some(Product {
                weights: self.model.weights(matrix),
                x: acts.rows(act_format(matrix.ty), width, self.tokens),
                out,
            })
        };
        for linear in &projections.0 {
            self.model.before(&linear.matrix);
        }
        // As many products as there are projections, without a list on the heap.
        match &projections.0[..] {
            [a] => self
                .compute
                .multiply(&mut [product(a)].map(Option::unwrap), scratch),
            [a, b] => self
                .compute
                .multiply(&mut [product(a), product(b)].map(Option::unwrap), scratch),
            [a, b, c] => self.compute.multiply(
                &mut [product(a), product(b), product(c)].map(Option::unwrap),
                scratch,
            ),
            _ => unreachable!("a layer projects into one to three matrices"),
        }
        for linear in &projections.0 {
            self.model.after(&linear.matrix);
        }
        self.compute.add_biases(projections, out, columns);
    }

    /// One matrix over the rows that were encoded last, as many as `out` has room for.
    pub(crate) fn multiply_one(&self, matrix: &Matrix, acts: &mut Acts, out: &mut [f32]) {
        let tokens = out.len() / matrix.rows;
        let (acts, scratch) = acts.split();
        let x = acts.rows(act_format(matrix.ty), matrix.columns, tokens);
        self.multiply_rows(matrix, x, scratch, out);
    }

    fn multiply_rows(&self, matrix: &Matrix, x: ActRows<'_>, scratch: &mut [u8], out: &mut [f32]) {
        self.model.before(matrix);
        let product = Product {
            weights: self.model.weights(matrix),
            out: TileMut::from_slice(out, x.tokens(), matrix.rows),
            x,
        };
        self.compute.multiply(&mut [product], scratch);
        self.model.after(matrix);
    }

    /// The activation, in place: each row's first `inner` floats are the result.
    fn activate(&self, hidden: &mut [f32], columns: usize, inner: usize) {
        let kernels = self.compute.kernels;
        let activation = self.config.spec.activation;
        self.compute.each_row(hidden, columns, |_, row| {
            let (gate, up) = row.split_at_mut(inner);
            match self.config.spec.ffn {
                Ffn::Gated(_) => kernels.activate_mul(activation, gate, up),
                Ffn::Plain => kernels.activate(activation, gate),
            }
        });
    }

    /// A mixture of experts: from `normed` into `branch`.
    pub(crate) fn experts(&self, weights: &ExpertFfn, sizes: &ExpertConfig, work: &mut Workspace) {
        let width = self.config.width;
        let kernels = self.compute.kernels;
        let normed = &work.normed[..self.tokens * width];
        let out = &mut work.branch[..self.tokens * width];
        match &weights.shared {
            None => out.fill(0.0),
            Some(shared) => {
                self.dense(&shared.ffn, normed, &mut work.acts, &mut work.ffn, out);
                self.compute.each_row(out, width, |token, row| {
                    let gate = kernels.dot(&normed[token * width..][..width], &shared.gate);
                    let sigmoid = 1.0 / (1.0 + kernels.exp_sub(&mut [-gate], 0.0));
                    kernels.scale(row, sigmoid);
                });
            }
        }
        let buffers = &mut work.experts;
        self.route(weights, sizes, normed, &mut work.acts, buffers);
        for start in (0..self.tokens).step_by(EXPERT_TOKENS) {
            let tokens = EXPERT_TOKENS.min(self.tokens - start);
            let chunk = Chunk { start, tokens };
            choose(sizes, buffers, chunk);
            self.run_experts(weights, sizes, normed, chunk, buffers, work.acts.split().1);
            self.gather(sizes, chunk, buffers, out);
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
        let width = self.config.width;
        let format = act_format(weights.router.ty);
        let rows = acts.rows_mut(format, width, self.tokens);
        self.compute.encode(format, normed, width, width, rows);
        let scores = &mut buffers.scores[..self.tokens * sizes.count];
        self.multiply_one(&weights.router, acts, scores);
        self.compute.each_row(scores, sizes.count, |_, row| {
            self.compute.kernels.softmax(row);
        });
    }

    /// Each expert once, over all the slots that chose it.
    fn run_experts(
        &self,
        weights: &ExpertFfn,
        sizes: &ExpertConfig,
        normed: &[f32],
        chunk: Chunk,
        buffers: &mut ExpertBuffers,
        scratch: &mut [u8],
    ) {
        let width = self.config.width;
        let slots = chunk.tokens * sizes.used;
        let mut from = 0;
        while from < slots {
            let expert = buffers.expert_at(from);
            let count = (from..slots)
                .take_while(|&i| buffers.expert_at(i) == expert)
                .count();
            let order = &buffers.order[from..from + count];
            let matrices = [&weights.gate.0[expert], &weights.up.0[expert]];
            let formats = matrices.map(|matrix| act_format(matrix.ty));
            for (i, format) in formats.into_iter().enumerate() {
                if i == 1 && format == formats[0] {
                    continue;
                }
                let row = format.row_bytes(width);
                let rows = buffers.inputs.rows_mut(format, width, count);
                for (slot, out) in order.iter().zip(rows.chunks_mut(row)) {
                    let token = chunk.start + *slot as usize / sizes.used;
                    let x = &normed[token * width..][..width];
                    self.compute.kernels.quantize_act(format, x, out);
                }
            }
            let hidden = &mut buffers.hidden[..count * 2 * sizes.ffn];
            let (gate, up) =
                TileMut::from_slice(hidden, count, 2 * sizes.ffn).split_rows(sizes.ffn);
            let product = |i: usize, out| Product {
                weights: self.model.weights(matrices[i]),
                x: buffers.inputs.rows(formats[i], width, count),
                out,
            };
            matrices.iter().for_each(|matrix| self.model.before(matrix));
            self.compute
                .multiply(&mut [product(0, gate), product(1, up)], scratch);
            matrices.iter().for_each(|matrix| self.model.after(matrix));
            self.activate(hidden, 2 * sizes.ffn, sizes.ffn);
            let down = &weights.down.0[expert];
            let format = act_format(down.ty);
            let rows = buffers.encoded.rows_mut(format, sizes.ffn, count);
            self.compute
                .encode(format, hidden, 2 * sizes.ffn, sizes.ffn, rows);
            let x = buffers.encoded.rows(format, sizes.ffn, count);
            let results = &mut buffers.results[from * width..][..count * width];
            self.multiply_rows(down, x, scratch, results);
            from += count;
        }
    }

    /// Adds each token's experts in the order of their rank, whatever order they were computed in.
    fn gather(
        &self,
        sizes: &ExpertConfig,
        chunk: Chunk,
        buffers: &mut ExpertBuffers,
        out: &mut [f32],
    ) {
        let width = self.config.width;
        // The inverse of `order`: where each slot's result stands.
        let slots = chunk.tokens * sizes.used;
        for slot in 0..slots {
            let at = buffers.order[..slots]
                .iter()
                .position(|&s| s as usize == slot)
                .expect("every slot was computed");
            let token = chunk.start + slot / sizes.used;
            self.compute.kernels.add_scaled(
                &mut out[token * width..][..width],
                &buffers.results[at * width..][..width],
                buffers.chosen[slot].weight,
            );
        }
    }
}

/// Tokens whose experts are computed together.
#[derive(Copy, Clone)]
struct Chunk {
    start: usize,
    tokens: usize,
}

impl ExpertBuffers {
    /// The expert of the slot that is computed at this place.
    fn expert_at(&self, place: usize) -> usize {
        self.chosen[self.order[place] as usize].expert as usize
    }
}

/// Each token's best experts, by weight and then by number, and the order in which to compute them.
fn choose(sizes: &ExpertConfig, buffers: &mut ExpertBuffers, chunk: Chunk) {
    for token in 0..chunk.tokens {
        let scores = &mut buffers.scores[(chunk.start + token) * sizes.count..][..sizes.count];
        let chosen = &mut buffers.chosen[token * sizes.used..][..sizes.used];
        let mut sum = 0.0;
        for slot in chosen.iter_mut() {
            let mut best = 0;
            for (expert, &score) in scores.iter().enumerate() {
                if score > scores[best] {
                    best = expert;
                }
            }
            *slot = Slot {
                expert: best as u32,
                weight: scores[best],
            };
            sum += scores[best];
            scores[best] = f32::NEG_INFINITY;
        }
        let divisor = if sizes.routing.renormalize { sum } else { 1.0 };
        for slot in chosen {
            slot.weight = slot.weight / divisor * sizes.scale;
        }
    }
    let slots = chunk.tokens * sizes.used;
    let order = &mut buffers.order[..slots];
    for (i, slot) in order.iter_mut().enumerate() {
        *slot = i as u32;
    }
    order.sort_unstable_by_key(|&slot| (buffers.chosen[slot as usize].expert, slot));
}
