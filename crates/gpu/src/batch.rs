//! What a batch brings to the device: embeddings, positions, and where its pages are.

use crate::args::BatchPlace;
use crate::backend::{Address, Backend, HostBuffer};
use crate::error::DeviceError;
use std::ops::Range;
use strata_kernels::Kernels;
use strata_model::{BatchLimits, Model, Output, PAGE, PageTable, Span};
use strata_platform::{Chunks, Pool, for_each_piece};

/// Words before the positions.
const HEADER: usize = 4;

/// Positions whose rotations are made at a time.
const ROTATIONS: usize = 256;

/// The memory of both sides.
pub(crate) struct BatchMemory {
    limits: BatchLimits,
    layers: Range<usize>,
    width: usize,
    /// Header, positions, starts, output rows, temperatures; each with room for the largest batch.
    words: HostBuffer,
    device_words: Address,
    x: HostBuffer,
    blocks: HostBuffer,
    device_blocks: Address,
    block_room: usize,
    /// For each RoPE, its table of all positions, of which the first ones are filled.
    ropes: Vec<Address>,
    filled: usize,
    positions: usize,
    scratch: Vec<u8>,
    row_bytes: usize,
    segments: Vec<Segment>,
}

/// Tokens of a batch whose attention is computed together: a prompt's, or single ones.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) first: usize,
    pub(crate) tokens: usize,
    pub(crate) prompt: bool,
}

/// Tokens of one sequence from which on they are a prompt.
const PROMPT: usize = 16;

/// What the first of a device's layers reads.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Begins {
    /// Embeddings.
    AtTokens,
    /// The residual stream of the layers before.
    AtStream,
}

/// Words that a batch is written in.
fn words(limits: BatchLimits) -> usize {
    HEADER + 3 * limits.tokens + limits.tokens + limits.logits
}

/// Positions that so many pages have, in tables of rotations.
fn positions(pages: usize) -> usize {
    (pages * PAGE).next_multiple_of(ROTATIONS)
}

/// Bytes of a RoPE's table.
fn rope_bytes(model: &Model, rope: usize, positions: usize) -> usize {
    positions * 2 * model.rope_pairs(rope) * 4
}

/// Numbers of blocks that there is room for before lists of pages grow.
fn block_room(pages: usize, layers: usize) -> usize {
    2 * pages.max(64) * layers
}

/// Bytes of a device's memory that batches take.
pub(crate) fn batch_bytes(
    model: &Model,
    limits: BatchLimits,
    pages: usize,
    layers: usize,
) -> usize {
    let ropes = match model.rope_kind() {
        Some(_) => 0..model.config().ropes.len(),
        None => 0..0,
    };
    let ropes = ropes.map(|rope| rope_bytes(model, rope, positions(pages)));
    ropes.sum::<usize>() + 4 * (words(limits) + block_room(pages, layers))
}

/// Who makes embeddings.
#[derive(Copy, Clone)]
pub(crate) struct Embedder<'a> {
    pub(crate) model: &'a Model,
    pub(crate) kernels: &'static Kernels,
    pub(crate) pool: &'a dyn Pool,
}

/// What a batch is, in numbers.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct BatchShape {
    pub(crate) tokens: usize,
    /// Rows of logits, and of states behind them.
    pub(crate) logits: usize,
    pub(crate) states: usize,
    /// Positions that a token sees at most.
    pub(crate) longest: usize,
}

impl BatchMemory {
    pub(crate) fn new(
        backend: &mut dyn Backend,
        model: &Model,
        (limits, layers): (BatchLimits, Range<usize>),
        pages: usize,
    ) -> Result<Self, DeviceError> {
        let config = model.config();
        let words = words(limits);
        let positions = positions(pages);
        let doing = "taking memory for batches";
        let mut ropes = Vec::new();
        if model.rope_kind().is_some() {
            for rope in 0..config.ropes.len() {
                ropes.push(backend.alloc(rope_bytes(model, rope, positions), doing)?);
            }
        }
        let block_room = block_room(pages, layers.len());
        let row_bytes = model.embedding_bytes();
        Ok(Self {
            limits,
            layers,
            width: config.width,
            words: backend.alloc_host(4 * words)?,
            device_words: backend.alloc(4 * words, doing)?,
            x: backend.alloc_host(4 * limits.tokens * config.width)?,
            blocks: backend.alloc_host(4 * block_room)?,
            device_blocks: backend.alloc(4 * block_room, doing)?,
            block_room,
            ropes,
            filled: 0,
            positions,
            scratch: vec![0; row_bytes * limits.tokens.max(1)],
            row_bytes,
            segments: Vec::new(),
        })
    }

    /// Where tokens are.
    pub(crate) fn place(&self) -> BatchPlace {
        BatchPlace {
            header: self.device_words,
            positions: self.word(HEADER),
            starts: self.word(HEADER + self.limits.tokens),
        }
    }

    /// Where the tokens of output rows are.
    pub(crate) fn output_rows(&self) -> Address {
        self.word(HEADER + 3 * self.limits.tokens)
    }

    /// Where temperatures are.
    pub(crate) fn temperatures(&self) -> Address {
        self.word(HEADER + 2 * self.limits.tokens)
    }

    /// The batch's tokens, in order.
    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    fn split(&mut self, batch: &[Span<'_>]) {
        self.segments.clear();
        let mut first = 0;
        for tokens in batch.iter().map(|span| span.tokens.len()) {
            let prompt = tokens >= PROMPT;
            match self.segments.last_mut() {
                Some(last) if !prompt && !last.prompt => last.tokens += tokens,
                _ => self.segments.push(Segment {
                    first,
                    tokens,
                    prompt,
                }),
            }
            first += tokens;
        }
    }

    /// Where the lists of blocks are.
    pub(crate) fn blocks(&self) -> Address {
        self.device_blocks
    }

    /// Where a RoPE's table is.
    pub(crate) fn rope(&self, rope: usize) -> Address {
        self.ropes.get(rope).copied().unwrap_or(0)
    }

    fn word(&self, index: usize) -> Address {
        self.device_words + 4 * index as u64
    }

    /// The residual stream of so many tokens, for somebody who has it from the layers before.
    pub(crate) fn stream(&mut self, tokens: usize) -> &mut [f32] {
        &mut self.x.floats()[..tokens * self.width]
    }

    /// The same as bytes.
    pub(crate) fn stream_bytes(&mut self, tokens: usize) -> &mut [u8] {
        &mut self.x.bytes()[..4 * tokens * self.width]
    }

    /// Writes a batch and begins to copy it, embeddings or what [`stream`](Self::stream) was given to `x`. Says whether
    /// memory has moved.
    pub(crate) fn upload(
        &mut self,
        backend: &mut dyn Backend,
        (embedder, begins): (Embedder<'_>, Begins),
        (table, batch): (&PageTable, &[Span<'_>]),
        x: Address,
    ) -> Result<(BatchShape, bool), DeviceError> {
        let Embedder {
            model,
            kernels,
            pool,
        } = embedder;
        let config = model.config();
        let (tokens, layers) = (self.limits.tokens, self.layers.len());
        let temperature = config
            .attention()
            .find_map(|attention| attention.temperature);
        let list: usize = batch.iter().map(|span| span.sequence.pages().len()).sum();
        let moved = self.make_room(backend, list * layers)?;
        self.split(batch);
        let words = self.words.words();
        let mut shape = BatchShape {
            tokens: 0,
            logits: 0,
            states: 0,
            longest: 0,
        };
        let (mut start, mut items) = (0, Vec::new());
        words[0] = list as u32;
        for span in batch {
            let len = span.sequence.len();
            for (i, &token) in span.tokens.iter().enumerate() {
                let (index, position) = (shape.tokens + i, len + i);
                words[HEADER + index] = position as u32;
                words[HEADER + tokens + index] = start as u32;
                let factor = temperature.map_or(1.0, |temperature| temperature.at(position as f32));
                words[HEADER + 2 * tokens + index] = factor.to_bits();
                items.push((token, position));
            }
            shape.longest = shape.longest.max(len + span.tokens.len());
            shape.tokens += span.tokens.len();
            let rows = span.rows();
            for row in shape.tokens - rows..shape.tokens {
                words[HEADER + 3 * tokens + shape.logits] = row as u32;
                shape.logits += 1;
            }
            let blocks = self.blocks.words();
            for (at, layer) in self.layers.clone().enumerate() {
                let of_layer = table.layer(layer);
                for (i, page) in span.sequence.pages().iter().enumerate() {
                    blocks[at * list + start + i] = of_layer[page.index()];
                }
            }
            start += span.sequence.pages().len();
        }
        let mut first = 0;
        for span in batch {
            if span.output == Output::States {
                for row in first..first + span.tokens.len() {
                    words[HEADER + 3 * tokens + shape.logits + shape.states] = row as u32;
                    shape.states += 1;
                }
            }
            first += span.tokens.len();
        }
        self.rotate(backend, model, pool, shape.longest)?;
        let width = self.width;
        if begins == Begins::AtTokens {
            let rows = Chunks::new(&mut self.x.floats()[..shape.tokens * width], width);
            let scratch = &mut self.scratch[..shape.tokens * self.row_bytes];
            let scratch = Chunks::new(scratch, self.row_bytes);
            for_each_piece(pool, (rows, scratch), |index, (row, bytes)| {
                model.embed_token(kernels, items[index], bytes, row);
            });
        }
        backend.upload(self.device_words, self.words.bytes())?;
        backend.upload(x, &self.x.bytes()[..4 * shape.tokens * width])?;
        if list > 0 {
            backend.upload(
                self.device_blocks,
                &self.blocks.bytes()[..4 * list * layers],
            )?;
        }
        Ok((shape, moved))
    }

    /// Makes room for the lists of pages: sequences that share pages have more of them than there are.
    fn make_room(&mut self, backend: &mut dyn Backend, blocks: usize) -> Result<bool, DeviceError> {
        if blocks <= self.block_room {
            return Ok(false);
        }
        let room = blocks.next_power_of_two();
        self.blocks = backend.alloc_host(4 * room)?;
        let old = self.device_blocks;
        self.device_blocks = backend.alloc(4 * room, "taking memory for batches")?;
        backend.free(old);
        self.block_room = room;
        Ok(true)
    }

    /// Fills the tables of rotations up to a position.
    fn rotate(
        &mut self,
        backend: &dyn Backend,
        model: &Model,
        pool: &dyn Pool,
        needed: usize,
    ) -> Result<(), DeviceError> {
        if needed <= self.filled || self.ropes.is_empty() {
            return Ok(());
        }
        let to = needed.next_multiple_of(ROTATIONS).min(self.positions);
        for (rope, &at) in self.ropes.iter().enumerate() {
            let size = 2 * model.rope_pairs(rope);
            let first = self.filled;
            let mut floats = vec![0.0f32; (to - first) * size];
            for_each_piece(pool, Chunks::new(&mut floats, size), |index, out| {
                model.write_rotation(rope, first + index, out);
            });
            let bytes: Vec<u8> = floats.iter().flat_map(|f| f.to_le_bytes()).collect();
            backend.upload(at + 4 * (first * size) as u64, &bytes)?;
            // The bytes go with this scope.
            backend.wait()?;
        }
        self.filled = to;
        Ok(())
    }
}
