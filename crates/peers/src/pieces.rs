//! A batch in pieces, so that machines work at the same time: while one has a piece, the next has the one before.
//!
//! Pieces of one prompt depend on each other only within a layer, where they come in order.

use crate::message::Part;
use strata_model::{Output, Sequence, Span};

/// Tokens that a piece has at least: with fewer, weights are read too often for what is done with them.
const LEAST: usize = 64;

/// Pieces for each machine, so that the first and the last wait little.
const EACH: usize = 2;

/// Consecutive tokens of a batch.
pub(crate) struct Piece<'t> {
    /// The number of its first token in the batch.
    pub(crate) first: usize,
    pub(crate) tokens: usize,
    parts: Vec<(Sequence, &'t [u32])>,
}

impl<'t> Piece<'t> {
    /// All of a batch in one piece.
    pub(crate) fn whole(batch: &[Span<'t>]) -> Self {
        let mut pieces = cut(batch, usize::MAX);
        pieces.pop().unwrap_or(Self {
            first: 0,
            tokens: 0,
            parts: Vec::new(),
        })
    }

    /// What computes it. Nothing is asked for but that.
    pub(crate) fn spans(&mut self) -> Vec<Span<'_>> {
        let spans = self.parts.iter_mut().map(|(sequence, tokens)| Span {
            sequence,
            tokens,
            output: Output::None,
            adapter: None,
            embedded: &[],
        });
        spans.collect()
    }

    /// What peers have to know of it.
    pub(crate) fn parts(&self) -> Vec<Part> {
        let parts = self.parts.iter().map(|(sequence, tokens)| Part {
            len: sequence.len() as u32,
            forgotten: sequence.forgotten() as u32,
            state: sequence.state(),
            tokens: tokens.len() as u32,
            pages: sequence.pages().to_vec(),
        });
        parts.collect()
    }
}

/// How many tokens the pieces of a batch have.
pub(crate) fn piece_tokens(tokens: usize, machines: usize) -> usize {
    tokens.div_ceil(machines * EACH).max(LEAST)
}

/// A batch in pieces of so many tokens, the last one of what is left.
pub(crate) fn cut<'t>(batch: &[Span<'t>], tokens: usize) -> Vec<Piece<'t>> {
    let mut pieces: Vec<Piece<'t>> = Vec::new();
    let mut first = 0;
    for span in batch {
        let mut done = 0;
        while done < span.tokens.len() {
            if pieces.last().is_none_or(|piece| piece.tokens >= tokens) {
                pieces.push(Piece {
                    first,
                    tokens: 0,
                    parts: Vec::new(),
                });
            }
            let Some(piece) = pieces.last_mut() else {
                break;
            };
            let count = (span.tokens.len() - done).min(tokens - piece.tokens);
            let sequence = Sequence::mirrored(
                span.sequence.pages().to_vec(),
                span.sequence.len() + done,
                span.sequence.forgotten(),
                span.sequence.state(),
            );
            piece
                .parts
                .push((sequence, &span.tokens[done..done + count]));
            piece.tokens += count;
            (done, first) = (done + count, first + count);
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_all_tokens_in_order() {
        let tokens: Vec<u32> = (0..150).collect();
        let mut sequences = [5, 0, 9].map(|len| Sequence::mirrored(vec![], len, 0, None));
        let ranges = [0..100, 100..101, 101..150];
        let spans = sequences.iter_mut().zip(ranges);
        let batch: Vec<Span<'_>> = spans
            .map(|(sequence, range)| Span {
                sequence,
                tokens: &tokens[range],
                output: Output::None,
                adapter: None,
                embedded: &[],
            })
            .collect();
        let mut pieces = cut(&batch, 64);
        let sizes: Vec<_> = pieces
            .iter()
            .map(|piece| (piece.first, piece.tokens))
            .collect();
        assert_eq!(sizes, [(0, 64), (64, 64), (128, 22)]);
        let mut seen = Vec::new();
        for piece in &mut pieces {
            seen.extend(piece.spans().iter().flat_map(|span| span.tokens.to_vec()));
        }
        assert_eq!(seen, tokens);
        let lens = |piece: &Piece<'_>| piece.parts().iter().map(|p| (p.len, p.tokens)).collect();
        let lens: Vec<Vec<_>> = pieces.iter().map(lens).collect();
        let second = vec![(69, 36), (0, 1), (9, 27)];
        assert_eq!(lens, [vec![(5, 64)], second, vec![(36, 22)]]);
        assert_eq!(Piece::whole(&batch).tokens, 150);
        assert_eq!(piece_tokens(512, 2), 128);
        assert_eq!(piece_tokens(8, 2), 64);
    }
}
