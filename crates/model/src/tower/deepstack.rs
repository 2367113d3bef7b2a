//! Results of layers in between that the text model's first layers are given (Qwen3-VL).

use super::clamped::TowerLinear;
use super::pass::TowerPass;
use crate::layer::NormWeights;
use crate::spec::{Activation, Norm};
use alloc::vec;
use alloc::vec::Vec;

/// What makes positions of patches behind one layer.
pub(super) struct Stacked {
    /// The layer behind which it takes them.
    pub(super) layer: usize,
    /// Of a square of patches.
    pub(super) norm: NormWeights,
    pub(super) first: TowerLinear,
    pub(super) second: TowerLinear,
}

impl TowerPass<'_> {
    /// The positions that `stacked` makes of all patches: (positions, text width).
    pub(super) fn stack(&self, stacked: &Stacked, patches: &[f32]) -> Vec<f32> {
        // The patches of a square lie one behind the other already.
        let mut normed = vec![0.0; patches.len()];
        let (norm, epsilon) = (&stacked.norm, self.tower.config.epsilon);
        self.compute
            .norm(Norm::LayerBias, norm, epsilon, patches, &mut normed);
        let mut hidden = self.linear(&stacked.first, &normed);
        let width = stacked.first.linear.matrix.rows;
        self.compute.each_row(&mut hidden, width, |_, row| {
            self.compute.kernels.activate(Activation::GeluErf, row);
        });
        self.linear(&stacked.second, &hidden)
    }

    /// Each position's row, and behind it its rows in `others`.
    pub(super) fn side_by_side(&self, rows: Vec<f32>, others: &[Vec<f32>]) -> Vec<f32> {
        if others.is_empty() {
            return rows;
        }
        let width = self.tower.config.text_width;
        let mut out = Vec::with_capacity(rows.len() * (1 + others.len()));
        for (position, row) in rows.chunks_exact(width).enumerate() {
            out.extend_from_slice(row);
            for other in others {
                out.extend_from_slice(&other[position * width..][..width]);
            }
        }
        out
    }
}
