//! Weights without panels: 16 rows are dequantized a stretch of columns at a time and multiplied as an F32 panel. The
//! result has the bits that the matrix would give in F32.

use strata_quant::{GgmlType, dequantize};

use super::PANEL_ROWS;
use super::float::{F32, X, add_columns, combine};
use super::layout::row_bytes;
use super::matmul::{Matmul, store};
use crate::act::ActRows;
use crate::lanes::{Dot, MAX_PARTS, Op};
use crate::tile::TileMut;

/// Columns that are dequantized at once: a multiple of every block's length.
const STRETCH: usize = 256;

/// Tokens that one dequantization serves.
const TOKENS: usize = 32;

/// Any weights.
pub(super) struct GenericMatmul<'a>(pub(super) Matmul<'a>);

impl Op for GenericMatmul<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Dot>(self, l: L) {
        let Matmul { w, x, mut out } = self.0;
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
        let mut sums = [[[[l.splat_f(0.0); 4]; 1]; MAX_PARTS]; TOKENS];
        for start in (0..self.x.cols()).step_by(STRETCH) {
            let width = STRETCH.min(self.x.cols() - start);
            self.dequantize(start, &mut columns[..width]);
            for (t, sums) in sums[..self.tokens].iter_mut().enumerate() {
                let x: &[X] = &self.x.blocks(self.t + t)[start..];
                for part in 0..L::PARTS {
                    add_columns(l, part, &columns[..width], &[x], &mut sums[part]);
                }
            }
        }
        for (t, sums) in sums[..self.tokens].iter().enumerate() {
            let mut acc = [l.splat_f(0.0); MAX_PARTS];
            for part in 0..L::PARTS {
                acc[part] = combine(l, &sums[part][0]);
            }
            store(l, acc, self.row, self.out.token_mut(self.t + t));
        }
    }
}

impl Panel<'_, '_> {
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
