//! Matrix × rows of activations: which panels meet which tokens, in what order.

use core::marker::PhantomData;

use strata_quant::GgmlType;

use super::float::FloatMatmul;
use super::generic::GenericMatmul;
use super::layout::{is_packed, packed_bytes, panel_bytes, row_bytes, unpack_row, with_panel_type};
use super::{PANEL_ROWS, PanelType};
use crate::act::{ActRows, act_format};
use crate::lanes::{Dot, Lanes, MAX_PARTS, Op};
use crate::tile::TileMut;

/// A weight matrix, or a run of its panels.
#[derive(Copy, Clone)]
pub struct Panels<'a> {
    ty: GgmlType,
    rows: usize,
    cols: usize,
    bytes: &'a [u8],
}

impl<'a> Panels<'a> {
    /// Packed weights, [`packed_bytes`] long; for types that are not packed, the rows as in the file.
    ///
    /// # Panics
    /// If the length is another.
    pub fn new(ty: GgmlType, rows: usize, cols: usize, bytes: &'a [u8]) -> Self {
        assert_eq!(
            bytes.len(),
            packed_bytes(ty, rows, cols),
            "the length of {rows} × {cols} {ty}"
        );
        Self {
            ty,
            rows,
            cols,
            bytes,
        }
    }

    /// The type of the weights.
    pub const fn ty(&self) -> GgmlType {
        self.ty
    }

    /// Rows: outputs.
    pub const fn rows(&self) -> usize {
        self.rows
    }

    /// Columns: inputs.
    pub const fn cols(&self) -> usize {
        self.cols
    }

    /// Rows before `at`, and rows from `at`, which is a multiple of 16.
    ///
    /// # Panics
    /// If it is not, or there are fewer rows.
    pub fn split_rows(self, at: usize) -> (Self, Self) {
        assert!(
            at <= self.rows && at.is_multiple_of(PANEL_ROWS),
            "the cut is between panels"
        );
        let (first, second) = self.bytes.split_at(packed_bytes(self.ty, at, self.cols));
        (
            Self {
                rows: at,
                bytes: first,
                ..self
            },
            Self {
                rows: self.rows - at,
                bytes: second,
                ..self
            },
        )
    }

    /// The bytes of row `row` as they are in the file.
    ///
    /// # Panics
    /// If there is no such row, or `out` is not a row long.
    pub fn read_row(&self, row: usize, out: &mut [u8]) {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        if is_packed(self.ty) {
            let size = panel_bytes(self.ty, self.cols);
            let panel = &self.bytes[row / PANEL_ROWS * size..][..size];
            unpack_row(self.ty, self.cols, panel, row % PANEL_ROWS, out);
        } else {
            let size = row_bytes(self.ty, self.cols);
            out.copy_from_slice(&self.bytes[row * size..][..size]);
        }
    }

    pub(super) const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// out[t][r] = w[r] · x[t].
pub(crate) struct Matmul<'a> {
    pub(super) w: Panels<'a>,
    pub(super) x: ActRows<'a>,
    pub(super) out: TileMut<'a>,
}

impl<'a> Matmul<'a> {
    /// Checks once what the kernels rely on.
    pub(crate) fn new(w: Panels<'a>, x: ActRows<'a>, out: TileMut<'a>) -> Self {
        assert_eq!(
            x.format(),
            act_format(w.ty),
            "the activations' format for {}",
            w.ty
        );
        assert_eq!(x.cols(), w.cols, "the activations' columns");
        assert_eq!(out.tokens(), x.tokens(), "the output's tokens");
        assert_eq!(out.rows(), w.rows, "the output's rows");
        Self { w, x, out }
    }
}

impl Op for Matmul<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Dot>(self, l: L) {
        // Every kernel is a function of its own.
        with_panel_type!(
            self.w.ty,
            K => l.call(BlockMatmul::<K> { m: self, ty: PhantomData }),
            _ => match self.w.ty {
                GgmlType::F32 => l.call(FloatMatmul::<super::float::F32>::new(self)),
                GgmlType::F16 => l.call(FloatMatmul::<super::float::F16>::new(self)),
                GgmlType::BF16 => l.call(FloatMatmul::<super::float::BF16>::new(self)),
                _ => l.call(GenericMatmul(self)),
            }
        );
    }
}

/// Bytes of weights that stay in the second-level cache while all tokens pass over them.
pub(super) const RESIDENT: usize = 128 << 10;

/// Weights in integer blocks.
struct BlockMatmul<'a, K> {
    m: Matmul<'a>,
    ty: PhantomData<K>,
}

impl<K: PanelType> Op for BlockMatmul<'_, K> {
    type Out = ();

    #[inline(always)]
    fn run<L: Dot>(self, l: L) {
        let Matmul { w, x, mut out } = self.m;
        let blocks = w.cols / K::TYPE.block_len();
        let panels: &[K::Panel] = bytemuck::cast_slice(w.bytes);
        let resident = (RESIDENT / panel_bytes(K::TYPE, w.cols)).max(1);
        for (run, w) in panels.chunks(resident * blocks).enumerate() {
            let row = run * resident * PANEL_ROWS;
            let mut t = 0;
            while t < x.tokens() {
                let left = x.tokens() - t;
                let out = &mut out;
                t += if left >= 8 && L::TILE >= 8 {
                    l.call(Tile::<K, 8> {
                        w,
                        x: core::array::from_fn(|i| x.blocks(t + i)),
                        out,
                        row,
                        t,
                    })
                } else if left >= 4 && L::TILE >= 4 {
                    l.call(Tile::<K, 4> {
                        w,
                        x: core::array::from_fn(|i| x.blocks(t + i)),
                        out,
                        row,
                        t,
                    })
                } else if left >= 2 {
                    l.call(Tile::<K, 2> {
                        w,
                        x: core::array::from_fn(|i| x.blocks(t + i)),
                        out,
                        row,
                        t,
                    })
                } else {
                    l.call(Tile::<K, 1> {
                        w,
                        x: [x.blocks(t)],
                        out,
                        row,
                        t,
                    })
                };
            }
        }
    }
}

/// A run of panels from `row` on, and T tokens from `t` on.
struct Tile<'a, 'o, K: PanelType, const T: usize> {
    w: &'a [K::Panel],
    x: [&'a [K::Act]; T],
    out: &'a mut TileMut<'o>,
    row: usize,
    t: usize,
}

impl<K: PanelType, const T: usize> Op for Tile<'_, '_, K, T> {
    /// T.
    type Out = usize;

    #[inline(always)]
    fn run<L: Dot>(self, l: L) -> usize {
        let blocks = self.x[0].len();
        for x in self.x {
            assert_eq!(x.len(), blocks);
        }
        for (p, w) in self.w.chunks_exact(blocks).enumerate() {
            let mut acc = [[l.splat_f(0.0); T]; MAX_PARTS];
            for b in 0..blocks {
                let x = core::array::from_fn(|t| &self.x[t][b]);
                for part in 0..L::PARTS {
                    K::block(l, part, &w[b], &x, &mut acc[part]);
                }
            }
            let row = self.row + p * PANEL_ROWS;
            for t in 0..T {
                store(
                    l,
                    [0, 1, 2, 3].map(|part: usize| acc[part][t]),
                    row,
                    self.out.token_mut(self.t + t),
                );
            }
        }
        T
    }
}

/// Writes up to 16 rows of one token, as many as there are.
#[inline(always)]
pub(super) fn store<L: Lanes>(l: L, acc: [L::F; MAX_PARTS], row: usize, out: &mut [f32]) {
    let mut sums = [0.0; PANEL_ROWS];
    for part in 0..L::PARTS {
        l.store_f(acc[part], &mut sums, part);
    }
    match out[row..].first_chunk_mut::<PANEL_ROWS>() {
        Some(out) => *out = sums,
        None => {
            let rest = &mut out[row..];
            rest.copy_from_slice(&sums[..rest.len()]);
        }
    }
}
