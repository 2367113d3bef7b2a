//! Linear recurrences over a batch: every head's state takes a sequence's tokens one by one, so that the bits are those
//! of token by token, however long a chunk is.
//!
//! A few heads of a sequence are the unit of work. Their states are changed where they are stored, behind what convolutions
//! keep.

use crate::decoder::Pass;
use crate::matrix::Linear;
use crate::pages::PageStorage;
use crate::workspace::{Acts, TokenPosition};
use strata_kernels::{Activation, act_format};
use strata_platform::Chunks;

/// Units of work for each worker, where there are enough heads.
const PIECES: usize = 8;

/// The largest value head.
pub(crate) const MAX_VALUES: usize = 1024;

/// The heads of a recurrence.
#[derive(Copy, Clone, Debug)]
pub(crate) struct ScanShape {
    pub(crate) heads: usize,
    /// Rows of a head's state.
    pub(crate) keys: usize,
    /// Columns of a head's state.
    pub(crate) values: usize,
}

impl ScanShape {
    /// Floats that a sequence keeps.
    pub(crate) fn state_floats(&self) -> usize {
        self.heads * self.keys * self.values
    }

    /// The width of all heads' results.
    pub(crate) fn width(&self) -> usize {
        self.heads * self.values
    }
}

/// What a head's state gives to the tokens of a span.
pub(super) struct Read<'a> {
    shape: ScanShape,
    /// For each span (heads, tokens, values).
    floats: &'a [f32],
}

impl Read<'_> {
    /// What one token reads from all heads: `out` is (heads, values).
    pub(super) fn gather(&self, token: usize, place: usize, tokens: usize, out: &mut [f32]) {
        let ScanShape { values, .. } = self.shape;
        let span = &self.floats[(token - place) * self.shape.width()..];
        for (head, out) in out.chunks_exact_mut(values).enumerate() {
            out.copy_from_slice(&span[(head * tokens + place) * values..][..values]);
        }
    }
}

impl Pass<'_> {
    /// How many tokens a token's span has.
    pub(super) fn span_tokens(&self, at: TokenPosition) -> usize {
        self.batch[at.span as usize].tokens.len()
    }

    /// Calls `step(token, head, state, out)` for each token of each head, in the order of tokens; states come behind `kept`
    /// floats of what the layer keeps. `read` is (tokens, heads · values), and so is what comes back, in another order.
    pub(super) fn scan<'r>(
        &self,
        layer: usize,
        (shape, kept): (ScanShape, usize),
        storage: &mut PageStorage,
        read: &'r mut [f32],
        step: impl Fn(usize, usize, &mut [u8], &mut [f32]) + Sync,
    ) -> Read<'r> {
        let float = size_of::<f32>();
        let kept = kept * float;
        let head_bytes = shape.keys * shape.values * float;
        let mut first = 0;
        for span in self.batch.iter().filter(|span| !span.tokens.is_empty()) {
            let tokens = span.tokens.len();
            let read = &mut read[first * shape.width()..][..tokens * shape.width()];
            if let Some(state) = span.sequence.state() {
                let state = storage.layer_state_mut(state, layer);
                let state = &mut state[kept..][..shape.heads * head_bytes];
                // Before the first position a state is empty, whatever its bytes are.
                if span.sequence.is_empty() {
                    state.fill(0);
                }
                // Neighbours stay together, so that memory is read in stretches.
                let together = (shape.heads / (PIECES * self.compute.pool.workers())).max(1);
                let read_floats = tokens * shape.values;
                let pieces = (
                    Chunks::new(state, together * head_bytes),
                    Chunks::new(read, together * read_floats),
                );
                let work = tokens * shape.state_floats();
                self.compute
                    .each_piece(work, pieces, |piece, (states, reads)| {
                        let states = states.chunks_exact_mut(head_bytes);
                        let heads = states.zip(reads.chunks_exact_mut(read_floats));
                        for (head, (state, read)) in (piece * together..).zip(heads) {
                            for (place, out) in read.chunks_exact_mut(shape.values).enumerate() {
                                step(first + place, head, state, out);
                            }
                        }
                    });
            }
            first += tokens;
        }
        Read {
            shape,
            floats: read,
        }
    }
}

/// What multiplies what tokens read, after an activation: a part of each token's row.
pub(super) struct Gate<'a> {
    pub(super) rows: &'a mut [f32],
    pub(super) stride: usize,
    pub(super) offset: usize,
    pub(super) activation: Activation,
}

/// When what a token reads is normed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum NormTime {
    BeforeGate,
    AfterGate,
}

impl Pass<'_> {
    /// What tokens read, normed by `norm` and multiplied by a gate, into `mixed`, and encoded for the last matrix.
    pub(super) fn gate_read(
        &self,
        read: &Read<'_>,
        gate: Gate<'_>,
        output: &Linear,
        (mixed, acts, positions): (&mut [f32], &mut Acts, &[TokenPosition]),
        norm: impl Fn(NormTime, &mut [f32]) + Sync,
    ) {
        let (width, tokens, kernels) = (read.shape.width(), self.tokens, self.compute.kernels);
        let format = act_format(output.matrix.ty);
        let pieces = (
            Chunks::new(&mut mixed[..tokens * width], width),
            Chunks::new(
                acts.rows_mut(format, width, tokens),
                format.row_bytes(width),
            ),
            Chunks::new(gate.rows, gate.stride),
        );
        self.compute
            .each_piece(tokens * width, pieces, |token, (out, encoded, row)| {
                let at = positions[token];
                read.gather(token, self.place(at), self.span_tokens(at), out);
                norm(NormTime::BeforeGate, out);
                let row = &mut row[gate.offset..][..width];
                kernels.activate(gate.activation, row);
                kernels.mul(out, row);
                norm(NormTime::AfterGate, out);
                kernels.quantize_act(format, out, encoded);
            });
    }

    /// Brings heads of queries and keys, side by side at the beginning of each row of `stride`, to length 1, and queries to
    /// what makes their products with keys as large as `size` allows.
    pub(super) fn unit_heads(
        &self,
        rows: &mut [f32],
        stride: usize,
        (width, size): (usize, usize),
    ) {
        /// Added to the square of a length.
        const EPSILON: f32 = 1e-6;
        let kernels = self.compute.kernels;
        let scale = 1.0 / libm::sqrtf(size as f32);
        self.compute.each_row(rows, stride, |_, row| {
            let (queries, rest) = row.split_at_mut(width);
            for (heads, scale) in [(queries, scale), (&mut rest[..width], 1.0)] {
                for head in heads.chunks_exact_mut(size) {
                    let square = kernels.dot(head, head);
                    kernels.scale(head, scale / libm::sqrtf(square + EPSILON));
                }
            }
        });
    }
}

/// ln(1 + eˣ).
pub(crate) fn softplus(x: f32) -> f32 {
    // Where the 1 is lost.
    const LARGE: f32 = 20.0;
    if x > LARGE {
        x
    } else {
        libm::log1pf(libm::expf(x))
    }
}
