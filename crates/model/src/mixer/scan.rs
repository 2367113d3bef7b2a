//! Linear recurrences over a batch: every head's state takes a sequence's tokens one by one, so that the bits are those
//! of token by token, however long a chunk is.
//!
//! A head of a sequence is the unit of work. Its state is changed where it is stored, behind what convolutions keep.

use crate::decoder::Pass;
use crate::pages::PageStorage;
use crate::workspace::TokenPosition;
use strata_platform::Chunks;

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
                let pieces = (
                    Chunks::new(state, head_bytes),
                    Chunks::new(read, tokens * shape.values),
                );
                let work = tokens * shape.state_floats();
                self.compute
                    .each_piece(work, pieces, |head, (state, read)| {
                        for (place, out) in read.chunks_exact_mut(shape.values).enumerate() {
                            step(first + place, head, state, out);
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

/// ln(1 + eˣ).
pub(super) fn softplus(x: f32) -> f32 {
    // Where the 1 is lost.
    const LARGE: f32 = 20.0;
    if x > LARGE {
        x
    } else {
        libm::log1pf(libm::expf(x))
    }
}
