//! `read`: from samples to logits.

use super::TooShort;
use super::features;
use super::weights::Ctc;
use crate::blocks::{self, BlockPass};
use crate::compute::Compute;
use alloc::vec;
use alloc::vec::Vec;

/// Positions whose places are told together.
const ROWS: usize = 128;

impl Ctc {
    /// Reads a sound at once; gives how likely each letter is at each row: logits, (rows, vocabulary).
    pub fn read(&self, compute: &Compute<'_>, samples: &[f32]) -> Result<Vec<f32>, TooShort> {
        let config = &self.config;
        let least = config.least();
        if samples.len() < least {
            return Err(TooShort {
                found: samples.len(),
                least,
            });
        }
        let normalized = config.normalizes.then(|| features::normalized(samples));
        let samples = normalized.as_deref().unwrap_or(samples);
        let rows = features::rows(self, compute, samples);
        let pass = BlockPass {
            packed: &self.packed,
            compute,
            epsilon: config.epsilon,
        };
        let weights = &self.weights;
        let rows = match &weights.feature_norm {
            Some(norm) => pass.norm(norm, &rows),
            None => rows,
        };
        let mut x = pass.linear(&weights.features, &rows);
        drop(rows);
        let places = self.places(pass, &x);
        compute.add(&mut x, &places, config.width);
        drop(places);
        if !config.norm_first {
            x = pass.norm(&weights.norm, &x);
        }
        let sizes = blocks::attention_sizes(config.width, config.heads);
        let mut room = blocks::room(&sizes, x.len() / config.width);
        for (attention, network) in &weights.layers {
            if config.norm_first {
                let normed = pass.norm(&attention.norm, &x);
                pass.attend(attention, (&sizes, &mut room), &normed, &mut x);
                let normed = pass.norm(&network.norm, &x);
                pass.network(&mut room.spare, network, &normed, &mut x);
            } else {
                let input = x.clone();
                pass.attend(attention, (&sizes, &mut room), &input, &mut x);
                x = pass.norm(&attention.norm, &x);
                let input = x.clone();
                pass.network(&mut room.spare, network, &input, &mut x);
                x = pass.norm(&network.norm, &x);
            }
        }
        if config.norm_first {
            x = pass.norm(&weights.norm, &x);
        }
        Ok(pass.linear(&weights.output, &x))
    }

    /// What tells each state where it is: a convolution over those around it, group by group.
    fn places(&self, pass: BlockPass<'_>, x: &[f32]) -> Vec<f32> {
        let config = &self.config;
        let (width, kernel) = (config.width, config.position_kernel);
        let (count, inner) = (x.len() / width, width / config.position_groups);
        let mut out = vec![0.0; x.len()];
        // Silence before the first and after the last, half of the kernel each.
        let mut around = vec![0.0; (count + kernel) * inner];
        for (group, matrix) in self.weights.position.groups.0.iter().enumerate() {
            let own = around.chunks_exact_mut(inner).skip(kernel / 2);
            for (row, own) in x.chunks_exact(width).zip(own) {
                own.copy_from_slice(&row[group * inner..][..inner]);
            }
            for first in (0..count).step_by(ROWS) {
                let rows = ROWS.min(count - first);
                let input = &around[first * inner..][..(rows - 1 + kernel) * inner];
                let mut made = vec![0.0; rows * inner];
                self.packed
                    .multiply_every(pass.compute, matrix, input, inner, &mut made);
                let into = out[first * width..].chunks_exact_mut(width);
                for (made, out) in made.chunks_exact(inner).zip(into) {
                    out[group * inner..][..inner].copy_from_slice(made);
                }
            }
        }
        let (kernels, bias) = (pass.compute.kernels, &self.weights.position.bias);
        pass.compute
            .each_row(&mut out, width, |_, row| kernels.add(row, bias));
        pass.gelu(&mut out, width);
        out
    }
}
