//! `embed`: from pixels to embeddings, through every layer.

use super::clamped::TowerLinear;
use super::patches::Layout;
use super::weights::Tower;
use super::{TowerError, TowerImage, TowerRows};
use crate::compute::Compute;
use crate::embedded::Grid;
use crate::layer::NormWeights;
use crate::matrix::Matrix;
use crate::spare::Spare;
use alloc::vec;
use alloc::vec::Vec;
use strata_kernels::TileMut;

impl Tower {
    /// Embeds an image, or a tile of one. The rows come in the order of the grid, row by row.
    pub fn embed(
        &self,
        compute: &Compute<'_>,
        image: TowerImage<'_>,
    ) -> Result<TowerRows, TowerError> {
        Ok(self.project(compute, self.encode(compute, image)?))
    }

    /// An image's patches behind the last layer: what [`project`](Self::project) makes rows of.
    pub fn encode(
        &self,
        compute: &Compute<'_>,
        image: TowerImage<'_>,
    ) -> Result<TowerPatches, TowerError> {
        let layout = Layout::new(&self.config, image)?;
        let pass = self.pass(compute, &layout);
        pass.check_places(image)?;
        let mut x = pass.embed_patches(image);
        if let Some(norm) = &self.weights.pre_norm {
            x = pass.norm(norm, &x);
        }
        let stacked = pass.layers(&mut x);
        x.drain(..pass.classes * self.config.width);
        if let Some(norm) = &self.weights.post_norm {
            x = pass.norm(norm, &x);
        }
        Ok(TowerPatches { x, stacked, layout })
    }

    /// Embeddings from patches.
    pub fn project(&self, compute: &Compute<'_>, patches: TowerPatches) -> TowerRows {
        let TowerPatches { x, stacked, layout } = patches;
        let pass = self.pass(compute, &layout);
        let (rows, grid) = match &self.weights.resampler {
            Some(resampler) => {
                let rows = pass.resample(resampler, x);
                let columns = rows.len() / self.config.text_width;
                (rows, Grid { rows: 1, columns })
            }
            None => (pass.project(x, &stacked), layout.grid),
        };
        TowerRows { rows, grid }
    }

    fn pass<'a>(&'a self, compute: &'a Compute<'a>, layout: &'a Layout) -> TowerPass<'a> {
        TowerPass {
            tower: self,
            compute,
            layout,
            classes: usize::from(self.weights.class.is_some()),
        }
    }
}

/// An image's patches behind a tower's last layer.
pub struct TowerPatches {
    /// (patches, width).
    x: Vec<f32>,
    /// What was made behind layers in between.
    stacked: Vec<Vec<f32>>,
    layout: Layout,
}

impl TowerPatches {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.layout.patches.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.layout.patches.is_empty()
    }
}

impl core::fmt::Debug for TowerPatches {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("TowerPatches")
            .field("patches", &self.len())
            .finish_non_exhaustive()
    }
}

/// An image on its way through a tower.
pub(super) struct TowerPass<'a> {
    pub(super) tower: &'a Tower,
    pub(super) compute: &'a Compute<'a>,
    pub(super) layout: &'a Layout,
    /// Vectors before the patches.
    pub(super) classes: usize,
}

impl TowerPass<'_> {
    /// Patches and their places: (classes + patches, width).
    fn embed_patches(&self, image: TowerImage<'_>) -> Vec<f32> {
        let (config, weights) = (&self.tower.config, &self.tower.weights);
        let (kernels, width) = (self.compute.kernels, config.width);
        let pixels = self.layout.pixels(image, config.patch_size);
        let mut patches = vec![0.0; self.layout.patches.len() * width];
        for (frame, matrix) in weights.patch.iter().enumerate() {
            if frame == 0 {
                self.multiply(matrix, &pixels, &mut patches);
            } else {
                let mut more = vec![0.0; patches.len()];
                self.multiply(matrix, &pixels, &mut more);
                self.compute.add(&mut patches, &more, width);
            }
        }
        let mut x = weights.class.clone().unwrap_or_default();
        x.extend_from_slice(&patches);
        self.compute.each_row(&mut x, width, |token, row| {
            let Some(patch) = token.checked_sub(self.classes) else {
                if !weights.places.class.is_empty() {
                    kernels.add(row, &weights.places.class);
                }
                return;
            };
            if let Some(bias) = &weights.patch_bias {
                kernels.add(row, bias);
            }
            self.add_place(self.layout.patches[patch], row);
        });
        x
    }

    /// Norms each row.
    pub(super) fn norm(&self, weights: &NormWeights, x: &[f32]) -> Vec<f32> {
        self.norm_in(&mut Spare::default(), weights, x)
    }

    /// The same in a spare buffer.
    pub(super) fn norm_in(&self, spare: &mut Spare, weights: &NormWeights, x: &[f32]) -> Vec<f32> {
        let mut out = spare.take(x.len());
        let (kind, epsilon) = (self.tower.spec.norm, self.tower.config.epsilon);
        self.compute.norm(kind, weights, epsilon, x, &mut out);
        out
    }

    /// A matrix and its bias over rows of `input`.
    pub(super) fn linear(&self, linear: &TowerLinear, input: &[f32]) -> Vec<f32> {
        self.linear_in(&mut Spare::default(), linear, input)
    }

    /// The same in a spare buffer.
    pub(super) fn linear_in(
        &self,
        spare: &mut Spare,
        linear: &TowerLinear,
        input: &[f32],
    ) -> Vec<f32> {
        let input = linear.input(input);
        let (columns, rows) = (linear.linear.matrix.columns, linear.linear.matrix.rows);
        let mut out = spare.take(input.len() / columns * rows);
        let packed = &self.tower.packed;
        packed.linear(self.compute, &linear.linear, &input, &mut out);
        if linear.bounds.is_some() {
            self.compute
                .each_row(&mut out, rows, |_, row| linear.bound(row));
        }
        out
    }

    /// A matrix over rows of `input`.
    pub(super) fn multiply(&self, matrix: &Matrix, input: &[f32], out: &mut [f32]) {
        let tokens = input.len() / matrix.columns;
        self.multiply_into(matrix, input, TileMut::from_slice(out, tokens, matrix.rows));
    }

    pub(super) fn multiply_into(&self, matrix: &Matrix, input: &[f32], out: TileMut<'_>) {
        self.tower.packed.multiply(self.compute, matrix, input, out);
    }
}
