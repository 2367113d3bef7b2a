//! The feed-forward network of a layer.

use crate::adaptation::every_token;
use crate::adapter::{Rows, RowsMut};
use crate::decoder::Pass;
use crate::layer::{DenseFfn, Formats, Projections};
use crate::matrix::{Linear, Matrix};
use crate::spec::Ffn;
use crate::workspace::{ActParts, Acts};
use strata_kernels::{
    ActFormat, ActRows, ActRowsMut, Gated, PANEL_ROWS, Product, TileMut, Weights, act_format,
};

/// A matrix, or half of one, and its bias.
struct Half<'a> {
    weights: Weights<'a>,
    bias: Option<&'a [f32]>,
    format: ActFormat,
}

impl Pass<'_> {
    /// A dense network: its input, which is encoded already, to `out` (tokens, width), through `hidden`. The last bias is
    /// not added.
    pub(crate) fn dense(
        &self,
        weights: &DenseFfn,
        normed: &[f32],
        acts: &mut Acts,
        hidden: &mut [f32],
        out: &mut [f32],
    ) {
        let hidden = &mut hidden[..self.tokens * weights.input.rows()];
        let (width, inner) = (weights.input.columns(), weights.down.matrix.columns);
        let format = act_format(weights.down.matrix.ty);
        self.observe_all(&weights.input, normed);
        let halves = self.halves(&weights.input, inner);
        // What an adapter adds comes before the activation, and a norm sees whole rows.
        let whole =
            weights.sub_norm.is_some() || weights.sparsity.is_some() || self.adapts(&weights.input);
        match halves.filter(|_| !whole) {
            Some((gate, up)) => {
                let ActParts {
                    rows,
                    hidden: encoded,
                    scratch,
                } = acts.parts();
                let tile = TileMut::from_slice(hidden, self.tokens, weights.input.rows());
                let (gate_out, up_out) = tile.split_rows(inner);
                let biases = [gate.bias, up.as_ref().and_then(|up| up.bias)];
                let product = |weights, format, out| Product {
                    weights,
                    x: rows.rows(format, width, self.tokens),
                    out,
                };
                let gated = Gated::new(
                    product(gate.weights, gate.format, gate_out),
                    up.map(|up| product(up.weights, up.format, up_out)),
                    weights.activation,
                );
                let encoded = encoded.rows_mut(format, inner, self.tokens);
                let fused = self.encodes_in_runs(format, inner);
                let mut gated = [if fused {
                    gated.encoding(ActRowsMut::new(format, inner, encoded))
                } else {
                    gated
                }
                .with_biases(biases)];
                let linears = &weights.input.0;
                linears.iter().for_each(|l| self.model.before(&l.matrix));
                self.compute.multiply(&mut gated, scratch);
                linears.iter().for_each(|l| self.model.after(&l.matrix));
                if !fused {
                    self.encode_hidden(weights, acts, hidden);
                }
            }
            None => {
                self.project(&weights.input, acts, hidden);
                self.adapt_all(&weights.input, normed, hidden);
                self.activate(weights, acts, hidden);
            }
        }
        let ActParts {
            hidden: encoded,
            scratch,
            ..
        } = acts.parts();
        let x = encoded.rows(format, inner, self.tokens);
        self.multiply_rows(&weights.down.matrix, x, scratch, out);
        let x = Rows {
            floats: hidden,
            stride: weights.input.rows(),
        };
        self.observe(&weights.down.matrix, x, self.tokens);
        let out = RowsMut {
            floats: out,
            stride: weights.down.matrix.rows,
            offset: 0,
        };
        self.adapt(&weights.down.matrix, x, out, every_token);
    }

    /// Gate and up, where they can be told apart.
    fn halves<'a>(
        &'a self,
        input: &'a Projections,
        inner: usize,
    ) -> Option<(Half<'a>, Option<Half<'a>>)> {
        let half = |linear: &'a Linear| Half {
            weights: self.model.weights(&linear.matrix),
            bias: linear.bias.as_deref(),
            format: act_format(linear.matrix.ty),
        };
        match (&input.0[..], self.config.spec.ffn) {
            ([gate, up], _) => Some((half(gate), Some(half(up)))),
            ([plain], Ffn::Plain | Ffn::GatedOrRelu) => Some((half(plain), None)),
            ([both], Ffn::Gated(_)) => {
                let both = half(both);
                let (gate, up) = both.weights.split_rows(inner)?;
                let biases = both.bias.map(|bias| bias.split_at(inner));
                let part = |weights, bias| Half {
                    weights,
                    bias,
                    ..both
                };
                Some((
                    part(gate, biases.map(|(gate, _)| gate)),
                    Some(part(up, biases.map(|(_, up)| up))),
                ))
            }
            _ => None,
        }
    }

    /// Whether runs of whole blocks are enough for all workers.
    pub(crate) fn encodes_in_runs(&self, format: ActFormat, inner: usize) -> bool {
        let workers = self.compute.pool.workers();
        workers == 1 || inner / format.block_len().max(PANEL_ROWS) >= 2 * workers
    }

    /// Matrices over rows of their own width, side by side in `out`; without their biases.
    pub(crate) fn project_rows(
        &self,
        matrices: &Projections,
        x: &[f32],
        acts: &mut Acts,
        out: &mut [f32],
    ) {
        self.encode_input(matrices, x, acts);
        self.observe_all(matrices, x);
        self.project(matrices, acts, out);
        self.adapt_all(matrices, x, out);
    }

    /// Encodes the rows that some matrices share.
    pub(crate) fn encode_input(&self, projections: &Projections, input: &[f32], acts: &mut Acts) {
        let width = projections.columns();
        let formats: Formats = projections.formats().collect();
        for format in formats.iter() {
            let rows = acts.rows_mut(format, width, self.tokens);
            self.compute.encode(format, input, width, width, rows);
        }
    }

    /// Several matrices over one encoded input, side by side in `out`, in one go; without their biases.
    pub(crate) fn project(&self, projections: &Projections, acts: &mut Acts, out: &mut [f32]) {
        let (width, columns) = (projections.columns(), projections.rows());
        let ActParts { rows, scratch, .. } = acts.parts();
        let mut rest = Some(TileMut::from_slice(out, self.tokens, columns));
        let mut product = |linear: Option<&Linear>| {
            let matrix = &linear?.matrix;
            let (out, after) = rest.take()?.split_rows(matrix.rows);
            rest = Some(after);
            Some(Product {
                weights: self.model.weights(matrix),
                x: rows.rows(act_format(matrix.ty), width, self.tokens),
                out,
            })
        };
        // A layer projects into four matrices at most.
        let linears = &projections.0;
        let mut products = [0, 1, 2, 3].map(|i| product(linears.get(i)));
        linears.iter().for_each(|l| self.model.before(&l.matrix));
        self.compute.multiply(&mut products, scratch);
        linears.iter().for_each(|l| self.model.after(&l.matrix));
    }

    /// Matrices over a part of each row, from `offset` on, side by side in `out`; without their biases.
    pub(crate) fn project_part(
        &self,
        projections: &Projections,
        (rows, stride, offset): (&[f32], usize, usize),
        acts: &mut Acts,
        out: &mut [f32],
    ) {
        let (width, columns) = (projections.columns(), projections.rows());
        let formats: Formats = projections.formats().collect();
        let rows = &rows[offset..];
        for format in formats.iter() {
            let encoded = acts.rows_mut(format, width, self.tokens);
            self.compute.encode(format, rows, stride, width, encoded);
        }
        self.project(projections, acts, out);
        let mut offset = 0;
        for linear in &projections.0 {
            let x = Rows {
                floats: rows,
                stride,
            };
            self.observe(&linear.matrix, x, self.tokens);
            let out = RowsMut {
                floats: &mut *out,
                stride: columns,
                offset,
            };
            self.adapt(&linear.matrix, x, out, every_token);
            offset += linear.matrix.rows;
        }
    }

    /// One matrix over the rows that were encoded last, as many as `out` has room for.
    pub(crate) fn multiply_one(&self, matrix: &Matrix, acts: &mut Acts, out: &mut [f32]) {
        let tokens = out.len() / matrix.rows;
        let ActParts { rows, scratch, .. } = acts.parts();
        let x = rows.rows(act_format(matrix.ty), matrix.columns, tokens);
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

    /// Biases and the activation, in place, and the result encoded: what [`Gated`] does, row by row.
    fn activate(&self, weights: &DenseFfn, acts: &mut Acts, hidden: &mut [f32]) {
        let kernels = self.compute.kernels;
        let activation = weights.activation;
        let (columns, inner) = (weights.input.rows(), weights.down.matrix.columns);
        self.compute.each_row(hidden, columns, |_, row| {
            weights.input.add_biases(kernels, row);
            let (gate, up) = row.split_at_mut(inner);
            if let Some(deviations) = weights.sparsity {
                keep_largest(gate, deviations);
            }
            match self.config.spec.ffn {
                Ffn::GatedOrRelu if up.is_empty() => kernels.activate(activation, gate),
                Ffn::Gated(_) | Ffn::GatedOrRelu => kernels.activate_mul(activation, gate, up),
                Ffn::Plain => kernels.activate(activation, gate),
            }
            if let Some(norm) = &weights.sub_norm {
                let (kind, epsilon) = (self.config.spec.norm, self.config.epsilon);
                self.compute.norm_in_place(kind, norm, epsilon, gate);
            }
        });
        self.encode_hidden(weights, acts, hidden);
    }

    fn encode_hidden(&self, weights: &DenseFfn, acts: &mut Acts, hidden: &[f32]) {
        let (columns, inner) = (weights.input.rows(), weights.down.matrix.columns);
        let format = act_format(weights.down.matrix.ty);
        let rows = acts.parts().hidden.rows_mut(format, inner, self.tokens);
        self.compute.encode(format, hidden, columns, inner, rows);
    }
}

/// Takes the mean and so many standard deviations from each of `x`, and leaves what is above 0.
fn keep_largest(x: &mut [f32], deviations: f32) {
    let mean = mean(x.iter().copied());
    let square = |x: &f32| (x - mean) * (x - mean);
    let deviation = libm::sqrtf(self::mean(x.iter().map(square)));
    let least = mean + deviation * deviations;
    x.iter_mut().for_each(|x| *x = (*x - least).max(0.0));
}

/// The mean, in 16 lanes.
fn mean(x: impl ExactSizeIterator<Item = f32>) -> f32 {
    let count = x.len() as f32;
    let mut lanes = [0.0f32; 16];
    for (i, x) in x.enumerate() {
        lanes[i % 16] += x;
    }
    lanes.iter().sum::<f32>() / count
}
