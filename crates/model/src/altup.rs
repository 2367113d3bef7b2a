//! Alternating updates (<https://arxiv.org/abs/2301.13310>) and learned augmented residuals
//! (<https://arxiv.org/abs/2411.07501>), as Gemma 3n has them.
//!
//! There are several residual streams, of which a layer computes one: before it all are predicted from each other, after it
//! all are corrected by what it changed. Beside attention there is a branch of two small matrices.

use crate::config::Config;
use crate::decoder::Pass;
use crate::error::LoadError;
use crate::layer::{Layer, NormWeights, Projections, norm, projection};
use crate::matrix::{Linear, Matrix};
use crate::residual::{AddNorm, BranchInput};
use crate::tensors::{Tensors, block_name};
use crate::workspace::Workspace;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use strata_platform::Chunks;

/// The most streams.
pub(crate) const MAX_STREAMS: usize = 8;

/// Streams of less are not brought to another's magnitude.
const LEAST: f32 = 1e-5;

/// The matrices that make the streams, and that join them.
pub(crate) struct Streams {
    pub(crate) part: Vec<Projections>,
    pub(crate) join: Vec<Projections>,
}

impl Streams {
    pub(crate) fn load(
        tensors: &mut Tensors<'_, '_>,
        config: &Config,
    ) -> Result<Option<Self>, LoadError> {
        let Some(others) = config.streams.map(|streams| streams.count - 1) else {
            return Ok(None);
        };
        let mut matrices = |name| {
            let all = tensors.experts(name, config.width, config.width, others)?;
            let one = |matrix: Matrix| Projections(vec![Linear { matrix, bias: None }]);
            Ok::<_, LoadError>(all.0.into_iter().map(one).collect())
        };
        Ok(Some(Self {
            part: matrices("altup_proj.weight")?,
            join: matrices("altup_unembd_proj.weight")?,
        }))
    }

    /// All of them.
    pub(crate) fn matrices(&self) -> impl Iterator<Item = &Matrix> {
        let all = self.part.iter().chain(&self.join);
        all.flat_map(|one| one.0.iter().map(|linear| &linear.matrix))
    }
}

/// One layer's weights.
#[derive(Clone, Debug)]
pub(crate) struct AltUp {
    active: usize,
    router_norm: NormWeights,
    /// (streams, width).
    router: Vec<f32>,
    /// (streams · streams, streams).
    predict: Vec<f32>,
    /// (streams, streams).
    correct: Vec<f32>,
    scale: Vec<f32>,
    pub(crate) laurel: Laurel,
}

/// The branch beside attention.
#[derive(Clone, Debug)]
pub(crate) struct Laurel {
    pub(crate) left: Projections,
    pub(crate) right: Projections,
    norm: NormWeights,
}

impl AltUp {
    pub(crate) fn load(
        tensors: &mut Tensors<'_, '_>,
        config: &Config,
        layer: usize,
    ) -> Result<Option<Self>, LoadError> {
        let Some(streams) = config.streams else {
            return Ok(None);
        };
        let (width, count) = (config.width, streams.count as u64);
        let kind = config.spec.norm;
        let name = |part: &str| block_name(layer, part, "weight");
        let rank = tensors.rows(&name("laurel_l")).unwrap_or(1);
        let laurel = Laurel {
            left: projection(tensors, layer, "laurel_l", (width, rank))?,
            right: projection(tensors, layer, "laurel_r", (rank, width))?,
            norm: norm(
                tensors,
                kind,
                &format!("blk.{layer}.laurel_post_norm"),
                width,
            )?,
        };
        let router_norm = format!("blk.{layer}.altup_router_norm");
        Ok(Some(Self {
            active: streams.active,
            router_norm: norm(tensors, kind, &router_norm, width)?,
            router: tensors.vector(&name("altup_router"), &[width as u64, count])?,
            predict: tensors.vector(&name("altup_predict_coef"), &[count, count * count])?,
            correct: tensors.vector(&name("altup_correct_coef"), &[count, count])?,
            scale: tensors.vector(&name("altup_correct_scale"), &[width as u64])?,
            laurel,
        }))
    }

    /// All its matrices.
    pub(crate) fn matrices(&self) -> impl Iterator<Item = &Matrix> {
        let all = self.laurel.left.0.iter().chain(&self.laurel.right.0);
        all.map(|linear| &linear.matrix)
    }
}

impl Pass<'_> {
    /// The root of the mean of squares.
    fn magnitude(&self, x: &[f32]) -> f32 {
        let square = self.compute.kernels.dot(x, x) / x.len() as f32;
        libm::sqrtf(square)
    }

    /// Brings `y` to the magnitude `target`.
    fn to_magnitude(&self, target: f32, y: &mut [f32]) {
        let own = self.magnitude(y).max(libm::sqrtf(LEAST));
        self.compute.kernels.scale(y, target / own);
    }

    /// `x` into `streams` (tokens, streams, width), the others from matrices over it.
    pub(crate) fn part_streams(&self, streams: &Streams, work: &mut Workspace) {
        let (width, floats) = (self.config.width, self.tokens * self.config.width);
        let all = (streams.part.len() + 1) * width;
        let x = &work.x[..floats];
        let rows = &mut work.streams[..self.tokens * all];
        for (token, row) in rows.chunks_exact_mut(all).enumerate() {
            row[..width].copy_from_slice(&x[token * width..][..width]);
        }
        for (other, matrix) in streams.part.iter().enumerate() {
            self.project_rows(matrix, x, &mut work.acts, &mut work.branch[..floats]);
            let branch = &work.branch[..floats];
            let rows = &mut work.streams[..self.tokens * all];
            self.compute.each_row(rows, all, |token, row| {
                let target = self.magnitude(&row[..width]);
                let row = &mut row[(other + 1) * width..][..width];
                row.copy_from_slice(&branch[token * width..][..width]);
                self.to_magnitude(target, row);
            });
        }
    }

    /// The mean of all streams, each brought to the magnitude of the first, into `x`.
    pub(crate) fn join_streams(&self, streams: &Streams, work: &mut Workspace) {
        let (width, floats) = (self.config.width, self.tokens * self.config.width);
        let count = streams.join.len() + 1;
        let all = count * width;
        let rows = &work.streams[..self.tokens * all];
        let x = &mut work.x[..floats];
        for (x, row) in x.chunks_exact_mut(width).zip(rows.chunks_exact(all)) {
            x.copy_from_slice(&row[..width]);
        }
        for (other, matrix) in streams.join.iter().enumerate() {
            let part = (rows, all, (other + 1) * width);
            let branch = &mut work.branch[..floats];
            self.project_part(matrix, part, &mut work.acts, branch);
            let pieces = (Chunks::new(&mut *x, width), Chunks::new(branch, width));
            self.compute.each_piece(floats, pieces, |token, (x, y)| {
                let target = self.magnitude(&rows[token * all..][..width]);
                self.to_magnitude(target, y);
                self.compute.kernels.add(x, y);
            });
        }
        self.compute.each_row(x, width, |_, x| {
            self.compute.kernels.scale(x, 1.0 / count as f32);
        });
    }

    /// What decides how streams mix: a number between −1 and 1 for each.
    fn modalities(&self, altup: &AltUp, x: &[f32], normed: &mut [f32]) -> [f32; MAX_STREAMS] {
        let (kernels, width) = (self.compute.kernels, self.config.width);
        let (kind, epsilon) = (self.config.spec.norm, self.config.epsilon);
        self.compute
            .norm_row(kind, &altup.router_norm, epsilon, x, normed);
        let mut out = [0.0; MAX_STREAMS];
        let rows = altup.router.chunks_exact(width);
        for (out, row) in out.iter_mut().zip(rows) {
            *out = kernels.dot(normed, row) / width as f32;
        }
        kernels.soft_cap(&mut out, 1.0);
        out
    }

    /// Predicts all streams from each other, and begins a layer with the one that it computes.
    pub(crate) fn predict(&self, altup: &AltUp, input: BranchInput<'_>, work: &mut Workspace) {
        let (width, floats) = (self.config.width, self.tokens * self.config.width);
        let count = altup.router.len() / width;
        let streams = &mut work.streams[..self.tokens * count * width];
        let pieces = (
            Chunks::new(streams, count * width),
            Chunks::new(&mut work.x[..floats], width),
            Chunks::new(&mut work.normed[..floats], width),
        );
        self.compute
            .each_piece(floats * count, pieces, |_, (streams, x, normed)| {
                x.copy_from_slice(&streams[altup.active * width..][..width]);
                let found = self.modalities(altup, x, normed);
                let mut shares = [[0.0; MAX_STREAMS]; MAX_STREAMS];
                for (row, weights) in altup.predict.chunks_exact(count).enumerate() {
                    shares[row / count][row % count] = sum(weights, &found);
                }
                for i in 0..width {
                    let mut before = [0.0; MAX_STREAMS];
                    for (stream, before) in before[..count].iter_mut().enumerate() {
                        *before = streams[stream * width + i];
                    }
                    for (stream, shares) in shares[..count].iter().enumerate() {
                        streams[stream * width + i] += sum(&shares[..count], &before);
                    }
                }
                x.copy_from_slice(&streams[altup.active * width..][..width]);
            });
        let begin = AddNorm {
            next: Some(input),
            ..AddNorm::default()
        };
        self.add_norm(&begin, work);
    }

    /// The branch beside attention, from `normed` into `second`. The layer's input is encoded again.
    pub(crate) fn laurel(&self, laurel: &Laurel, layer: &Layer, work: &mut Workspace) {
        let (width, floats) = (self.config.width, self.tokens * self.config.width);
        let between = &mut work.spare[..self.tokens * laurel.left.rows()];
        let normed = &work.normed[..floats];
        self.project_rows(&laurel.left, normed, &mut work.acts, between);
        let second = &mut work.second[..floats];
        self.project_rows(&laurel.right, between, &mut work.acts, second);
        self.compute.each_row(second, width, |token, row| {
            let (kind, epsilon) = (self.config.spec.norm, self.config.epsilon);
            self.compute.norm_in_place(kind, &laurel.norm, epsilon, row);
            let normed = &normed[token * width..][..width];
            self.compute.kernels.add(row, normed);
        });
        for format in layer.input().formats.iter() {
            let rows = work.acts.rows_mut(format, width, self.tokens);
            self.compute.encode(format, normed, width, width, rows);
        }
    }

    /// Adds that branch to `x`.
    pub(crate) fn add_laurel(&self, work: &mut Workspace) {
        let (width, floats) = (self.config.width, self.tokens * self.config.width);
        let (x, second) = (&mut work.x[..floats], &work.second[..floats]);
        self.compute.each_row(x, width, |token, x| {
            let kernels = self.compute.kernels;
            kernels.add(x, &second[token * width..][..width]);
            kernels.scale(x, core::f32::consts::FRAC_1_SQRT_2);
        });
    }

    /// Corrects all streams by what a layer, whose result is `x`, has changed. `normed` is what its embedding is gated by.
    pub(crate) fn correct(&self, altup: &AltUp, work: &mut Workspace) {
        let (width, floats) = (self.config.width, self.tokens * self.config.width);
        let count = altup.router.len() / width;
        let streams = &mut work.streams[..self.tokens * count * width];
        let pieces = (
            Chunks::new(streams, count * width),
            Chunks::new(&mut work.x[..floats], width),
            Chunks::new(&mut work.normed[..floats], width),
        );
        self.compute
            .each_piece(floats * count, pieces, |_, (streams, x, normed)| {
                let found = self.modalities(altup, x, normed);
                for (x, active) in x.iter_mut().zip(&streams[altup.active * width..]) {
                    *x -= active;
                }
                let rows = altup.correct.chunks_exact(count);
                for (stream, weights) in streams.chunks_exact_mut(width).zip(rows) {
                    let share = 1.0 + sum(weights, &found);
                    for (stream, x) in stream.iter_mut().zip(x.iter()) {
                        *stream += x * share;
                    }
                }
                let active = &streams[altup.active * width..][..width];
                normed.copy_from_slice(active);
                self.compute.kernels.mul(normed, &altup.scale);
            });
    }

    /// Adds `branch` to all streams but the first.
    pub(crate) fn add_to_idle(&self, work: &mut Workspace) {
        let width = self.config.width;
        let count = self.config.streams.map_or(1, |streams| streams.count);
        let branch = &work.branch[..self.tokens * width];
        let streams = &mut work.streams[..self.tokens * count * width];
        self.compute.each_row(streams, count * width, |token, row| {
            let branch = &branch[token * width..][..width];
            for idle in row.chunks_exact_mut(width).skip(1) {
                self.compute.kernels.add(idle, branch);
            }
        });
    }
}

/// Products, added up in order.
fn sum(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}
