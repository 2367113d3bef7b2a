//! Exercise 7.3: rows for each worker, decided beforehand.

use std::ops::Range;

/// The rows of worker `worker` of `workers`, as even as possible: in order, all rows, none twice, and no worker has two
/// more than another.
pub fn rows_of(worker: usize, workers: usize, rows: usize) -> Range<usize> {
    rows * worker / workers..rows * (worker + 1) / workers
}
