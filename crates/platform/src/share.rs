//! Sharing one mutable slice out among a pool's workers, piece by piece.
#![allow(unsafe_code)]

use crate::Pool;
use core::sync::atomic::{AtomicUsize, Ordering};

/// A pointer that workers may carry: each uses it only for the pieces that it claimed.
struct Start<T>(*mut T);

// SAFETY: the pointer is used for pieces that are disjoint between workers, of elements that may be sent.
unsafe impl<T: Send> Sync for Start<T> {}

impl<T> Start<T> {
    /// A method, so that closures capture the wrapper and not its pointer.
    fn get(&self) -> *mut T {
        self.0
    }
}

/// Calls `work(index, chunk)` for every chunk of `chunk` elements (the last may be shorter), on all workers.
///
/// Chunks are claimed one at a time, so uneven work spreads evenly; a chunk's result must not depend on who
/// computes it.
///
/// # Panics
/// If `chunk` is zero.
pub fn for_each_chunk<T: Send>(
    pool: &dyn Pool,
    data: &mut [T],
    chunk: usize,
    work: impl Fn(usize, &mut [T]) + Sync,
) {
    assert!(chunk > 0, "chunks have at least one element");
    let count = data.len().div_ceil(chunk);
    if count <= 1 || pool.workers() == 1 {
        data.chunks_mut(chunk)
            .enumerate()
            .for_each(|(index, chunk)| work(index, chunk));
        return;
    }
    let len = data.len();
    let start = Start(data.as_mut_ptr());
    let next = AtomicUsize::new(0);
    pool.run(&|_| {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                break;
            }
            let from = index * chunk;
            let elements = chunk.min(len - from);
            // SAFETY: `index` was claimed by this call alone, chunks of different indices do not overlap, all lie
            // inside `data`, which is borrowed mutably until `run` has returned.
            let piece = unsafe { core::slice::from_raw_parts_mut(start.get().add(from), elements) };
            work(index, piece);
        }
    });
}

/// Calls `work(index, part)` for every element of `parts`, on all workers.
pub fn for_each_part<T: Send>(
    pool: &dyn Pool,
    parts: &mut [T],
    work: impl Fn(usize, &mut T) + Sync,
) {
    for_each_chunk(pool, parts, 1, |index, part| work(index, &mut part[0]));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Inline;
    use alloc::vec;

    extern crate std;

    struct Threads(usize);

    impl Pool for Threads {
        fn workers(&self) -> usize {
            self.0
        }
        fn run(&self, task: &(dyn Fn(usize) + Sync)) {
            std::thread::scope(|scope| {
                for worker in 0..self.0 {
                    scope.spawn(move || task(worker));
                }
            });
        }
    }

    #[test]
    fn every_element_is_visited_once_with_its_index() {
        for pool in [&Inline as &dyn Pool, &Threads(3)] {
            for (len, chunk) in [(0, 4), (1, 4), (4, 4), (1001, 7), (64, 1)] {
                let mut data = vec![0usize; len];
                for_each_chunk(pool, &mut data, chunk, |index, piece| {
                    for (i, value) in piece.iter_mut().enumerate() {
                        *value += index * chunk + i + 1;
                    }
                });
                assert!(data.iter().enumerate().all(|(i, &value)| value == i + 1));
            }
        }
    }
}
