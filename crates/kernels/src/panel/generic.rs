//! Weights without panels: 16 rows are dequantized a stretch of columns at a time and multiplied as an F32 panel. The
//! result has the bits that the matrix would give in F32.

use strata_quant::{GgmlType, dequantize};

use super::PANEL_ROWS;
use super::float::{F32, STRETCH, X, add_columns, combine};
use super::layout::row_bytes;
use super::matmul::{Matmul, store};
use crate::act::ActRows;
use crate::lanes::{Dot, MAX_PARTS, Op};
use crate::tile::TileMut;

// A stretch of columns is dequantized at once.
const _: () = assert!(STRETCH.is_multiple_of(256), "whole blocks of every type");

/// Tokens that one dequantization serves.
const TOKENS: usize = 32;

/// Any weights.
pub(super) struct GenericMatmul<'a>(pub(super) Matmul<'a>);

impl Op for GenericMatmul<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Dot>(self, l: L) {
        let Matmul { w, x, mut out, .. } = self.0;
        let row = row_bytes(w.ty(), w.cols());
        for (p, rows) in w.bytes().chunks(PANEL_ROWS * row).enumerate() {
            for t in (0..x.tokens()).step_by(TOKENS) {
                let tokens = TOKENS.min(x.tokens() - t);
                let (ty, out) = (w.ty(), &mut out);
                l.call(Panel {
                    ty,
                    rows,
                    row_bytes: row,
                    x,
                    t,
                    tokens,
                    row: p * PANEL_ROWS,
                    out,
                });
            }
        }
    }
}

/// Up to 16 rows, and `tokens` tokens from `t` on.
struct Panel<'a, 'o> {
    ty: GgmlType,
    rows: &'a [u8],
    row_bytes: usize,
    x: ActRows<'a>,
    t: usize,
    tokens: usize,
    row: usize,
    out: &'a mut TileMut<'o>,
}

impl Op for Panel<'_, '_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Dot>(self, l: L) {
        let mut columns = [F32([0; 64]); STRETCH];
        let mut sums = [[[l.splat_f(0.0); 4]; TOKENS]; MAX_PARTS];
        for start in (0..self.x.cols()).step_by(STRETCH) {
            let width = STRETCH.min(self.x.cols() - start);
            let columns = &mut columns[..width];
            self.dequantize(start, columns);
            for part in 0..L::PARTS {
                let (eights, rest) = sums[part][..self.tokens].as_chunks_mut();
                for (i, sums) in eights.iter_mut().enumerate() {
                    self.add::<L, 8>(l, part, columns, start, 8 * i, sums);
                }
                for (i, sums) in rest.as_chunks_mut().0.iter_mut().enumerate() {
                    self.add::<L, 1>(l, part, columns, start, 8 * eights.len() + i, sums);
                }
            }
        }
        for t in 0..self.tokens {
            let mut acc = [l.splat_f(0.0); MAX_PARTS];
            for part in 0..L::PARTS {
                acc[part] = combine(l, &sums[part][t]);
            }
            store(l, acc, self.row, self.out.token_mut(self.t + t));
        }
    }
}

impl Panel<'_, '_> {
    /// Adds the products of the columns from `start` on with T tokens from `t` on.
    #[inline(always)]
    fn add<L: Dot, const T: usize>(
        &self,
        l: L,
        part: usize,
        columns: &[F32],
        start: usize,
        t: usize,
        sums: &mut [[L::F; 4]; T],
    ) {
        let x: [&[X]; T] = core::array::from_fn(|i| &self.x.blocks(self.t + t + i)[start..]);
        add_columns(l, 0, part, columns, &x, sums);
    }

    /// Fills the columns from `start` on.
    fn dequantize(&self, start: usize, columns: &mut [F32]) {
        let mut values = [0.0; STRETCH];
        let values = &mut values[..columns.len()];
        let (first, bytes) = (row_bytes(self.ty, start), row_bytes(self.ty, values.len()));
        for (r, row) in self.rows.chunks_exact(self.row_bytes).enumerate() {
            // The sizes fit by construction, so only a type without values can fail; NaN says so in the result.
            if dequantize(self.ty, &row[first..][..bytes], values).is_err() {
                values.fill(f32::NAN);
            }
            for (column, value) in columns.iter_mut().zip(&*values) {
                column.0[4 * r..][..4].copy_from_slice(&value.to_ne_bytes());
            }
        }
    }
}
