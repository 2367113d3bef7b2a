//! How long a workspace's buffers are.

use super::acts::FORMATS;
use crate::batch::BatchLimits;
use crate::blueprint::{Body, Decoder, Parts};
use crate::config::Config;
use crate::encoder::weights::{Encoder, RankHead};
use crate::layer::{DenseFfn, ExpertFfn, ExpertMatrices, FfnWeights};
use crate::matrix::Matrix;
use crate::mixer::Mixer;
use crate::mixer::attention::whole::WholeLengths;
use crate::nextn::Nextn;
use strata_kernels::{self as kernels, act_format};

/// How long the buffers are whose length depends on the matrices.
#[derive(Default)]
pub(super) struct Lengths {
    pub(super) acts: [usize; FORMATS],
    pub(super) hidden: [usize; FORMATS],
    /// Columns of the widest feed-forward input.
    pub(super) ffn: usize,
    /// Chosen experts that are computed together.
    pub(super) slots: usize,
    pub(super) expert_inputs: [usize; FORMATS],
    pub(super) expert_encoded: [usize; FORMATS],
    /// A panel of the largest matrix.
    pub(super) panel: usize,
    /// Rows of logits.
    pub(super) rows: usize,
    /// Beginnings of sequences.
    pub(super) starts: usize,
    /// An encoder's attention.
    pub(super) whole: WholeLengths,
    /// Its classifier's scores.
    pub(super) scores: usize,
    /// Floats of a token's residual streams, where there are several.
    pub(super) streams: usize,
    /// Floats of a token's embeddings for layers, and bytes of a row of their table.
    pub(super) layer_inputs: usize,
    pub(super) layer_row: usize,
    /// Floats of a token where the token after the next is predicted, and bytes of a row of a table for that.
    pub(super) nextn: usize,
    pub(super) nextn_row: usize,
}

impl Lengths {
    pub(super) fn new(parts: &Parts, limits: BatchLimits) -> Self {
        let mut lengths = Self::default();
        match &parts.body {
            Body::Decoder(decoder) => {
                lengths.decoder(decoder, limits);
                let streams = parts.config.streams.map_or(0, |streams| streams.count);
                lengths.streams = streams * parts.config.width;
                if let Some(nextn) = &decoder.nextn {
                    lengths.nextn(nextn, parts.config.width, limits);
                }
                if let (Some(source), Some(encoder)) = (&parts.config.source, &decoder.source) {
                    lengths.encoder(&source.encoder, encoder, limits.tokens);
                }
            }
            Body::Encoder(encoder) => lengths.encoder(&parts.config, encoder, limits.tokens),
        }
        lengths
    }

    fn decoder(&mut self, decoder: &Decoder, limits: BatchLimits) {
        let tokens = limits.tokens;
        let nextn = decoder.nextn.iter().map(|nextn| &nextn.layer);
        for layer in decoder.layers.iter().chain(nextn) {
            for matrix in layer.mixer.iter().flat_map(Mixer::matrices) {
                self.input(matrix, tokens);
            }
            if let Some((matrices, heads)) = layer.mixer.as_ref().and_then(Mixer::head_matrices) {
                for matrix in matrices {
                    self.input(matrix, heads * tokens);
                }
            }
            for matrix in layer.cross.iter().flat_map(|cross| cross.matrices()) {
                self.input(matrix, tokens);
            }
            let altup = layer.altup.iter().flat_map(|altup| altup.matrices());
            let input = layer.input_embedding.iter();
            let input = input.flat_map(|input| input.gate.0.iter().chain(&input.projection.0));
            for matrix in altup.chain(input.map(|linear| &linear.matrix)) {
                self.input(matrix, tokens);
            }
            self.network(&layer.ffn, tokens);
            if let Some(branch) = &layer.expert_branch {
                self.experts(&branch.experts, tokens);
            }
        }
        for matrix in decoder
            .streams
            .iter()
            .flat_map(|streams| streams.matrices())
        {
            self.input(matrix, tokens);
        }
        if let Some(embeddings) = &decoder.layer_embeddings {
            for linear in &embeddings.projection.0 {
                self.input(&linear.matrix, tokens);
            }
            self.layer_inputs = embeddings.table.columns;
            self.layer_row = embeddings.table.row_bytes();
        }
        self.rank(decoder.rank.as_deref(), tokens);
        self.rows = limits.logits;
        self.input(&decoder.output, limits.logits);
    }

    fn nextn(&mut self, nextn: &Nextn, width: usize, limits: BatchLimits) {
        self.input(&nextn.join, limits.tokens);
        self.input(&nextn.output, limits.logits);
        self.nextn = width;
        self.nextn_row = nextn.embedding.as_ref().map_or(0, Matrix::row_bytes);
    }

    fn encoder(&mut self, config: &Config, encoder: &Encoder, tokens: usize) {
        for layer in &encoder.layers {
            for linear in &layer.attention.qkv.0 {
                self.input(&linear.matrix, tokens);
            }
            self.input(&layer.attention.output.matrix, tokens);
            self.network(&layer.ffn, tokens);
        }
        for linear in &encoder.dense {
            self.input(&linear.matrix, tokens);
            self.ffn = self.ffn.max(linear.matrix.rows);
        }
        self.rank(encoder.rank.as_ref(), tokens);
        self.starts = tokens + 1;
        self.whole = WholeLengths {
            queries: config.widest(|attention| WholeLengths::new(attention, tokens).queries),
            keys: config.widest(|attention| WholeLengths::new(attention, tokens).keys),
            values: config.widest(|attention| WholeLengths::new(attention, tokens).values),
            attended: config.widest(|attention| WholeLengths::new(attention, tokens).attended),
        };
    }

    fn rank(&mut self, head: Option<&RankHead>, tokens: usize) {
        if let Some(head) = head {
            for linear in [&head.dense, &head.output].into_iter().flatten() {
                self.input(&linear.matrix, tokens);
            }
            self.scores = tokens * head.labels();
        }
    }

    fn network(&mut self, ffn: &FfnWeights, tokens: usize) {
        match ffn {
            FfnWeights::Nothing => {}
            FfnWeights::ChannelMix(weights) => {
                let receptance = weights.receptance.iter().flat_map(|(_, matrix)| &matrix.0);
                let linears = weights.key.0.iter().chain(&weights.value.0);
                for linear in linears.chain(receptance) {
                    self.input(&linear.matrix, tokens);
                }
                self.ffn = self.ffn.max(weights.key.rows());
            }
            FfnWeights::Dense(weights) => self.dense(weights, tokens),
            FfnWeights::Experts(weights) => self.experts(weights, tokens),
        }
    }

    fn input(&mut self, matrix: &Matrix, rows: usize) {
        reserve(&mut self.acts, matrix, rows);
        self.panel = self.panel.max(panel_bytes(matrix));
    }

    fn experts(&mut self, weights: &ExpertFfn, tokens: usize) {
        if let Some(shared) = &weights.shared {
            self.dense(&shared.ffn, tokens);
        }
        if let Some(beside) = &weights.beside {
            self.dense(&beside.dense, tokens);
        }
        self.input(&weights.router.matrix, tokens);
        // An expert is read once for all that chose it, so all have their places.
        self.slots = tokens * weights.config.used;
        // All experts of a tensor are alike.
        let first = |experts: &ExpertMatrices| experts.matrices.0[0];
        for experts in [Some(&weights.gate), weights.up.as_ref()]
            .into_iter()
            .flatten()
        {
            reserve(&mut self.expert_inputs, &first(experts), self.slots);
            self.panel = self.panel.max(panel_bytes(&first(experts)));
        }
        let down = first(&weights.down);
        reserve(&mut self.expert_encoded, &down, self.slots);
        self.panel = self.panel.max(panel_bytes(&down));
    }

    fn dense(&mut self, dense: &DenseFfn, tokens: usize) {
        for linear in &dense.input.0 {
            self.input(&linear.matrix, tokens);
        }
        let down = &dense.down.matrix;
        reserve(&mut self.hidden, down, tokens);
        self.panel = self.panel.max(panel_bytes(down));
        self.ffn = self.ffn.max(dense.input.rows());
    }
}

fn reserve(bytes: &mut [usize; FORMATS], matrix: &Matrix, rows: usize) {
    let format = act_format(matrix.ty);
    let needed = &mut bytes[format as usize];
    *needed = (*needed).max(rows * format.row_bytes(matrix.columns));
}

fn panel_bytes(matrix: &Matrix) -> usize {
    kernels::packed_bytes(matrix.ty, kernels::PANEL_ROWS, matrix.columns)
}
