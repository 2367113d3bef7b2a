//! `hear`: from a window of a spectrogram to embeddings.

use super::AudioTowerError;
use super::spec::AudioMerge;
use super::weights::{AudioTower, Step};
use crate::blocks::BlockPass;
use crate::compute::Compute;
use crate::spec::Norm;
use alloc::vec;
use alloc::vec::Vec;
use strata_kernels::Activation;

impl AudioTower {
    /// Embeds a window: (frames, bands) of a log-mel spectrogram, of which the first `sound` frames have sound and the
    /// others silence. Gives (positions, width of the text model), so many positions as [`text_positions`] says.
    ///
    /// [`text_positions`]: super::AudioTowerConfig::text_positions
    pub fn hear(
        &self,
        compute: &Compute<'_>,
        window: &[f32],
        sound: usize,
    ) -> Result<Vec<f32>, AudioTowerError> {
        let config = &self.config;
        let (frames, bands) = (config.frames(), config.bands);
        if window.len() != frames * bands {
            return Err(AudioTowerError::Window {
                found: window.len(),
                expected: frames * bands,
                frames,
                bands,
            });
        }
        if sound > frames {
            return Err(AudioTowerError::Sound { sound, frames });
        }
        let pass = BlockPass {
            packed: &self.packed,
            compute,
            epsilon: config.epsilon,
        };
        let sizes = (bands, config.heads);
        if config.text_positions(sound) == 0 {
            return Ok(Vec::new());
        }
        let states = self
            .encoder
            .states(pass, sizes, window, config.heeded(sound));
        let mut x = self.merge(pass, states);
        for step in &self.steps {
            x = self.step(pass, step, x, config.text_positions(sound));
        }
        Ok(x)
    }

    /// Positions of the encoder, normed and merged.
    fn merge(&self, pass: BlockPass<'_>, states: Vec<f32>) -> Vec<f32> {
        let width = self.config.width;
        let norm = &self.encoder.output_norm;
        match self.config.spec.merge {
            AudioMerge::Mean(count) => {
                let kernels = pass.compute.kernels;
                let mut means = vec![0.0; states.len() / (width * count) * width];
                pass.compute.each_row(&mut means, width, |position, row| {
                    let own = &states[position * count * width..][..count * width];
                    for state in own.chunks_exact(width) {
                        kernels.add(row, state);
                    }
                    kernels.scale(row, 1.0 / count as f32);
                });
                pass.norm(norm, &means)
            }
            AudioMerge::Stack => {
                let mut stacked = pass.norm(norm, &states);
                let long = width * self.config.merge;
                stacked.resize(stacked.len().next_multiple_of(long), 0.0);
                stacked
            }
        }
    }

    /// A step of the projector over so many vectors.
    fn step(&self, pass: BlockPass<'_>, step: &Step, mut x: Vec<f32>, rows: usize) -> Vec<f32> {
        let (compute, columns) = (pass.compute, x.len() / rows);
        let kernels = compute.kernels;
        match step {
            Step::Rms(weights, epsilon) => {
                let mut out = vec![0.0; x.len()];
                compute.norm(Norm::Rms, weights, *epsilon, &x, &mut out);
                out
            }
            Step::Linear(linear) => pass.linear(linear, &x),
            Step::Gelu => {
                pass.gelu(&mut x, columns);
                x
            }
            Step::SwiGlu => {
                let half = columns / 2;
                let mut out = vec![0.0; rows * half];
                compute.each_row(&mut out, half, |row, out| {
                    let (values, gates) = x[row * columns..][..2 * half].split_at(half);
                    out.copy_from_slice(gates);
                    kernels.activate(Activation::Silu, out);
                    kernels.mul(out, values);
                });
                out
            }
        }
    }
}
