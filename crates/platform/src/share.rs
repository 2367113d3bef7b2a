//! Sharing mutable slices out among a pool's workers, piece by piece.
#![allow(unsafe_code)]

use crate::Pool;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicUsize, Ordering};

/// Something that is cut into pieces, each of which one worker may have to itself.
///
/// # Safety
/// Pieces of different numbers do not overlap, whatever else is shared at the same time.
pub unsafe trait Pieces: Sync {
    /// One of them.
    type Piece;

    /// How many there are.
    fn count(&self) -> usize;

    /// Piece `index`.
    ///
    /// # Safety
    /// There is such a piece, and it has not been handed out before.
    unsafe fn piece(&self, index: usize) -> Self::Piece;
}

/// A slice in chunks of so many elements; the last may be shorter.
pub struct Chunks<'a, T> {
    start: *mut T,
    len: usize,
    chunk: usize,
    owner: PhantomData<&'a mut [T]>,
}

// SAFETY: it is a `&mut [T]` whose elements are reached only through pieces, which are disjoint between workers.
unsafe impl<T: Send> Sync for Chunks<'_, T> {}

impl<'a, T> Chunks<'a, T> {
    /// Cuts `data` into chunks of `chunk` elements.
    ///
    /// # Panics
    /// If `chunk` is zero.
    pub fn new(data: &'a mut [T], chunk: usize) -> Self {
        assert!(chunk > 0, "chunks have at least one element");
        Self {
            start: data.as_mut_ptr(),
            len: data.len(),
            chunk,
            owner: PhantomData,
        }
    }
}

// SAFETY: chunks of different numbers do not overlap, and the slice is borrowed mutably.
unsafe impl<'a, T: Send> Pieces for Chunks<'a, T> {
    type Piece = &'a mut [T];

    fn count(&self) -> usize {
        self.len.div_ceil(self.chunk)
    }

    unsafe fn piece(&self, index: usize) -> &'a mut [T] {
        let from = index * self.chunk;
        let elements = self.chunk.min(self.len - from);
        // SAFETY: the caller says that the chunk exists, so it lies inside the slice, and that nobody has been given
        // it before.
        unsafe { core::slice::from_raw_parts_mut(self.start.add(from), elements) }
    }
}

/// Stretches of a slice, all of one length.
pub struct Stretches<'a, T> {
    data: Chunks<'a, T>,
    starts: &'a [usize],
    len: usize,
}

impl<'a, T> Stretches<'a, T> {
    /// `len` elements from each of `starts` on; `None` if they are not in order, overlap, or reach past the end.
    pub fn new(data: &'a mut [T], starts: &'a [usize], len: usize) -> Option<Self> {
        let apart = starts
            .windows(2)
            .all(|pair| pair[0].checked_add(len).is_some_and(|end| end <= pair[1]));
        let last = starts.last().map_or(Some(0), |last| last.checked_add(len));
        if !apart || last.is_none_or(|end| end > data.len()) {
            return None;
        }
        Some(Self {
            data: Chunks::new(data, 1),
            starts,
            len,
        })
    }
}

// SAFETY: stretches of different numbers do not overlap: each ends before the next begins.
unsafe impl<'a, T: Send> Pieces for Stretches<'a, T> {
    type Piece = &'a mut [T];

    fn count(&self) -> usize {
        self.starts.len()
    }

    unsafe fn piece(&self, index: usize) -> &'a mut [T] {
        // SAFETY: all stretches lie inside the slice, and the caller says that nobody has been given this one before.
        unsafe {
            core::slice::from_raw_parts_mut(self.data.start.add(self.starts[index]), self.len)
        }
    }
}

/// Pieces of the same number together.
macro_rules! together {
    ($($name:ident $place:tt),*) => {
        // SAFETY: each of them keeps its pieces apart, and all are borrowed mutably, so none overlaps another.
        unsafe impl<$($name: Pieces),*> Pieces for ($($name,)*) {
            type Piece = ($($name::Piece,)*);

            fn count(&self) -> usize {
                usize::MAX$(.min(self.$place.count()))*
            }

            unsafe fn piece(&self, index: usize) -> Self::Piece {
                // SAFETY: the caller says that there are such pieces and that nobody has been given them before.
                unsafe { ($(self.$place.piece(index),)*) }
            }
        }
    };
}

together!(A 0, B 1);
together!(A 0, B 1, C 2);
together!(A 0, B 1, C 2, D 3);

/// Calls `work(index, piece)` for every piece, on all workers.
///
/// Pieces are claimed one at a time, so uneven work spreads evenly; a piece's result must not depend on who
/// computes it.
pub fn for_each_piece<P: Pieces>(
    pool: &dyn Pool,
    pieces: P,
    work: impl Fn(usize, P::Piece) + Sync,
) {
    let count = pieces.count();
    if count <= 1 || pool.workers() == 1 {
        return each_alone(pieces, work);
    }
    let next = AtomicUsize::new(0);
    pool.share(&|_| {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                break;
            }
            // SAFETY: `index` was claimed by this call alone, and `pieces` is ours.
            work(index, unsafe { pieces.piece(index) });
        }
    });
}

/// Calls `work(index, piece)` for every piece in turn, on the caller.
pub fn each_alone<P: Pieces>(pieces: P, work: impl Fn(usize, P::Piece)) {
    for index in 0..pieces.count() {
        // SAFETY: each piece once, and `pieces` is ours.
        work(index, unsafe { pieces.piece(index) });
    }
}

/// Calls `work(index, chunk)` for every chunk of `chunk` elements (the last may be shorter), on all workers.
///
/// # Panics
/// If `chunk` is zero.
pub fn for_each_chunk<T: Send>(
    pool: &dyn Pool,
    data: &mut [T],
    chunk: usize,
    work: impl Fn(usize, &mut [T]) + Sync,
) {
    for_each_piece(pool, Chunks::new(data, chunk), work);
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

    #[test]
    fn rows_of_several_slices_go_together() {
        for pool in [&Inline as &dyn Pool, &Threads(3)] {
            let (mut a, mut b, mut c) = (vec![0usize; 30], vec![0u8; 20], vec![0u16; 10]);
            let rows = (
                Chunks::new(&mut a, 3),
                Chunks::new(&mut b, 2),
                Chunks::new(&mut c, 1),
            );
            for_each_piece(pool, rows, |index, (a, b, c)| {
                a.fill(index + 1);
                b.fill(index as u8 + 1);
                c[0] += index as u16 + 1;
            });
            assert!(a.iter().enumerate().all(|(i, &value)| value == i / 3 + 1));
            assert!(
                b.iter()
                    .enumerate()
                    .all(|(i, &value)| value as usize == i / 2 + 1)
            );
            assert!(
                c.iter()
                    .enumerate()
                    .all(|(i, &value)| value as usize == i + 1)
            );
        }
    }

    #[test]
    fn stretches_are_kept_apart() {
        let mut data = vec![0; 20];
        for starts in [&[0, 3][..], &[5, 1], &[2, 2], &[0, 17], &[usize::MAX]] {
            assert!(Stretches::new(&mut data, starts, 4).is_none(), "{starts:?}");
        }
        let stretches = Stretches::new(&mut data, &[1, 8, 16], 4).unwrap();
        for_each_piece(&Threads(3), stretches, |index, piece| piece.fill(index + 1));
        assert_eq!(
            data,
            [0, 1, 1, 1, 1, 0, 0, 0, 2, 2, 2, 2, 0, 0, 0, 0, 3, 3, 3, 3]
        );
        assert!(Stretches::new(&mut data, &[], 4).is_some());
    }
}
