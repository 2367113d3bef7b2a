//! `hear`: from a window of a spectrogram to the keys and values that the decoder looks at.

use super::WhisperError;
use super::config::WhisperConfig;
use super::weights::{AttentionLayer, Network, Whisper};
use crate::compute::Compute;
use crate::config::AttentionConfig;
use crate::layer::NormWeights;
use crate::matrix::Linear;
use crate::mixer::attention::whole::{self, Attention};
use crate::spec::{AttnGate, Norm};
use crate::workspace::{EncoderBuffers, TokenPosition};
use alloc::vec;
use alloc::vec::Vec;
use strata_kernels::{Activation, KvType, TileMut};
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

/// Computes with Whisper's matrices.
#[derive(Copy, Clone)]
pub(super) struct WhisperPass<'a> {
    pub(super) model: &'a Whisper,
    pub(super) compute: &'a Compute<'a>,
}

impl WhisperPass<'_> {
    pub(super) fn linear(&self, linear: &Linear, input: &[f32]) -> Vec<f32> {
        let tokens = input.len() / linear.matrix.columns;
        let mut out = vec![0.0; tokens * linear.matrix.rows];
        self.model
            .packed
            .linear(self.compute, linear, input, &mut out);
        out
    }

    pub(super) fn norm(&self, weights: &NormWeights, x: &[f32]) -> Vec<f32> {
        let mut out = vec![0.0; x.len()];
        let epsilon = WhisperConfig::EPSILON;
        self.compute
            .norm(Norm::LayerBias, weights, epsilon, x, &mut out);
        out
    }

    /// x += linear over `input`.
    pub(super) fn add_branch(&self, linear: &Linear, input: &[f32], x: &mut [f32]) {
        let branch = self.linear(linear, input);
        self.compute.add(x, &branch, self.model.config.width);
    }

    pub(super) fn gelu(&self, x: &mut [f32], width: usize) {
        let kernels = self.compute.kernels;
        self.compute.each_row(x, width, |_, row| {
            kernels.activate(Activation::GeluErf, row);
        });
    }

    /// The feed-forward network, added to `x`.
    pub(super) fn network(&self, network: &Network, x: &mut [f32]) {
        let normed = self.norm(&network.norm, x);
        let mut hidden = self.linear(&network.up, &normed);
        self.gelu(&mut hidden, network.up.matrix.rows);
        self.add_branch(&network.down, &hidden, x);
    }

    /// A convolution three wide over rows of `x`, and GELU: a row for each `stride` rows.
    fn convolve(&self, linear: &Linear, x: &[f32], channels: usize, stride: usize) -> Vec<f32> {
        let rows = x.len() / channels;
        let mut columns = vec![0.0; rows / stride * channels * 3];
        self.compute
            .each_row(&mut columns, channels * 3, |row, out| {
                for tap in 0..3 {
                    // Silence before the first row and after the last.
                    let place = (row * stride + tap).checked_sub(1);
                    let Some(place) = place.filter(|&place| place < rows) else {
                        continue;
                    };
                    let from = &x[place * channels..][..channels];
                    for (channel, &value) in from.iter().enumerate() {
                        out[channel * 3 + tap] = value;
                    }
                }
            });
        let mut out = self.linear(linear, &columns);
        self.gelu(&mut out, linear.matrix.rows);
        out
    }

    /// Attention among all positions, added to `x`.
    fn attend(
        &self,
        layer: &AttentionLayer,
        sizes: &AttentionConfig,
        buffers: &mut EncoderBuffers,
        x: &mut [f32],
    ) {
        let width = self.model.config.width;
        let tokens = x.len() / width;
        let normed = self.norm(&layer.norm, x);
        let mut qkv = vec![0.0; 3 * x.len()];
        let mut rest = TileMut::from_slice(&mut qkv, tokens, 3 * width);
        let linears = [&layer.query, &layer.key, &layer.value];
        for linear in linears {
            let (part, after) = rest.split_rows(width);
            rest = after;
            self.model
                .packed
                .multiply(self.compute, &linear.matrix, &normed, part);
        }
        let kernels = self.compute.kernels;
        self.compute.each_row(&mut qkv, 3 * width, |_, row| {
            for (linear, part) in linears.iter().zip(row.chunks_exact_mut(width)) {
                if let Some(bias) = &linear.bias {
                    kernels.add(part, bias);
                }
            }
        });
        let end = tokens as u32;
        let positions: Vec<TokenPosition> = (0..end)
            .map(|position| TokenPosition {
                span: 0,
                position,
                end,
            })
            .collect();
        let mut mixed = vec![0.0; x.len()];
        Attention {
            compute: self.compute,
            config: sizes,
            positions: &positions,
            starts: &[0, end],
            qkv: &qkv,
            slopes: &[],
            buckets: None,
        }
        .run(buffers, &mut mixed);
        self.add_branch(&layer.output, &mixed, x);
    }

    /// Rows of (tokens, heads, head_size), stored as (heads, tokens, head_size).
    fn by_head(&self, rows: &[f32]) -> Vec<u8> {
        let (width, heads) = (self.model.config.width, self.model.config.decoder_heads);
        let (tokens, size) = (rows.len() / width, width / heads);
        let bytes = KIND.row_bytes(size);
        let mut out = vec![0; heads * tokens * bytes];
        for_each_chunk(self.compute.pool, &mut out, tokens * bytes, |head, out| {
            for (token, out) in out.chunks_exact_mut(bytes).enumerate() {
                let row = &rows[token * width + head * size..][..size];
                self.compute.kernels.kv_store(KIND, row, out);
            }
        });
        out
    }
}

impl Whisper {
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
        let pass = WhisperPass {
            model: self,
            compute,
        };
        let [first, second] = &self.encoder.convolutions;
        let x = pass.convolve(first, window, config.bands, 1);
        let mut x = pass.convolve(second, &x, config.width, 2);
        compute.add(&mut x, &self.encoder.position, config.width);
        let sizes = config.attention(config.encoder_heads);
        let tokens = config.audio_positions;
        let floats = whole::query_floats(&sizes, tokens);
        let stored = whole::stored_bytes(&sizes, tokens);
        let mut buffers = EncoderBuffers {
            queries: vec![0.0; floats],
            keys: vec![0; stored],
            values: vec![0; stored],
            attended: vec![0.0; floats],
            ..EncoderBuffers::default()
        };
        for layer in &self.encoder.layers {
            pass.attend(&layer.attention, &sizes, &mut buffers, &mut x);
            pass.network(&layer.network, &mut x);
        }
        drop(buffers);
        let states = pass.norm(&self.encoder.output_norm, &x);
        let layers = self.decoder.layers.iter().map(|layer| {
            let keys = pass.linear(&layer.cross.key, &states);
            let values = pass.linear(&layer.cross.value, &states);
            [pass.by_head(&keys), pass.by_head(&values)]
        });
        Ok(Heard {
            layers: layers.collect(),
            states,
        })
    }
}

impl WhisperConfig {
    /// Attention with so many heads.
    fn attention(&self, heads: usize) -> AttentionConfig {
        let head_size = self.width / heads;
        AttentionConfig {
            heads,
            kv_heads: heads,
            head_size,
            window: None,
            chunked: false,
            rope: None,
            scale: 1.0 / libm::sqrtf(head_size as f32),
            soft_cap: None,
            alibi: None,
            buckets: None,
            temperature: None,
            clamp: None,
            gate: AttnGate::Never,
            latent: None,
            shares: None,
        }
    }
}
