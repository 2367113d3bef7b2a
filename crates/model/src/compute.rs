//! The operations of a forward pass, spread over the pool's workers.
//!
//! How work is shared never shows in the results: a worker computes whole rows of whole tokens.

use crate::layer::{NormWeights, Projections};
use crate::spec::Norm;
use strata_kernels::{ActFormat, Job, Kernels, Product};
use strata_platform::{Pool, for_each_chunk};

/// What computes: an instruction set's kernels, and workers.
#[derive(Copy, Clone)]
pub struct Compute<'a> {
    /// The kernels.
    pub kernels: &'static Kernels,
    /// The workers.
    pub pool: &'a dyn Pool,
}

impl Compute<'_> {
    /// Rows below this many floats in all are not worth waking workers for.
    const ALONE: usize = 1 << 14;

    /// Calls `work(token, row)` for each row of `width` floats.
    pub(crate) fn each_row(
        &self,
        rows: &mut [f32],
        width: usize,
        work: impl Fn(usize, &mut [f32]) + Sync,
    ) {
        if rows.len() <= Self::ALONE {
            rows.chunks_mut(width)
                .enumerate()
                .for_each(|(token, row)| work(token, row));
        } else {
            for_each_chunk(self.pool, rows, width, work);
        }
    }

    /// Norms each row of `x` into `out`.
    pub(crate) fn norm(
        &self,
        kind: Norm,
        weights: &NormWeights,
        epsilon: f32,
        x: &[f32],
        out: &mut [f32],
    ) {
        let width = weights.weight.len();
        self.each_row(out, width, |token, out| {
            let x = &x[token * width..][..width];
            match kind {
                Norm::Rms => self
                    .kernels
                    .rms_norm(x, Some(&weights.weight), epsilon, out),
                Norm::Layer | Norm::LayerBias => self.kernels.layer_norm(
                    x,
                    Some(&weights.weight),
                    weights.bias.as_deref(),
                    epsilon,
                    out,
                ),
            }
        });
    }

    /// Brings rows of `width` floats, `stride` apart, into the form that a matrix multiplies.
    pub(crate) fn encode(
        &self,
        format: ActFormat,
        x: &[f32],
        stride: usize,
        width: usize,
        out: &mut [u8],
    ) {
        let row = format.row_bytes(width);
        let encode = |token: usize, out: &mut [u8]| {
            self.kernels
                .quantize_act(format, &x[token * stride..][..width], out);
        };
        if x.len() <= Self::ALONE {
            out.chunks_mut(row)
                .enumerate()
                .for_each(|(token, out)| encode(token, out));
        } else {
            for_each_chunk(self.pool, out, row, encode);
        }
    }

    /// Multiplies. `scratch` has a part for each worker if some of the weights are yet to be packed, or is empty.
    pub(crate) fn multiply(&self, products: &mut [Product<'_>], scratch: &mut [u8]) {
        let workers = self.pool.workers();
        let job = Job::new(self.kernels, products, workers);
        if scratch.is_empty() {
            self.pool.run(&|_| job.work(&mut []));
        } else {
            let part = scratch.len() / workers;
            for_each_chunk(self.pool, scratch, part, |_, part| job.work(part));
        }
    }

    /// Adds each projection's bias to its columns of every row.
    pub(crate) fn add_biases(&self, projections: &Projections, out: &mut [f32], width: usize) {
        if projections.0.iter().all(|linear| linear.bias.is_none()) {
            return;
        }
        self.each_row(out, width, |_, row| {
            let mut start = 0;
            for linear in &projections.0 {
                if let Some(bias) = &linear.bias {
                    self.kernels
                        .add(&mut row[start..][..linear.matrix.rows], bias);
                }
                start += linear.matrix.rows;
            }
        });
    }

    /// x += scale · branch.
    pub(crate) fn add_scaled(&self, x: &mut [f32], branch: &[f32], scale: f32, width: usize) {
        self.each_row(x, width, |token, x| {
            let branch = &branch[token * width..][..width];
            if scale == 1.0 {
                self.kernels.add(x, branch);
            } else {
                self.kernels.add_scaled(x, branch, scale);
            }
        });
    }
}
