//! The memory of a forward pass, taken once: `forward` allocates nothing.

mod acts;
mod lengths;
mod stores;

use crate::batch::BatchLimits;
use crate::blueprint::Parts;
use crate::mixer::MixerSizes;
use crate::mixer::attention::whole::WholeBuffers;
use crate::model::Model;
use crate::rope::Rope;
pub(crate) use acts::{ActParts, Acts, EncodedRows};
use alloc::vec;
use alloc::vec::Vec;
use lengths::Lengths;
pub(crate) use stores::Stores;

/// Buffers for batches within limits.
pub struct Workspace {
    pub(crate) limits: BatchLimits,
    /// The residual stream: (tokens, width).
    pub(crate) x: Vec<f32>,
    /// Its norm: (tokens, width).
    pub(crate) normed: Vec<f32>,
    /// A branch's result: (tokens, width).
    pub(crate) branch: Vec<f32>,
    /// What a mixer projects its input to: attention's queries, keys and values, (tokens, heads + 2 kv_heads, head_size),
    /// or what a recurrence takes in, (tokens, floats).
    pub(crate) projected: Vec<f32>,
    /// What goes into a mixer's last matrix: (tokens, heads, head_size) or (tokens, channels).
    pub(crate) mixed: Vec<f32>,
    /// What one layer's convolutions kept, each where its span's first token is: (tokens, floats).
    pub(crate) states: Vec<f32>,
    /// What a mixer has between its first matrices and its last: (tokens, floats).
    pub(crate) spare: Vec<f32>,
    /// The result of the first of two mixers: (tokens, width).
    pub(crate) second: Vec<f32>,
    /// The first layer's values, which later ones mix with theirs: (tokens, width).
    pub(crate) first_values: Vec<f32>,
    /// All residual streams, where there are several: (tokens, streams, width).
    pub(crate) streams: Vec<f32>,
    /// The embeddings that layers have of tokens: (tokens, layers, size).
    pub(crate) layer_inputs: Vec<f32>,
    /// A row of their table, as it is in the file and as floats.
    pub(crate) layer_row: Vec<u8>,
    pub(crate) layer_floats: Vec<f32>,
    /// Chunks of attention before they are joined.
    pub(crate) partials: Vec<f32>,
    /// Gate and up, or up alone: (tokens, ffn or 2 ffn).
    pub(crate) ffn: Vec<f32>,
    /// Encoded inputs of matrices.
    pub(crate) acts: Acts,
    /// Cosines and sines of each RoPE: (tokens, 2, pairs).
    pub(crate) rotations: Vec<Vec<f32>>,
    /// Of each token.
    pub(crate) positions: Vec<TokenPosition>,
    /// Where their keys and values go.
    pub(crate) stores: Stores,
    /// A row of the embedding, as in the file.
    pub(crate) row: Vec<u8>,
    /// Rows that need logits: (rows, width).
    pub(crate) last: Vec<f32>,
    /// (rows, vocabulary).
    pub(crate) logits: Vec<f32>,
    pub(crate) experts: ExpertBuffers,
    pub(crate) encoder: EncoderBuffers,
    pub(crate) nextn: NextnBuffers,
}

/// Buffers for the layer that predicts the token after the next, where there is one.
pub(crate) struct NextnBuffers {
    /// What takes the place of the other `normed`: (tokens, width).
    pub(crate) normed: Vec<f32>,
    /// Embeddings and states, normed: (tokens, 2 width).
    pub(crate) joined: Vec<f32>,
    /// A row of its own table, as in the file.
    pub(crate) row: Vec<u8>,
}

/// A token's sequence and position.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct TokenPosition {
    /// Its span of the batch.
    pub(crate) span: u32,
    pub(crate) position: u32,
    /// The positions that it sees without regard to windows: those before this one.
    pub(crate) end: u32,
}

/// Buffers for attention over whole sequences, which a decoder does not need.
#[derive(Default)]
pub(crate) struct EncoderBuffers {
    /// Where each sequence begins, and where the last ends.
    pub(crate) starts: Vec<u32>,
    pub(crate) whole: WholeBuffers,
    /// The classifier's: (sequences, labels), or (sequences, width) on the way.
    pub(crate) scores: Vec<f32>,
}

/// Buffers for mixtures of experts; a slot is one expert chosen for one token.
pub(crate) struct ExpertBuffers {
    /// (tokens, experts).
    pub(crate) scores: Vec<f32>,
    /// The slots' experts and weights: (tokens, used).
    pub(crate) chosen: Vec<Slot>,
    /// Slots in the order of their experts.
    pub(crate) order: Vec<u32>,
    /// Where each slot stands in that order.
    pub(crate) ranks: Vec<u32>,
    /// Inputs in that order.
    pub(crate) inputs: EncodedRows,
    /// (slots, 2 ffn), in that order.
    pub(crate) hidden: Vec<f32>,
    /// (slots, width), in that order.
    pub(crate) results: Vec<f32>,
    /// Encoded hidden rows.
    pub(crate) encoded: EncodedRows,
}

#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct Slot {
    pub(crate) expert: u32,
    pub(crate) weight: f32,
}

impl Workspace {
    /// Buffers for batches of `model` within `limits`, on a pool of so many workers.
    pub fn new(model: &Model, limits: BatchLimits, workers: usize) -> Self {
        let streaming = if model.streamed_bytes() > 0 {
            workers
        } else {
            0
        };
        Self::allocate(&model.parts, limits, streaming)
    }

    fn allocate(parts: &Parts, limits: BatchLimits, streaming: usize) -> Self {
        let lengths = Lengths::new(parts, limits);
        let config = &parts.config;
        let (tokens, width) = (limits.tokens, config.width);
        let mixer = MixerSizes::of(config);
        let (experts, expert_ffn) = config.experts.map_or((0, 0), |e| (e.count, e.ffn));
        let slots = lengths.slots;
        let rotations = |rope: &Rope| vec![0.0; tokens * 2 * rope.pairs()];
        Self {
            limits,
            x: vec![0.0; tokens * width],
            normed: vec![0.0; tokens * width],
            branch: vec![0.0; tokens * width],
            projected: vec![0.0; tokens * mixer.projected],
            mixed: vec![0.0; tokens * mixer.mixed],
            states: vec![0.0; tokens * mixer.state],
            spare: vec![0.0; tokens * mixer.spare],
            second: vec![0.0; tokens * mixer.second],
            first_values: vec![0.0; tokens * mixer.first_values],
            streams: vec![0.0; tokens * lengths.streams],
            layer_inputs: vec![0.0; tokens * lengths.layer_inputs],
            layer_row: vec![0; lengths.layer_row],
            layer_floats: vec![0.0; lengths.layer_inputs],
            partials: vec![0.0; mixer.partials],
            ffn: vec![0.0; tokens * lengths.ffn],
            acts: Acts::new(lengths.acts, lengths.hidden, streaming * lengths.panel),
            rotations: parts.ropes.iter().map(rotations).collect(),
            positions: vec![TokenPosition::default(); tokens],
            stores: Stores::with_room(tokens),
            row: vec![0; parts.token_embd.row_bytes()],
            last: vec![0.0; lengths.rows * width],
            logits: vec![0.0; lengths.rows * config.vocabulary],
            experts: ExpertBuffers {
                scores: vec![0.0; tokens * experts],
                chosen: vec![Slot::default(); slots],
                order: vec![0; slots],
                ranks: vec![0; slots],
                inputs: EncodedRows::new(lengths.expert_inputs),
                hidden: vec![0.0; slots * 2 * expert_ffn],
                results: vec![0.0; slots * width],
                encoded: EncodedRows::new(lengths.expert_encoded),
            },
            encoder: EncoderBuffers {
                starts: Vec::with_capacity(lengths.starts),
                whole: WholeBuffers::new(&lengths.whole),
                scores: vec![0.0; lengths.scores],
            },
            nextn: NextnBuffers {
                normed: vec![0.0; tokens * lengths.nextn],
                joined: vec![0.0; tokens * 2 * lengths.nextn],
                row: vec![0; lengths.nextn_row],
            },
        }
    }

    /// Bytes of all buffers, before there are any; `streaming` workers pack panels of their own.
    pub(crate) fn bytes(parts: &Parts, limits: BatchLimits, streaming: usize) -> usize {
        let lengths = Lengths::new(parts, limits);
        let config = &parts.config;
        let tokens = limits.tokens;
        let mixer = MixerSizes::of(config);
        let (experts, expert_ffn) = config.experts.map_or((0, 0), |e| (e.count, e.ffn));
        let by_token = 3 * config.width
            + mixer.projected
            + mixer.mixed
            + mixer.state
            + mixer.spare
            + mixer.second
            + mixer.first_values
            + lengths.streams
            + lengths.layer_inputs
            + lengths.ffn
            + 3 * lengths.nextn
            + 2 * parts.ropes.iter().map(Rope::pairs).sum::<usize>()
            + experts;
        let by_row = config.width + config.vocabulary;
        let by_slot = 2 * expert_ffn + config.width;
        let floats = tokens * by_token
            + lengths.rows * by_row
            + lengths.slots * by_slot
            + lengths.whole.floats()
            + lengths.scores
            + lengths.layer_inputs
            + mixer.partials;
        let encoded = [
            lengths.acts,
            lengths.hidden,
            lengths.expert_inputs,
            lengths.expert_encoded,
        ];
        floats * size_of::<f32>()
            + encoded.as_flattened().iter().sum::<usize>()
            + tokens * size_of::<TokenPosition>()
            + Stores::bytes(tokens)
            + lengths.starts * size_of::<u32>()
            + lengths.slots * (size_of::<Slot>() + 2 * size_of::<u32>())
            + parts.token_embd.row_bytes()
            + lengths.layer_row
            + lengths.nextn_row
            + streaming * lengths.panel
    }

    /// What batches it serves.
    pub fn limits(&self) -> BatchLimits {
        self.limits
    }
}

#[cfg(test)]
mod tests;
