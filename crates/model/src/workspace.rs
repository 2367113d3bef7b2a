//! The memory of a forward pass, taken once: `forward` allocates nothing.

use crate::batch::BatchLimits;
use crate::layer::{DenseFfn, FfnWeights};
use crate::matrix::Matrix;
use crate::model::Model;
use alloc::vec;
use alloc::vec::Vec;
use strata_kernels::{ActFormat, ActRows, act_format};

/// Tokens whose experts are computed together: bounds the memory that they take.
pub(crate) const EXPERT_TOKENS: usize = 32;

/// Buffers for batches within limits.
pub struct Workspace {
    pub(crate) limits: BatchLimits,
    /// The residual stream: (tokens, width).
    pub(crate) x: Vec<f32>,
    /// Its norm: (tokens, width).
    pub(crate) normed: Vec<f32>,
    /// A branch's result: (tokens, width).
    pub(crate) branch: Vec<f32>,
    /// Queries, keys and values: (tokens, heads + 2 kv_heads, head_size).
    pub(crate) qkv: Vec<f32>,
    /// Attention's result: (tokens, heads, head_size).
    pub(crate) attention: Vec<f32>,
    /// Gate and up, or up alone: (tokens, ffn or 2 ffn).
    pub(crate) ffn: Vec<f32>,
    /// Encoded inputs of matrices.
    pub(crate) acts: Acts,
    /// Cosines and sines: (tokens, 2, pairs).
    pub(crate) rotations: Vec<f32>,
    /// The same for sliding layers, where they differ.
    pub(crate) window_rotations: Vec<f32>,
    /// Each token's span and position.
    pub(crate) places: Vec<Place>,
    /// A row of the embedding, as in the file.
    pub(crate) row: Vec<u8>,
    /// Rows that need logits: (rows, width).
    pub(crate) last: Vec<f32>,
    /// (rows, vocabulary).
    pub(crate) logits: Vec<f32>,
    pub(crate) experts: ExpertBuffers,
}

/// Where a token stands.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Place {
    pub(crate) span: u32,
    pub(crate) position: u32,
}

/// Encoded rows, one buffer for each format, so that matrices of different types can share an input.
#[derive(Default)]
pub(crate) struct Acts {
    buffers: [Vec<u8>; 3],
}

impl Acts {
    fn reserve(&mut self, matrix: &Matrix, rows: usize) {
        let format = act_format(matrix.ty);
        let bytes = rows * format.row_bytes(matrix.columns);
        let buffer = &mut self.buffers[format as usize];
        if buffer.len() < bytes {
            buffer.resize(bytes, 0);
        }
    }

    pub(crate) fn rows_mut(&mut self, format: ActFormat, width: usize, rows: usize) -> &mut [u8] {
        &mut self.buffers[format as usize][..rows * format.row_bytes(width)]
    }

    pub(crate) fn rows(&self, format: ActFormat, width: usize, rows: usize) -> ActRows<'_> {
        let bytes = &self.buffers[format as usize][..rows * format.row_bytes(width)];
        ActRows::new(format, width, bytes)
    }
}

/// Buffers for mixtures of experts; a slot is one expert chosen for one token.
#[derive(Default)]
pub(crate) struct ExpertBuffers {
    /// (tokens, experts).
    pub(crate) scores: Vec<f32>,
    /// The slots' experts and weights: (tokens, used).
    pub(crate) chosen: Vec<Slot>,
    /// Slots in the order of their experts.
    pub(crate) order: Vec<u32>,
    /// Inputs in that order.
    pub(crate) inputs: Acts,
    /// (slots, 2 ffn), in that order.
    pub(crate) hidden: Vec<f32>,
    /// (slots, width), in that order.
    pub(crate) results: Vec<f32>,
    /// Encoded hidden rows.
    pub(crate) encoded: Acts,
}

#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Slot {
    pub(crate) expert: u32,
    pub(crate) weight: f32,
}

impl Workspace {
    /// Buffers for batches of `model` within `limits`.
    pub fn new(model: &Model, limits: BatchLimits) -> Self {
        let config = model.config();
        let (tokens, width) = (limits.tokens, config.width);
        let mut acts = Acts::default();
        let mut ffn = 0;
        let mut experts = ExpertBuffers::default();
        for layer in &model.layers {
            for linear in &layer.qkv.0 {
                acts.reserve(&linear.matrix, tokens);
            }
            acts.reserve(&layer.attn_output.matrix, tokens);
            let mut dense = |dense: &DenseFfn| {
                for linear in &dense.input.0 {
                    acts.reserve(&linear.matrix, tokens);
                }
                acts.reserve(&dense.down.matrix, tokens);
                let columns: usize = dense.input.0.iter().map(|l| l.matrix.rows).sum();
                ffn = ffn.max(columns);
            };
            match &layer.ffn {
                FfnWeights::Dense(weights) => dense(weights),
                FfnWeights::Experts(weights, sizes) => {
                    if let Some(shared) = &weights.shared {
                        dense(&shared.ffn);
                    }
                    acts.reserve(&weights.router, tokens);
                    let slots = EXPERT_TOKENS.min(tokens) * sizes.used;
                    for matrix in [&weights.gate.0[0], &weights.up.0[0]] {
                        acts.reserve(matrix, tokens);
                        experts.inputs.reserve(matrix, slots);
                    }
                    experts.encoded.reserve(&weights.down.0[0], slots);
                }
            }
        }
        acts.reserve(&model.output, limits.logits);
        if let Some(sizes) = &config.experts {
            let chunk = EXPERT_TOKENS.min(tokens);
            let slots = chunk * sizes.used;
            experts.scores = vec![0.0; tokens * sizes.count];
            experts.chosen = vec![Slot::default(); slots];
            experts.order = vec![0; slots];
            experts.hidden = vec![0.0; slots * 2 * sizes.ffn];
            experts.results = vec![0.0; slots * width];
        }
        let rotation = |rope: Option<&crate::rope::Rope>| {
            vec![0.0; rope.map_or(0, |rope| tokens * 2 * rope.pairs())]
        };
        Self {
            limits,
            x: vec![0.0; tokens * width],
            normed: vec![0.0; tokens * width],
            branch: vec![0.0; tokens * width],
            qkv: vec![0.0; tokens * config.qkv_width()],
            attention: vec![0.0; tokens * config.q_width()],
            ffn: vec![0.0; tokens * ffn],
            acts,
            rotations: rotation(model.rope.as_ref()),
            window_rotations: rotation(model.window_rope.as_ref()),
            places: vec![Place::default(); tokens],
            row: vec![0; model.token_embd.row_bytes()],
            last: vec![0.0; limits.logits * width],
            logits: vec![0.0; limits.logits * config.vocabulary],
            experts,
        }
    }

    /// What batches it serves.
    pub fn limits(&self) -> BatchLimits {
        self.limits
    }
}
