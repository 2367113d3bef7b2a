//! `write`: from tokens and a window to logits.

use super::WhisperError;
use super::encoder::{Heard, KIND};
use super::weights::Whisper;
use crate::blocks::{AttentionLayer, BlockPass};
use crate::compute::Compute;
use crate::mixer::attention::stored::{self, StoredRows};
use crate::spare::Spare;
use alloc::vec;
use alloc::vec::Vec;
use strata_kernels::{KvRows, TileMut};
use strata_platform::for_each_chunk;

/// A text that is being written: the keys and values of its tokens.
#[derive(Clone, Debug)]
pub struct WhisperState {
    /// (layers; keys and values; heads, positions, head_size).
    layers: Vec<[Vec<u8>; 2]>,
    len: usize,
}

impl WhisperState {
    /// How many tokens it has read.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has read nothing yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Forgets all tokens but the first `len`.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

/// What some heads look at in a window, token by token.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Alignment {
    /// Layers and heads.
    pub heads: Vec<(usize, usize)>,
    /// For each head (tokens, positions): shares that add up to 1.
    pub shares: Vec<Vec<f32>>,
}

impl Alignment {
    /// Of these heads.
    pub fn of(heads: Vec<(usize, usize)>) -> Self {
        let shares = vec![Vec::new(); heads.len()];
        Self { heads, shares }
    }
}

impl Whisper {
    /// A text without tokens.
    pub fn state(&self) -> WhisperState {
        let config = &self.config;
        let size = config.width / config.decoder_heads;
        let bytes = config.decoder_heads * config.text_positions * KIND.row_bytes(size);
        let layer = || [vec![0; bytes], vec![0; bytes]];
        WhisperState {
            layers: (0..config.decoder_layers).map(|_| layer()).collect(),
            len: 0,
        }
    }

    /// Reads tokens after those that `state` has; gives the logits after each of the last `rows` of them:
    /// (rows, vocabulary). `alignment` hears what its heads look at.
    pub fn write(
        &self,
        compute: &Compute<'_>,
        (heard, state): (&Heard, &mut WhisperState),
        tokens: &[u32],
        rows: usize,
        mut alignment: Option<&mut Alignment>,
    ) -> Result<Vec<f32>, WhisperError> {
        let config = &self.config;
        let (width, vocabulary) = (config.width, config.vocabulary);
        let end = state.len + tokens.len();
        if end > config.text_positions {
            return Err(WhisperError::Position {
                position: end - 1,
                positions: config.text_positions,
            });
        }
        if state.layers.len() != config.decoder_layers
            || heard.layers.len() != config.decoder_layers
        {
            return Err(WhisperError::ForeignState);
        }
        let mut x = vec![0.0; tokens.len() * width];
        for (index, (&token, row)) in tokens.iter().zip(x.chunks_exact_mut(width)).enumerate() {
            self.embed(token, row)?;
            let position = &self.decoder.position[(state.len + index) * width..][..width];
            compute.kernels.add(row, position);
        }
        let pass = DecoderPass {
            model: self,
            pass: self.pass(compute),
            first: state.len,
        };
        let layers = self.decoder.layers.iter().enumerate();
        for ((index, layer), kept) in layers.zip(&mut state.layers) {
            pass.attend_to_text(&layer.attention, kept, &mut x);
            let watched = alignment.as_deref_mut().map(|alignment| (index, alignment));
            pass.attend_to_window(&layer.cross, &heard.layers[index], watched, &mut x);
            let normed = pass.pass.norm(&layer.network.norm, &x);
            pass.pass
                .network(&mut Spare::default(), &layer.network, &normed, &mut x);
        }
        state.len = end;
        let rows = rows.min(tokens.len());
        let normed = pass.pass.norm(
            &self.decoder.output_norm,
            &x[(tokens.len() - rows) * width..],
        );
        let mut logits = vec![0.0; rows * vocabulary];
        let tile = TileMut::from_slice(&mut logits, rows, vocabulary);
        self.packed
            .multiply(compute, &self.decoder.output, &normed, tile);
        Ok(logits)
    }

    fn embed(&self, token: u32, row: &mut [f32]) -> Result<(), WhisperError> {
        let vocabulary = self.config.vocabulary;
        let (ty, rows, len) = &self.decoder.embedding;
        let place = token as usize * len;
        let bytes = rows.get(place..place + len);
        let done = bytes.and_then(|bytes| strata_quant::dequantize(*ty, bytes, row).ok());
        done.ok_or(WhisperError::Token { token, vocabulary })
    }
}

/// Tokens on their way through the decoder.
struct DecoderPass<'a> {
    model: &'a Whisper,
    pass: BlockPass<'a>,
    /// The position of the first.
    first: usize,
}

impl DecoderPass<'_> {
    /// Attention to the tokens before and itself, added to `x`.
    fn attend_to_text(&self, layer: &AttentionLayer, kept: &mut [Vec<u8>; 2], x: &mut [f32]) {
        let (pass, config) = (&self.pass, &self.model.config);
        let (heads, positions) = (config.decoder_heads, config.text_positions);
        let size = config.width / heads;
        let row = KIND.row_bytes(size);
        let kernels = pass.compute.kernels;
        let normed = pass.norm(&layer.norm, x);
        let queries = pass.linear(&layer.query, &normed);
        for (linear, kept) in [&layer.key, &layer.value].into_iter().zip(&mut *kept) {
            let made = pass.linear(linear, &normed);
            for (token, made) in made.chunks_exact(config.width).enumerate() {
                for (head, made) in made.chunks_exact(size).enumerate() {
                    let place = (head * positions + self.first + token) * row;
                    kernels.kv_store(KIND, made, &mut kept[place..][..row]);
                }
            }
        }
        let mut mixed = vec![0.0; x.len()];
        for_each_chunk(pass.compute.pool, &mut mixed, size, |unit, out| {
            let (token, head) = (unit / heads, unit % heads);
            let (start, seen) = (head * positions * row, (self.first + token + 1) * row);
            let rows = [0, 1].map(|which| StoredRows {
                kind: KIND,
                bytes: &kept[which][start..start + seen],
            });
            let query = &queries[unit * size..][..size];
            stored::attend(kernels, query, scale(size), rows, out);
        });
        pass.add_branch(&mut Spare::default(), &layer.output, &mixed, x);
    }

    /// Attention to the whole window, added to `x`.
    fn attend_to_window(
        &self,
        layer: &AttentionLayer,
        heard: &[Vec<u8>; 2],
        watched: Option<(usize, &mut Alignment)>,
        x: &mut [f32],
    ) {
        let (pass, config) = (&self.pass, &self.model.config);
        let heads = config.decoder_heads;
        let size = config.width / heads;
        let kernels = pass.compute.kernels;
        let normed = pass.norm(&layer.norm, x);
        let queries = pass.linear(&layer.query, &normed);
        let bytes = heard[0].len() / heads;
        let mut mixed = vec![0.0; x.len()];
        for_each_chunk(pass.compute.pool, &mut mixed, size, |unit, out| {
            let head = unit % heads;
            let rows = [0, 1].map(|which| StoredRows {
                kind: KIND,
                bytes: &heard[which][head * bytes..][..bytes],
            });
            let query = &queries[unit * size..][..size];
            stored::attend(kernels, query, scale(size), rows, out);
        });
        if let Some((index, alignment)) = watched {
            let Alignment { heads: all, shares } = alignment;
            for (&(layer, head), shares) in all.iter().zip(shares) {
                if layer != index || head >= heads {
                    continue;
                }
                let keys = KvRows::new(KIND, size, &heard[0][head * bytes..][..bytes]);
                let positions = bytes / KIND.row_bytes(size);
                for token in queries.chunks_exact(config.width) {
                    let query = &token[head * size..][..size];
                    let mut scores = vec![0.0; positions];
                    kernels.kv_scores(query, keys, scale(size), &mut scores, positions);
                    kernels.softmax(&mut scores);
                    shares.extend_from_slice(&scores);
                }
            }
        }
        pass.add_branch(&mut Spare::default(), &layer.output, &mixed, x);
    }
}

/// What scores of heads of this size are multiplied by.
fn scale(size: usize) -> f32 {
    1.0 / libm::sqrtf(size as f32)
}
