//! `hear`: from a window of a spectrogram to the keys and values that the decoder looks at.

use super::WhisperError;
use super::config::WhisperConfig;
use super::encoder_weights::EncoderWeights;
use super::weights::Whisper;
use crate::blocks::{self, BlockPass};
use crate::compute::Compute;
use crate::spare::Spare;
use alloc::vec;
use alloc::vec::Vec;
use strata_kernels::KvType;
use strata_platform::for_each_chunk;

/// How the decoder's keys and values are kept.
pub(super) const KIND: KvType = KvType::F32;

/// A window that was heard: the keys and values of each of the decoder's layers, head by head.
#[derive(Clone, Debug)]
pub struct Heard {
    /// (layers; keys and values; heads, positions, head_size).
    pub(super) layers: Vec<[Vec<u8>; 2]>,
    /// (positions, width).
    states: Vec<f32>,
}

impl Heard {
    /// The encoder's states: (positions, width).
    pub fn states(&self) -> &[f32] {
        &self.states
    }
}

impl EncoderWeights {
    /// The states of the first `positions` positions of a window, before the last norm. The others are not looked at.
    pub(crate) fn states(
        &self,
        pass: BlockPass<'_>,
        (bands, heads): (usize, usize),
        window: &[f32],
        positions: usize,
    ) -> Vec<f32> {
        let [first, second] = &self.convolutions;
        let width = second.matrix.rows;
        let x = pass.convolve(first, window, bands, 1);
        let mut x = pass.convolve(second, &x, width, 2);
        pass.compute.add(&mut x, &self.position, width);
        x.truncate(positions * width);
        let sizes = blocks::attention_sizes(width, heads);
        let mut room = blocks::room(&sizes, positions);
        for layer in &self.layers {
            let normed = pass.norm_in(&mut room.spare, &layer.attention.norm, &x);
            pass.attend(&layer.attention, (&sizes, &mut room), &normed, &mut x);
            room.spare.give(normed);
            let normed = pass.norm_in(&mut room.spare, &layer.network.norm, &x);
            pass.network(&mut room.spare, &layer.network, &normed, &mut x);
            room.spare.give(normed);
        }
        x
    }
}

impl Whisper {
    /// What computes with its matrices.
    pub(super) fn pass<'a>(&'a self, compute: &'a Compute<'a>) -> BlockPass<'a> {
        BlockPass {
            packed: &self.packed,
            compute,
            epsilon: WhisperConfig::EPSILON,
        }
    }

    /// Rows of (tokens, heads, head_size), stored as (heads, tokens, head_size).
    fn by_head(&self, compute: &Compute<'_>, rows: &[f32]) -> Vec<u8> {
        let (width, heads) = (self.config.width, self.config.decoder_heads);
        let (tokens, size) = (rows.len() / width, width / heads);
        let bytes = KIND.row_bytes(size);
        let mut out = vec![0; heads * tokens * bytes];
        for_each_chunk(compute.pool, &mut out, tokens * bytes, |head, out| {
            for (token, out) in out.chunks_exact_mut(bytes).enumerate() {
                let row = &rows[token * width + head * size..][..size];
                compute.kernels.kv_store(KIND, row, out);
            }
        });
        out
    }

    /// Hears a window: (frames, bands) of a log-mel spectrogram.
    pub fn hear(&self, compute: &Compute<'_>, window: &[f32]) -> Result<Heard, WhisperError> {
        let config = &self.config;
        let expected = config.frames() * config.bands;
        if window.len() != expected {
            return Err(WhisperError::Window {
                found: window.len(),
                expected,
                frames: config.frames(),
                bands: config.bands,
            });
        }
        let pass = self.pass(compute);
        let sizes = (config.bands, config.encoder_heads);
        let x = self
            .encoder
            .states(pass, sizes, window, config.audio_positions);
        let states = pass.norm(&self.encoder.output_norm, &x);
        let mut spare = Spare::default();
        let layers = self.decoder.layers.iter().map(|layer| {
            [&layer.cross.key, &layer.cross.value].map(|linear| {
                let rows = pass.linear_in(&mut spare, linear, &states);
                let kept = self.by_head(compute, &rows);
                spare.give(rows);
                kept
            })
        });
        Ok(Heard {
            layers: layers.collect(),
            states,
        })
    }
}
