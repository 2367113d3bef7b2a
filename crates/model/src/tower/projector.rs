//! From patches to positions of the text, and from those to embeddings.

use super::pass::TowerPass;
use super::spec::Merge;
use super::weights::Step;
use alloc::vec;
use alloc::vec::Vec;

impl TowerPass<'_> {
    /// Merges patches and projects them: (positions, text width), in the order of the grid.
    pub(super) fn project(&self, patches: Vec<f32>, stacked: &[Vec<f32>]) -> Vec<f32> {
        let weights = &self.tower.weights;
        let patches = match &weights.merge_norm {
            Some(norm) => self.norm(norm, &patches),
            None => patches,
        };
        let mut x = self.merge(patches);
        let positions = self.layout.squares.len();
        if let Some(merger) = &weights.merger {
            let mut out = vec![0.0; positions * merger.rows];
            self.multiply(merger, &x, &mut out);
            x = out;
        }
        let kernels = self.compute.kernels;
        for step in &weights.steps {
            let width = x.len() / positions;
            match step {
                Step::Norm(kind, norm, epsilon) => {
                    let mut out = vec![0.0; x.len()];
                    self.compute.norm(*kind, norm, *epsilon, &x, &mut out);
                    x = out;
                }
                Step::Linear(linear) => x = self.linear(linear, &x),
                Step::Activate(activation) => self.compute.each_row(&mut x, width, |_, row| {
                    kernels.activate(*activation, row);
                }),
            }
        }
        self.in_grid_order(&self.side_by_side(x, stacked))
    }

    /// Multiplies a mean by the root of its width, and brings it to a mean and a scale, if the file has those.
    fn standardize(&self, row: &mut [f32]) {
        let kernels = self.compute.kernels;
        kernels.scale(row, libm::sqrtf(row.len() as f32));
        if let Some((bias, scale)) = &self.tower.weights.standard {
            kernels.add_scaled(row, bias, -1.0);
            kernels.mul(row, scale);
        }
    }

    /// Squares of patches as one vector each.
    fn merge(&self, patches: Vec<f32>) -> Vec<f32> {
        let config = &self.tower.config;
        let (width, square) = (config.width, config.merge * config.merge);
        let kernels = self.compute.kernels;
        match self.tower.spec.merge {
            // The patches of a square lie one behind the other already.
            Merge::Each | Merge::Shuffle(_) | Merge::Blocks | Merge::Queries => patches,
            Merge::Mean(_) | Merge::RootMean(_) => {
                let mut out = vec![0.0; patches.len() / square];
                self.compute.each_row(&mut out, width, |position, row| {
                    let own = &patches[position * square * width..][..square * width];
                    for patch in own.chunks_exact(width) {
                        kernels.add(row, patch);
                    }
                    kernels.scale(row, 1.0 / square as f32);
                    if let Merge::RootMean(_) = self.tower.spec.merge {
                        self.standardize(row);
                    }
                });
                out
            }
            Merge::Unfold => {
                let mut out = vec![0.0; patches.len()];
                self.compute
                    .each_row(&mut out, square * width, |position, row| {
                        let own = &patches[position * square * width..][..square * width];
                        for (channel, values) in row.chunks_exact_mut(square).enumerate() {
                            for (patch, value) in values.iter_mut().enumerate() {
                                *value = own[patch * width + channel];
                            }
                        }
                    });
                out
            }
        }
    }

    /// Rows in the order of squares, brought into that of the grid.
    fn in_grid_order(&self, rows: &[f32]) -> Vec<f32> {
        let width = rows.len() / self.layout.squares.len();
        let mut out = vec![0.0; rows.len()];
        for (&(row, column), from) in self.layout.squares.iter().zip(rows.chunks_exact(width)) {
            let index = row * self.layout.grid.columns + column;
            out[index * width..][..width].copy_from_slice(from);
        }
        out
    }
}
