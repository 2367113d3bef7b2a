//! A window's tokens as segments, and where the next window begins.

use super::tokens::SpeechTokens;

/// Frames of a stamp's step.
pub(super) const STAMP_FRAMES: usize = 2;

/// A piece of a window: stamps after the window's beginning, and which of its tokens it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) tokens: core::ops::Range<usize>,
}

/// Cuts a window of so many frames where one stamp follows another. The next window begins at the last stamp of those, or
/// after this one if nothing was said after it.
pub(super) fn cut(tokens: &SpeechTokens, written: &[u32], frames: usize) -> (Vec<Piece>, usize) {
    let stamp = |token: u32| token.checked_sub(tokens.first_stamp).map(|at| at as usize);
    let is_stamp = |index: usize| {
        written
            .get(index)
            .is_some_and(|&token| stamp(token).is_some())
    };
    let mut cuts: Vec<usize> = (1..written.len())
        .filter(|&index| is_stamp(index - 1) && is_stamp(index))
        .collect();
    let last = written.len().wrapping_sub(1);
    // A single stamp at the end: there is silence after it.
    let ends = written.len() > 1 && is_stamp(last) && !is_stamp(last - 1);
    if cuts.is_empty() {
        let last = written.iter().rev().find_map(|&token| stamp(token));
        let end = last.filter(|&stamp| stamp > 0);
        let piece = Piece {
            start: 0,
            end: end.unwrap_or(frames / STAMP_FRAMES),
            tokens: 0..written.len(),
        };
        return (vec![piece], frames);
    }
    if ends {
        cuts.push(written.len());
    }
    let mut pieces = Vec::new();
    let (mut from, mut seek) = (0, 0);
    for &to in &cuts {
        let end = stamp(written[to - 1]).unwrap_or(0);
        pieces.push(Piece {
            start: stamp(written[from]).unwrap_or(0),
            end,
            tokens: from..to,
        });
        (from, seek) = (to, end * STAMP_FRAMES);
    }
    let next = if ends { frames } else { seek };
    (pieces, next)
}
