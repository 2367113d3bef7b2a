//! The output of a matmul: a strided view that can be cut by rows, so that workers write disjoint parts of one buffer.
//! Rows are floats, or bytes of what is encoded from them.
#![allow(unsafe_code)]

use core::marker::PhantomData;

/// A mutable view of `tokens` × `rows` floats: `rows` neighbours for each token, tokens `stride` apart.
pub struct TileMut<'a, T = f32> {
    start: *mut T,
    stride: usize,
    tokens: usize,
    rows: usize,
    owner: PhantomData<&'a mut [T]>,
}

// SAFETY: it is a `&mut [T]` with holes, and nothing else can reach the floats that it covers while it lives.
unsafe impl<T: Send> Send for TileMut<'_, T> {}

impl<'a, T> TileMut<'a, T> {
    /// All of `out`, which holds `rows` floats for each of `tokens`.
    ///
    /// # Panics
    /// If the length is another.
    pub fn from_slice(out: &'a mut [T], tokens: usize, rows: usize) -> Self {
        assert_eq!(
            Some(out.len()),
            tokens.checked_mul(rows),
            "the output is tokens × rows"
        );
        Self {
            start: out.as_mut_ptr(),
            stride: rows,
            tokens,
            rows,
            owner: PhantomData,
        }
    }

    /// Tokens.
    pub const fn tokens(&self) -> usize {
        self.tokens
    }

    /// Floats for each token.
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Rows before `at`, and rows from `at`.
    ///
    /// # Panics
    /// If there are fewer than `at` rows.
    pub fn split_rows(self, at: usize) -> (Self, Self) {
        assert!(at <= self.rows, "the cut is within the rows");
        // Wrapping: with no tokens there is nothing to point into.
        let second = Self {
            rows: self.rows - at,
            ..self.with_start(self.start.wrapping_add(at))
        };
        (Self { rows: at, ..self }, second)
    }

    /// A view of `rows` rows from `start` on, beside this one.
    ///
    /// # Panics
    /// If there are not so many.
    ///
    /// # Safety
    /// Until the new view is gone, nothing else reads or writes those rows.
    pub(crate) unsafe fn share_rows<'b>(&'b self, start: usize, rows: usize) -> TileMut<'b, T> {
        assert!(start + rows <= self.rows, "the view is within the rows");
        TileMut {
            rows,
            ..self.with_start(self.start.wrapping_add(start))
        }
    }

    const fn with_start(&self, start: *mut T) -> Self {
        Self {
            start,
            stride: self.stride,
            tokens: self.tokens,
            rows: self.rows,
            owner: PhantomData,
        }
    }

    /// The same view for a while.
    pub const fn reborrow(&mut self) -> TileMut<'_, T> {
        self.with_start(self.start)
    }

    /// The floats of token `t`.
    ///
    /// # Panics
    /// If there is no such token.
    #[inline(always)]
    pub fn token_mut(&mut self, t: usize) -> &mut [T] {
        assert!(t < self.tokens, "token {t} of {}", self.tokens);
        // SAFETY: `start` is inside the slice that the view was made of, whose rows are `stride` apart; this one has
        // `rows` floats from there on. `split_rows` never gives a float to two views, and `self` is borrowed mutably.
        unsafe { core::slice::from_raw_parts_mut(self.start.add(t * self.stride), self.rows) }
    }
}
