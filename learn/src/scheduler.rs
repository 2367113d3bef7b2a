//! What goes into the next step: a scheduler that knows nothing about models.

// ANCHOR: scheduler
/// A request on its way.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// Its name.
    pub name: &'static str,
    /// Tokens of the prompt that are not computed yet.
    pub prompt: usize,
    /// Tokens that it may still write.
    pub answer: usize,
}

/// A sequence's part of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The sequence's place in the list.
    pub sequence: usize,
    /// How many of its tokens are computed.
    pub tokens: usize,
}

/// Plans a step of at most `budget` tokens, and takes them off the sequences, which are in the order of their arrival.
pub fn plan(sequences: &mut [Sequence], budget: usize) -> Vec<Share> {
    let mut left = budget;
    let mut shares = Vec::new();
    // Who is writing goes first: one token each, so that no reader waits for somebody else's long prompt.
    for (i, sequence) in sequences.iter_mut().enumerate() {
        if sequence.prompt == 0 && sequence.answer > 0 && left > 0 {
            sequence.answer -= 1;
            left -= 1;
            shares.push(Share {
                sequence: i,
                tokens: 1,
            });
        }
    }
    // The rest of the step reads prompts, the oldest first, a chunk at a time.
    for (i, sequence) in sequences.iter_mut().enumerate() {
        let tokens = sequence.prompt.min(left);
        if tokens > 0 {
            sequence.prompt -= tokens;
            left -= tokens;
            shares.push(Share {
                sequence: i,
                tokens,
            });
            if sequence.prompt == 0 {
                // The last token of a prompt gives the first one of the answer.
                sequence.answer = sequence.answer.saturating_sub(1);
            }
        }
    }
    shares
}
// ANCHOR_END: scheduler

// ANCHOR: batch
/// A matrix times several vectors: each row is read once and used for all of them.
pub fn matmul_batch(matrix: &[f32], xs: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let mut outs = vec![Vec::new(); xs.len()];
    let Some(cols) = xs.first().map(Vec::len).filter(|cols| *cols > 0) else {
        return outs;
    };
    for row in matrix.chunks_exact(cols) {
        for (out, x) in outs.iter_mut().zip(xs) {
            out.push(crate::lanes::dot_lanes(row, x));
        }
    }
    outs
}
// ANCHOR_END: batch
