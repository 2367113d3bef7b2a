//! Positions whose embeddings are given: what a tower made of an image, in place of rows of the token table.

use crate::error::BatchError;
use alloc::sync::Arc;
use core::ops::Range;

/// A run of positions whose embeddings are given. The tokens at these positions are placeholders: any of the vocabulary.
#[derive(Clone)]
pub struct EmbeddedRun {
    /// The first position, counted from the beginning of the sequence.
    pub start: usize,
    /// How many positions there are.
    pub len: usize,
    /// (positions, width), or (positions, 1 + layers, width) where the model adds something of the image behind each of its
    /// first layers.
    pub rows: Arc<[f32]>,
    /// Tells what the rows were made from: runs of different images have different digests.
    pub digest: [u8; 32],
    /// Whether the positions see each other, also those that come later. They are computed in one batch then.
    pub mutual: bool,
    /// How the positions lie in the image, where rotary positions have axes.
    pub grid: Option<Grid>,
}

/// How a run's positions lie in an image: row by row.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    /// From top to bottom.
    pub rows: usize,
    /// From left to right.
    pub columns: usize,
}

impl EmbeddedRun {
    /// The positions.
    pub fn range(&self) -> Range<usize> {
        self.start..self.start + self.len
    }

    /// What a position that the run has begins with, and what is added to it behind each of the first layers.
    pub(crate) fn row(&self, position: usize) -> &[f32] {
        let width = self.rows.len() / self.len;
        &self.rows[(position - self.start) * width..][..width]
    }
}

impl PartialEq for EmbeddedRun {
    fn eq(&self, other: &Self) -> bool {
        let what = |run: &Self| (run.range(), run.digest, run.mutual, run.grid);
        what(self) == what(other)
    }
}

impl Eq for EmbeddedRun {}

impl core::fmt::Debug for EmbeddedRun {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("EmbeddedRun")
            .field("positions", &self.range())
            .field("mutual", &self.mutual)
            .field("grid", &self.grid)
            .finish_non_exhaustive()
    }
}

/// The run that has a position, if one does. Runs are in order.
pub(crate) fn run_at(runs: &[EmbeddedRun], position: usize) -> Option<&EmbeddedRun> {
    let after = runs.partition_point(|run| run.start <= position);
    let run = runs[..after].last()?;
    run.range().contains(&position).then_some(run)
}

/// A position's place on each axis of a rotation: time, row, column.
///
/// Text counts up on all axes alike. An image stands still in time and counts its rows and columns on the other two; text
/// after it goes on behind the largest of its places, so that places fall behind positions.
pub(crate) fn axes(runs: &[EmbeddedRun], position: usize) -> [usize; 3] {
    let mut behind = 0;
    for run in runs {
        let Some(grid) = run.grid else { continue };
        if run.start > position {
            break;
        }
        if run.range().contains(&position) {
            let (start, index) = (run.start - behind, position - run.start);
            return [
                start,
                start + index / grid.columns,
                start + index % grid.columns,
            ];
        }
        behind += run.len - grid.rows.max(grid.columns);
    }
    [position - behind; 3]
}

/// Refuses runs that cannot be computed with the positions of a span; each of those has `width` numbers.
pub(crate) fn check(
    runs: &[EmbeddedRun],
    span: Range<usize>,
    width: usize,
) -> Result<(), BatchError> {
    let mut end = 0;
    for run in runs {
        let grid = run.grid.is_none_or(|grid| {
            grid.columns > 0 && grid.rows.checked_mul(grid.columns) == Some(run.len)
        });
        let rows = run.len.checked_mul(width) == Some(run.rows.len());
        if run.len == 0 || run.start < end || !grid || !rows {
            return Err(BatchError::Embedded { start: run.start });
        }
        end = run.range().end;
        let begun = run.start < span.end && span.start < end;
        if run.mutual && begun && span.end < end {
            return Err(BatchError::CutRun {
                start: run.start,
                end,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    fn run(start: usize, rows: usize, columns: usize) -> EmbeddedRun {
        EmbeddedRun {
            start,
            len: rows * columns,
            rows: vec![0.5; rows * columns * 4].into(),
            digest: [0; 32],
            mutual: true,
            grid: Some(Grid { rows, columns }),
        }
    }

    #[test]
    fn axes_count_as_qwen_counts_them() {
        let runs = [run(3, 2, 4), run(13, 3, 1)];
        let places: Vec<_> = (0..18).map(|p| axes(&runs, p)).collect();
        assert_eq!(places[2], [2, 2, 2]);
        assert_eq!(places[3], [3, 3, 3]);
        assert_eq!(places[6], [3, 3, 6]);
        assert_eq!(places[7], [3, 4, 3]);
        // The first image takes four places, its longer side.
        assert_eq!(places[11], [7, 7, 7]);
        assert_eq!(places[13], [9, 9, 9]);
        assert_eq!(places[15], [9, 11, 9]);
        assert_eq!(places[16], [12, 12, 12]);
    }

    #[test]
    fn runs_are_found_by_position() {
        let runs = [run(3, 2, 4), run(13, 3, 1)];
        let start = |position| run_at(&runs, position).map(|run| run.start);
        assert_eq!(
            [2, 3, 10, 11, 13, 15, 16].map(start),
            [None, Some(3), Some(3), None, Some(13), Some(13), None]
        );
    }

    #[test]
    fn what_is_cut_or_has_too_few_rows_is_refused() {
        let runs = [run(3, 2, 4)];
        assert_eq!(check(&runs, 0..11, 4), Ok(()));
        assert_eq!(check(&runs, 0..3, 4), Ok(()));
        assert_eq!(check(&runs, 11..12, 4), Ok(()));
        let cut = Err(BatchError::CutRun { start: 3, end: 11 });
        assert_eq!(check(&runs, 0..10, 4), cut);
        assert_eq!(check(&runs, 4..5, 4), cut);
        // Its first half is there already.
        assert_eq!(check(&runs, 7..11, 4), Ok(()));
        let wrong = Err(BatchError::Embedded { start: 3 });
        assert_eq!(check(&runs, 0..11, 5), wrong);
        let twice = [run(3, 2, 4), run(10, 1, 1)];
        let wrong = Err(BatchError::Embedded { start: 10 });
        assert_eq!(check(&twice, 0..20, 4), wrong);
    }
}
