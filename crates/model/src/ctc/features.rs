//! From samples to rows: convolutions over sound, some rows at a time, so that they take little memory.

use super::config::CtcNorm;
use super::weights::{Convolution, Ctc};
use crate::compute::Compute;
use alloc::borrow::Cow;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use strata_kernels::Activation;

/// The epsilon of the convolutions' norms.
const EPSILON: f32 = 1e-5;
/// Rows that are made together.
const ROWS: usize = 128;
/// Rows of the first convolution whose sums are made together.
const FIRST_ROWS: usize = 4096;

/// Sound brought to a mean of 0 and a variance of 1.
pub(super) fn normalized(samples: &[f32]) -> Vec<f32> {
    let count = samples.len().max(1) as f64;
    let mean = samples.iter().map(|&x| f64::from(x)).sum::<f64>() / count;
    let squares = samples.iter().map(|&x| {
        let off = f64::from(x) - mean;
        off * off
    });
    let scale = 1.0 / libm::sqrt(squares.sum::<f64>() / count + 1e-7);
    let all = samples.iter();
    all.map(|&x| ((f64::from(x) - mean) * scale) as f32)
        .collect()
}

/// The convolutions over one sound.
struct Features<'a> {
    model: &'a Ctc,
    compute: &'a Compute<'a>,
    samples: &'a [f32],
    /// What the first one's channels are multiplied by, and what is added to them.
    scales: Option<(Vec<f32>, Vec<f32>)>,
}

impl Features<'_> {
    /// Some rows of a convolution, before its norm.
    fn convolved(&self, layer: usize, rows: &Range<usize>) -> Vec<f32> {
        let sizes = self.model.config.convolutions[layer];
        let needed = rows.start * sizes.stride..(rows.end - 1) * sizes.stride + sizes.kernel;
        let (input, channels) = match layer.checked_sub(1) {
            None => (Cow::Borrowed(&self.samples[needed]), 1),
            Some(below) => (
                Cow::Owned(self.rows(below, &needed)),
                self.model.config.convolutions[below].channels,
            ),
        };
        let linear = &self.model.weights.convolutions[layer].linear;
        let mut out = vec![0.0; rows.len() * sizes.channels];
        let stride = sizes.stride * channels;
        self.model
            .packed
            .linear_every(self.compute, linear, &input, stride, &mut out);
        out
    }

    /// Some rows of a convolution.
    fn rows(&self, layer: usize, rows: &Range<usize>) -> Vec<f32> {
        let mut out = self.convolved(layer, rows);
        let kernels = self.compute.kernels;
        let Convolution { linear, norm } = &self.model.weights.convolutions[layer];
        let scales = self.scales.as_ref().filter(|_| layer == 0);
        self.compute
            .each_row(&mut out, linear.matrix.rows, |_, row| {
                match (scales, norm) {
                    (Some((scale, shift)), _) => {
                        for ((x, scale), shift) in row.iter_mut().zip(scale).zip(shift) {
                            *x = *x * scale + shift;
                        }
                    }
                    (None, Some(norm)) => {
                        let bias = norm.bias.as_deref();
                        kernels.layer_norm_in_place(row, Some(&norm.weight), bias, EPSILON);
                    }
                    (None, None) => {}
                }
                kernels.activate(Activation::GeluErf, row);
            });
        out
    }

    /// Looks at all rows of the first convolution, channel by channel.
    fn look(&mut self, count: usize) {
        let Some(norm) = &self.model.weights.convolutions[0].norm else {
            return;
        };
        let width = norm.weight.len();
        let (mut sums, mut squares) = (vec![0.0f64; width], vec![0.0f64; width]);
        for first in (0..count).step_by(FIRST_ROWS) {
            let rows = first..count.min(first + FIRST_ROWS);
            for row in self.convolved(0, &rows).chunks_exact(width) {
                for ((&x, sum), square) in row.iter().zip(&mut sums).zip(&mut squares) {
                    let x = f64::from(x);
                    *sum += x;
                    *square += x * x;
                }
            }
        }
        let count = count as f64;
        let (mut scales, mut shifts) = (Vec::new(), Vec::new());
        for channel in 0..width {
            let mean = sums[channel] / count;
            let variance = (squares[channel] / count - mean * mean).max(0.0);
            let weight = f64::from(norm.weight[channel]);
            let scale = weight / libm::sqrt(variance + f64::from(EPSILON));
            let bias = norm.bias.as_ref().map_or(0.0, |bias| bias[channel].into());
            scales.push(scale as f32);
            shifts.push((bias - mean * scale) as f32);
        }
        self.scales = Some((scales, shifts));
    }
}

/// All rows of a sound: (rows, channels).
pub(super) fn rows(model: &Ctc, compute: &Compute<'_>, samples: &[f32]) -> Vec<f32> {
    let config = &model.config;
    let (Some(first), count) = (config.convolutions.first(), config.rows(samples.len())) else {
        return Vec::new();
    };
    let mut features = Features {
        model,
        compute,
        samples,
        scales: None,
    };
    if config.norm == CtcNorm::Group {
        features.look((samples.len() - first.kernel) / first.stride + 1);
    }
    let last = config.convolutions.len() - 1;
    let mut out = Vec::with_capacity(count * config.convolutions[last].channels);
    for row in (0..count).step_by(ROWS) {
        out.extend(features.rows(last, &(row..count.min(row + ROWS))));
    }
    out
}
