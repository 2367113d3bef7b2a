//! The memory of a forward pass, taken once: `forward` allocates nothing.

use crate::batch::BatchLimits;
use crate::blueprint::{Body, Decoder, Parts};
use crate::config::Config;
use crate::encoder::weights::Encoder;
use crate::layer::{DenseFfn, FfnWeights};
use crate::matrix::Matrix;
use crate::mixer::MixerSizes;
use crate::mixer::attention::whole::{query_floats, stored_bytes};
use crate::model::Model;
use crate::pages::{LayerStarts, PageId};
use crate::rope::Rope;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;
use strata_kernels::{self as kernels, ActFormat, ActRows, act_format};

/// Tokens whose experts are computed together: bounds the memory that they take.
pub(crate) const EXPERT_TOKENS: usize = 256;

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
    /// or a convolution's gates and inputs, (tokens, 3, channels).
    pub(crate) projected: Vec<f32>,
    /// What goes into a mixer's last matrix: (tokens, heads, head_size) or (tokens, channels).
    pub(crate) mixed: Vec<f32>,
    /// The recurrent states of one layer, each where its span's first token is: (tokens, floats).
    pub(crate) states: Vec<f32>,
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
}

/// A token's sequence and position.
#[derive(Copy, Clone, Debug, Default)]
pub(crate) struct TokenPosition {
    /// Its span of the batch.
    pub(crate) span: u32,
    pub(crate) position: u32,
}

/// Tokens whose keys and values go to the same page: runs of a span.
#[derive(Copy, Clone, Debug, Default)]
struct Run {
    token: u32,
    position: u32,
    count: u32,
}

/// Which tokens go to which pages, in the order of one layer's memory.
#[derive(Default)]
pub(crate) struct Stores {
    runs: Vec<(PageId, Run)>,
    /// Where their pages begin in the layer.
    starts: Vec<usize>,
}

impl Stores {
    fn with_room(tokens: usize) -> Self {
        Self {
            runs: Vec::with_capacity(tokens),
            starts: Vec::with_capacity(tokens),
        }
    }

    fn bytes(tokens: usize) -> usize {
        tokens * (size_of::<(PageId, Run)>() + size_of::<usize>())
    }

    pub(crate) fn clear(&mut self) {
        self.runs.clear();
        self.starts.clear();
    }

    /// The next token goes to this page.
    pub(crate) fn add(&mut self, page: PageId, token: usize, position: usize) {
        let (token, position) = (token as u32, position as u32);
        match self.runs.last_mut() {
            Some((last, run)) if *last == page && run.position + run.count == position => {
                run.count += 1;
            }
            _ => {
                let count = 1;
                let run = Run {
                    token,
                    position,
                    count,
                };
                self.runs.push((page, run));
            }
        }
    }

    /// All tokens have been added, and are to be stored in a layer.
    pub(crate) fn sort(&mut self, layer: LayerStarts<'_>) {
        self.runs
            .sort_unstable_by_key(|(page, run)| (layer.of(*page), run.token));
        self.starts.clear();
        self.starts
            .extend(self.runs.iter().map(|(page, _)| layer.of(*page)));
    }

    /// Where the runs' pages begin.
    pub(crate) fn starts(&self) -> &[usize] {
        &self.starts
    }

    /// The tokens and positions of a run.
    pub(crate) fn run(&self, index: usize) -> impl Iterator<Item = (usize, usize)> {
        let (_, run) = self.runs[index];
        let (token, position) = (run.token as usize, run.position as usize);
        (0..run.count as usize).map(move |i| (token + i, position + i))
    }
}

/// Encoded rows, one buffer for each format, so that matrices of different types can share an input; and room
/// to pack panels of matrices that are not in memory.
#[derive(Default)]
pub(crate) struct Acts {
    rows: EncodedRows,
    /// Hidden rows of a feed-forward network, which are encoded while its input is read.
    hidden: EncodedRows,
    scratch: Vec<u8>,
}

/// The parts of [`Acts`].
pub(crate) struct ActParts<'a> {
    pub(crate) rows: &'a EncodedRows,
    pub(crate) hidden: &'a mut EncodedRows,
    pub(crate) scratch: &'a mut [u8],
}

/// Encoded rows.
#[derive(Default)]
pub(crate) struct EncodedRows {
    buffers: [Vec<u8>; FORMATS],
}

/// The formats of encoded rows.
const FORMATS: usize = 3;

impl Acts {
    pub(crate) fn rows_mut(&mut self, format: ActFormat, width: usize, rows: usize) -> &mut [u8] {
        self.rows.rows_mut(format, width, rows)
    }

    pub(crate) fn parts(&mut self) -> ActParts<'_> {
        ActParts {
            rows: &self.rows,
            hidden: &mut self.hidden,
            scratch: &mut self.scratch,
        }
    }
}

impl EncodedRows {
    fn new(bytes: [usize; FORMATS]) -> Self {
        Self {
            buffers: bytes.map(|bytes| vec![0; bytes]),
        }
    }

    pub(crate) fn rows_mut(&mut self, format: ActFormat, width: usize, rows: usize) -> &mut [u8] {
        &mut self.buffers[format as usize][..rows * format.row_bytes(width)]
    }

    pub(crate) fn rows(&self, format: ActFormat, width: usize, rows: usize) -> ActRows<'_> {
        self.range(format, width, 0..rows)
    }

    /// Some of the rows.
    pub(crate) fn range(&self, format: ActFormat, width: usize, rows: Range<usize>) -> ActRows<'_> {
        let row = format.row_bytes(width);
        let bytes = &self.buffers[format as usize][rows.start * row..rows.end * row];
        ActRows::new(format, width, bytes)
    }
}

/// Buffers for attention over whole sequences, which a decoder does not need.
#[derive(Default)]
pub(crate) struct EncoderBuffers {
    /// Where each sequence begins, and where the last ends.
    pub(crate) starts: Vec<u32>,
    /// (heads, tokens, head_size), tokens padded.
    pub(crate) queries: Vec<f32>,
    /// (kv_heads, tokens, head_size).
    pub(crate) keys: Vec<u8>,
    /// (kv_heads, tokens, head_size).
    pub(crate) values: Vec<u8>,
    /// (heads, tokens, head_size), tokens padded.
    pub(crate) attended: Vec<f32>,
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

/// How long the buffers are whose length depends on the matrices.
#[derive(Default)]
struct Lengths {
    acts: [usize; FORMATS],
    hidden: [usize; FORMATS],
    /// Columns of the widest feed-forward input.
    ffn: usize,
    /// Chosen experts that are computed together.
    slots: usize,
    expert_inputs: [usize; FORMATS],
    expert_encoded: [usize; FORMATS],
    /// A panel of the largest matrix.
    panel: usize,
    /// Rows of logits.
    rows: usize,
    /// Beginnings of sequences.
    starts: usize,
    /// An encoder's queries.
    queries: usize,
    /// Bytes of its keys, or of its values.
    stored: usize,
    /// Its classifier's scores.
    scores: usize,
}

impl Lengths {
    fn new(parts: &Parts, limits: BatchLimits) -> Self {
        let mut lengths = Self::default();
        match &parts.body {
            Body::Decoder(decoder) => lengths.decoder(decoder, limits),
            Body::Encoder(encoder) => lengths.encoder(&parts.config, encoder, limits.tokens),
        }
        lengths
    }

    fn decoder(&mut self, decoder: &Decoder, limits: BatchLimits) {
        let tokens = limits.tokens;
        for layer in &decoder.layers {
            for matrix in layer.mixer.matrices() {
                self.input(matrix, tokens);
            }
            match &layer.ffn {
                FfnWeights::Dense(weights) => self.dense(weights, tokens),
                FfnWeights::Experts(weights, sizes) => {
                    if let Some(shared) = &weights.shared {
                        self.dense(&shared.ffn, tokens);
                    }
                    self.input(&weights.router, tokens);
                    self.slots = EXPERT_TOKENS.min(tokens) * sizes.used;
                    // All experts of a tensor are alike.
                    for matrix in [&weights.gate.0[0], &weights.up.0[0]] {
                        reserve(&mut self.expert_inputs, matrix, self.slots);
                    }
                    let down = &weights.down.0[0];
                    reserve(&mut self.expert_encoded, down, self.slots);
                    for matrix in [&weights.gate.0[0], &weights.up.0[0], down] {
                        self.panel = self.panel.max(panel_bytes(matrix));
                    }
                }
            }
        }
        self.rows = limits.logits;
        self.input(&decoder.output, limits.logits);
    }

    fn encoder(&mut self, config: &Config, encoder: &Encoder, tokens: usize) {
        for layer in &encoder.layers {
            for linear in &layer.attention.qkv.0 {
                self.input(&linear.matrix, tokens);
            }
            self.input(&layer.attention.output.matrix, tokens);
            self.dense(&layer.ffn, tokens);
        }
        if let Some(head) = &encoder.rank {
            for linear in [&head.dense, &head.output].into_iter().flatten() {
                self.input(&linear.matrix, tokens);
            }
            self.scores = tokens * head.labels();
        }
        self.starts = tokens + 1;
        self.queries = config.widest(|attention| query_floats(attention, tokens));
        self.stored = config.widest(|attention| stored_bytes(attention, tokens));
    }

    fn input(&mut self, matrix: &Matrix, rows: usize) {
        reserve(&mut self.acts, matrix, rows);
        self.panel = self.panel.max(panel_bytes(matrix));
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
            partials: vec![0.0; mixer.partials],
            ffn: vec![0.0; tokens * lengths.ffn],
            acts: Acts {
                rows: EncodedRows::new(lengths.acts),
                hidden: EncodedRows::new(lengths.hidden),
                scratch: vec![0; streaming * lengths.panel],
            },
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
                queries: vec![0.0; lengths.queries],
                keys: vec![0; lengths.stored],
                values: vec![0; lengths.stored],
                attended: vec![0.0; lengths.queries],
                scores: vec![0.0; lengths.scores],
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
            + lengths.ffn
            + 2 * parts.ropes.iter().map(Rope::pairs).sum::<usize>()
            + experts;
        let by_row = config.width + config.vocabulary;
        let by_slot = 2 * expert_ffn + config.width;
        let floats = tokens * by_token
            + lengths.rows * by_row
            + lengths.slots * by_slot
            + 2 * lengths.queries
            + lengths.scores
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
            + 2 * lengths.stored
            + lengths.starts * size_of::<u32>()
            + lengths.slots * (size_of::<Slot>() + 2 * size_of::<u32>())
            + parts.token_embd.row_bytes()
            + streaming * lengths.panel
    }

    /// What batches it serves.
    pub fn limits(&self) -> BatchLimits {
        self.limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blueprint::{Blueprint, LoadOptions, Placement};
    use strata_weights::{Gguf, GgufSet};

    impl Workspace {
        fn measured(&self) -> usize {
            let floats = [
                &self.x,
                &self.normed,
                &self.branch,
                &self.projected,
                &self.mixed,
                &self.states,
                &self.partials,
                &self.ffn,
                &self.last,
                &self.logits,
                &self.experts.scores,
                &self.experts.hidden,
                &self.experts.results,
                &self.encoder.queries,
                &self.encoder.attended,
                &self.encoder.scores,
            ];
            let encoded = [
                &self.acts.rows,
                &self.acts.hidden,
                &self.experts.inputs,
                &self.experts.encoded,
            ];
            floats
                .into_iter()
                .chain(&self.rotations)
                .map(|buffer| size_of_val(&buffer[..]))
                .sum::<usize>()
                + encoded
                    .iter()
                    .flat_map(|rows| &rows.buffers)
                    .map(Vec::len)
                    .sum::<usize>()
                + size_of_val(&self.positions[..])
                + self.encoder.starts.capacity() * size_of::<u32>()
                + self.encoder.keys.len()
                + self.encoder.values.len()
                + size_of_val(&self.experts.chosen[..])
                + size_of_val(&self.experts.order[..])
                + size_of_val(&self.experts.ranks[..])
                + self.stores.runs.capacity() * size_of::<(PageId, Run)>()
                + self.stores.starts.capacity() * size_of::<usize>()
                + self.row.len()
                + self.acts.scratch.len()
        }
    }

    #[test]
    fn the_plan_is_what_is_taken() {
        let files = [
            &include_bytes!("../tests/golden/llama.gguf")[..],
            include_bytes!("../tests/golden/gemma3.gguf"),
            include_bytes!("../tests/golden/qwen2moe.gguf"),
            include_bytes!("../tests/golden/lfm2.gguf"),
            include_bytes!("../tests/golden_states/xlm-roberta-rank.gguf"),
        ];
        for file in files {
            let set = GgufSet::new(vec![Gguf::parse(file).unwrap()]).unwrap();
            let blueprint = Blueprint::new(&set, LoadOptions::default()).unwrap();
            let limits = BatchLimits {
                tokens: 48,
                logits: 5,
            };
            for (placement, workers) in [(Placement::Packed, 2), (Placement::Within(0), 3)] {
                let planned = blueprint.workspace_bytes(limits, workers, placement);
                let model = Blueprint::new(&set, LoadOptions::default())
                    .unwrap()
                    .build(
                        placement,
                        &strata_platform::SystemMemory,
                        alloc::sync::Arc::new(strata_platform::Resident(file)),
                        &strata_platform::Inline,
                        &mut |_, _| {},
                    )
                    .unwrap();
                assert_eq!(Workspace::new(&model, limits, workers).measured(), planned);
            }
        }
    }
}
