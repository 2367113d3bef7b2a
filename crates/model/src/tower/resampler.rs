//! Learned queries that attend to an image's patches (MiniCPM-V): as many positions for every image.

use super::clamped::TowerLinear;
use super::pass::TowerPass;
use crate::layer::NormWeights;
use crate::matrix::Matrix;
use crate::spec::Norm;
use alloc::vec;
use alloc::vec::Vec;
use strata_kernels::{pow, sin_cos};

/// The queries, and what their attention is made of.
pub(super) struct Resampler {
    /// (queries, width).
    pub(super) queries: Vec<f32>,
    pub(super) query_norm: NormWeights,
    /// From a patch's vector to one of this width.
    pub(super) patches: Option<TowerLinear>,
    pub(super) patch_norm: NormWeights,
    /// Of queries, keys and values.
    pub(super) qkv: [TowerLinear; 3],
    pub(super) output: TowerLinear,
    pub(super) post_norm: NormWeights,
    pub(super) projection: Matrix,
    pub(super) heads: usize,
}

impl TowerPass<'_> {
    /// What the queries make of all patches: (queries, text width).
    pub(super) fn resample(&self, resampler: &Resampler, patches: Vec<f32>) -> Vec<f32> {
        let width = resampler.projection.columns;
        let norm = |weights: &NormWeights, x: &[f32]| {
            let mut out = vec![0.0; x.len()];
            let epsilon = self.tower.config.epsilon;
            self.compute
                .norm(Norm::LayerBias, weights, epsilon, x, &mut out);
            out
        };
        let patches = match &resampler.patches {
            Some(linear) => self.linear(linear, &patches),
            None => patches,
        };
        let patches = norm(&resampler.patch_norm, &patches);
        let mut placed = patches.clone();
        self.compute.each_row(&mut placed, width, |patch, row| {
            let (y, x) = self.layout.patches[patch];
            self.compute.kernels.add(row, &waves(x, y, width));
        });
        let [queries, keys, values] = &resampler.qkv;
        let normed = norm(&resampler.query_norm, &resampler.queries);
        let queries = self.linear(queries, &normed);
        let (keys, values) = (self.linear(keys, &placed), self.linear(values, &patches));
        let mut mixed = vec![0.0; queries.len()];
        self.compute.each_row(&mut mixed, width, |query, row| {
            let query = &queries[query * width..][..width];
            self.look(query, (&keys, &values), resampler.heads, row);
        });
        let mixed = self.linear(&resampler.output, &mixed);
        let mixed = norm(&resampler.post_norm, &mixed);
        let mut out = vec![0.0; mixed.len()];
        self.multiply(&resampler.projection, &mixed, &mut out);
        out
    }

    /// Attention of one query to all keys, head by head.
    fn look(&self, query: &[f32], (keys, values): (&[f32], &[f32]), heads: usize, out: &mut [f32]) {
        let (kernels, width) = (self.compute.kernels, query.len());
        let size = width / heads;
        let scale = 1.0 / libm::sqrtf(size as f32);
        let mut scores = vec![0.0; keys.len() / width];
        for (head, out) in out.chunks_exact_mut(size).enumerate() {
            let part = head * size..(head + 1) * size;
            for (score, key) in scores.iter_mut().zip(keys.chunks_exact(width)) {
                *score = kernels.dot(&query[part.clone()], &key[part.clone()]) * scale;
            }
            kernels.softmax(&mut scores);
            for (&score, value) in scores.iter().zip(values.chunks_exact(width)) {
                kernels.add_scaled(out, &value[part.clone()], score);
            }
        }
    }
}

/// A place as waves: sines and cosines of the column, then of the row.
fn waves(column: usize, row: usize, width: usize) -> Vec<f32> {
    let quarter = width / 4;
    let wave = |place: usize, index: usize| {
        let frequency = pow(10_000.0, -(index as f64) / quarter as f64);
        sin_cos(frequency * place as f64)
    };
    let axis = |place: usize| {
        let sines = (0..quarter).map(move |index| wave(place, index).0);
        sines.chain((0..quarter).map(move |index| wave(place, index).1))
    };
    axis(column).chain(axis(row)).collect()
}
