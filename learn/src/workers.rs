//! One job for all processors: rows are handed out in runs, and no sum is ever cut.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::lanes::dot_lanes;

// ANCHOR: job
/// A matrix times a vector, to be done by whoever comes.
pub struct Job<'a> {
    matrix: &'a [f32],
    x: &'a [f32],
    /// The next run that nobody has taken.
    next: AtomicUsize,
    /// The results, a run at a time.
    runs: Vec<Mutex<Vec<f32>>>,
}

/// Rows in a run: enough to be worth the trip, few enough for everybody to end at about the same time.
const RUN: usize = 16;

impl<'a> Job<'a> {
    /// Nothing is done yet.
    pub fn new(matrix: &'a [f32], x: &'a [f32]) -> Job<'a> {
        let rows = matrix.len() / x.len().max(1);
        Job {
            matrix,
            x,
            next: AtomicUsize::new(0),
            runs: (0..rows.div_ceil(RUN)).map(|_| Mutex::default()).collect(),
        }
    }

    /// What each worker does: takes runs until there are none. Gives how many it took.
    pub fn work(&self) -> usize {
        let mut taken = 0;
        loop {
            let run = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(out) = self.runs.get(run) else {
                return taken;
            };
            let rows = self.matrix.chunks_exact(self.x.len());
            let rows = rows.skip(run * RUN).take(RUN);
            let done = rows.map(|row| dot_lanes(row, self.x)).collect();
            *out.lock().expect("no worker panics") = done;
            taken += 1;
        }
    }

    /// The results in order, after all workers have returned.
    pub fn finish(self) -> Vec<f32> {
        let runs = self.runs.into_iter();
        runs.flat_map(|run| run.into_inner().expect("no worker panics"))
            .collect()
    }
}
// ANCHOR_END: job

// ANCHOR: together
/// Does a job with so many threads.
pub fn matmul_together(matrix: &[f32], x: &[f32], threads: usize) -> Vec<f32> {
    let job = Job::new(matrix, x);
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| job.work());
        }
        job.work();
    });
    job.finish()
}
// ANCHOR_END: together
