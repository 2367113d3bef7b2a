//! The operations of a forward pass, spread over the pool's workers.
//!
//! How work is shared never shows in the results: a worker computes whole rows of whole tokens.

use crate::layer::NormWeights;
use crate::spec::Norm;
use strata_kernels::{ActFormat, Job, Kernels, PanelWork};
use strata_platform::{Chunks, Pieces, Pool, each_alone, for_each_chunk, for_each_piece};

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

    /// Calls `work(token, rows)` for each token's pieces, which are `floats` floats in all.
    pub(crate) fn each_piece<P: Pieces>(
        &self,
        floats: usize,
        pieces: P,
        work: impl Fn(usize, P::Piece) + Sync,
    ) {
        if floats <= Self::ALONE {
            each_alone(pieces, work);
        } else {
            for_each_piece(self.pool, pieces, work);
        }
    }

    /// Calls `work(token, row)` for each row of `width` floats.
    pub(crate) fn each_row(
        &self,
        rows: &mut [f32],
        width: usize,
        work: impl Fn(usize, &mut [f32]) + Sync,
    ) {
        self.each_piece(rows.len(), Chunks::new(rows, width), work);
    }

    /// Norms one row.
    pub(crate) fn norm_row(
        &self,
        kind: Norm,
        weights: &NormWeights,
        epsilon: f32,
        x: &[f32],
        out: &mut [f32],
    ) {
        let weight = Some(&weights.weight[..]);
        if kind.is_rms() {
            self.kernels.rms_norm(x, weight, epsilon, out);
        } else {
            let bias = weights.bias.as_deref();
            self.kernels.layer_norm(x, weight, bias, epsilon, out);
        }
    }

    /// Norms one row in place.
    pub(crate) fn norm_in_place(
        &self,
        kind: Norm,
        weights: &NormWeights,
        epsilon: f32,
        x: &mut [f32],
    ) {
        let weight = Some(&weights.weight[..]);
        if kind.is_rms() {
            self.kernels.rms_norm_in_place(x, weight, epsilon);
        } else {
            let bias = weights.bias.as_deref();
            self.kernels.layer_norm_in_place(x, weight, bias, epsilon);
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
            self.norm_row(kind, weights, epsilon, &x[token * width..][..width], out);
        });
    }

    /// x += y.
    pub(crate) fn add(&self, x: &mut [f32], y: &[f32], width: usize) {
        self.each_row(x, width, |token, x| {
            self.kernels.add(x, &y[token * width..][..width]);
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
        let rows = Chunks::new(out, format.row_bytes(width));
        self.each_piece(x.len(), rows, |token, out| {
            self.kernels
                .quantize_act(format, &x[token * stride..][..width], out);
        });
    }

    /// Multiplies. `scratch` has a part for each worker if some of the weights are yet to be packed, or is empty.
    pub(crate) fn multiply<T: PanelWork>(&self, tasks: &mut [T], scratch: &mut [u8]) {
        let workers = self.pool.workers();
        let job = Job::new(self.kernels, tasks, workers);
        if scratch.is_empty() {
            self.pool.share(&|worker| job.work(worker, &mut []));
        } else {
            let part = scratch.len() / workers;
            for_each_chunk(self.pool, scratch, part, |index, part| {
                job.work(index, part);
            });
        }
    }
}
