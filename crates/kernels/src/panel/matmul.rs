//! Matrix × rows of activations: which panels meet which tokens, in what order.

use core::marker::PhantomData;

use strata_quant::GgmlType;

use super::float::FloatMatmul;
use super::generic::GenericMatmul;
use super::layout::{is_packed, packed_bytes, panel_bytes, row_bytes, unpack_row, with_panel_type};
use super::{PANEL_ROWS, PanelType};
use crate::act::{ActRows, act_format};
use crate::lanes::{Dot, Lanes, MAX_PARTS, Op};
use crate::policy::{AHEAD, Choice};
use crate::tile::TileMut;
use crate::vector::padded;
use crate::{Kernels, Tiles};

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

    pub(crate) const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The bytes of a panel and of those that come after it; none where weights are not packed.
    pub(crate) fn bytes_from(&self, panel: usize) -> &'a [u8] {
        let packed = is_packed(self.ty);
        let start = packed.then(|| panel * panel_bytes(self.ty, self.cols));
        start
            .and_then(|start| self.bytes.get(start..))
            .unwrap_or(&[])
    }
}

/// out[t][r] = w[r] · x[t].
pub(crate) struct Matmul<'a> {
    pub(crate) w: Panels<'a>,
    pub(crate) x: ActRows<'a>,
    pub(crate) out: TileMut<'a>,
    pub(crate) choice: Choice,
    /// Weights that are read after these.
    pub(crate) next: &'a [u8],
}

impl<'a> Matmul<'a> {
    /// Checks once what the kernels rely on.
    pub(crate) fn new(w: Panels<'a>, x: ActRows<'a>, out: TileMut<'a>, choice: Choice) -> Self {
        assert_eq!(
            x.format(),
            act_format(w.ty),
            "the activations' format for {}",
            w.ty
        );
        assert_eq!(x.cols(), w.cols, "the activations' columns");
        assert_eq!(out.tokens(), x.tokens(), "the output's tokens");
        assert_eq!(out.rows(), w.rows, "the output's rows");
        Self {
            w,
            x,
            out,
            choice,
            next: &[],
        }
    }

    /// How far ahead of their use weights are asked for, in bytes.
    pub(super) const fn ahead(&self) -> usize {
        if self.x.tokens() == 1 {
            self.choice.distance
        } else {
            AHEAD
        }
    }
}

impl Kernels {
    /// out\[t\]\[r\] = w\[r\] · x\[t\].
    ///
    /// A row's sum runs over its blocks in order; inside a block it is exact in integers. No token's result depends on
    /// the others, and no row's on how the matrix is split.
    pub fn matmul(&self, w: Panels<'_>, x: ActRows<'_>, out: TileMut<'_>) {
        self.matmul_before(w, x, out, &[]);
    }

    /// The same, where the weights in `next` are read after these.
    pub(crate) fn matmul_before(
        &self,
        w: Panels<'_>,
        x: ActRows<'_>,
        out: TileMut<'_>,
        next: &[u8],
    ) {
        let m = Matmul {
            next,
            ..Matmul::new(w, x, out, self.policy().get(w.ty()))
        };
        let tiles = self.policy().tiles();
        if tiles != Tiles::Off && m.x.tokens() >= m.choice.tiles_from {
            return self.matmul_by_tiles(tiles, m);
        }
        self.matmul_by_vectors(m);
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

/// Columns of a tile of tokens that stay in the first-level cache while the resident weights pass over them.
const STRETCH: usize = 2048;

/// Weights in integer blocks.
struct BlockMatmul<'a, K> {
    m: Matmul<'a>,
    ty: PhantomData<K>,
}

impl<K: PanelType> Op for BlockMatmul<'_, K> {
    type Out = ();

    #[inline(always)]
    fn run<L: Dot>(self, l: L) {
        const {
            assert!(size_of::<K::Panel>() == PANEL_ROWS * K::TYPE.block_bytes());
        }
        let ahead = self.m.ahead();
        let Matmul {
            w,
            x,
            mut out,
            choice,
            next,
        } = self.m;
        let most = choice.pass.min(L::TILE);
        let blocks = w.cols / K::TYPE.block_len();
        let panels: &[K::Panel] = bytemuck::cast_slice(w.bytes);
        // Weights that are used once are read in the order in which they lie.
        let once = x.tokens() <= most;
        let stretch = if once {
            blocks
        } else {
            STRETCH / K::TYPE.block_len()
        };
        let resident = ((choice.resident_kib << 10) / (stretch * size_of::<K::Panel>())).max(1);
        for (run, panels) in panels.chunks(resident * blocks).enumerate() {
            let row = run * resident * PANEL_ROWS;
            let next = if row + panels.len() / blocks * PANEL_ROWS < w.rows {
                &[]
            } else {
                next
            };
            for from in (0..blocks).step_by(stretch) {
                let to = blocks.min(from + stretch);
                let mut t = 0;
                while t < x.tokens() {
                    let left = x.tokens() - t;
                    let place = TileRange {
                        blocks,
                        from,
                        to,
                        row,
                        t,
                        ahead: Ahead::new(ahead, panels, next),
                    };
                    t += if left >= 8 && L::TILE >= 8 && most >= 8 {
                        l.call(Tile::<K, 8>::new(panels, x, place, &mut out))
                    } else if left >= 4 && L::TILE >= 4 && most >= 4 {
                        l.call(Tile::<K, 4>::new(panels, x, place, &mut out))
                    } else if left >= 2 && L::TILE >= 2 && most >= 2 {
                        l.call(Tile::<K, 2>::new(panels, x, place, &mut out))
                    } else {
                        l.call(Tile::<K, 1>::new(panels, x, place, &mut out))
                    };
                }
            }
        }
    }
}

/// Where a tile lies.
#[derive(Copy, Clone)]
struct TileRange {
    /// Blocks in a row, and those that are taken: the sums begin where `from` is 0 and go on where it is not.
    blocks: usize,
    from: usize,
    to: usize,
    /// The first row.
    row: usize,
    /// The first token.
    t: usize,
    ahead: Ahead,
}

/// How far ahead of their use weights are asked for, in bytes. The distance wraps around.
#[derive(Copy, Clone)]
struct Ahead {
    usual: usize,
    /// The block from which on the weights that come after these are asked for.
    turn: usize,
    /// How far those are.
    next: usize,
}

impl Ahead {
    /// At the end of `blocks`, as many bytes of `next` are asked for.
    fn new<P>(usual: usize, blocks: &[P], next: &[u8]) -> Self {
        let last = usual.div_ceil(size_of::<P>()).min(blocks.len());
        let turn = match next {
            [] => blocks.len(),
            _ => blocks.len() - last,
        };
        let from = blocks[turn..].as_ptr().addr();
        Self {
            usual,
            turn,
            next: next.as_ptr().addr().wrapping_sub(from),
        }
    }

    #[inline(always)]
    fn of(self, block: usize) -> usize {
        if block < self.turn {
            self.usual
        } else {
            self.next
        }
    }
}

/// A run of panels and T tokens.
struct Tile<'a, 'o, K: PanelType, const T: usize> {
    panels: &'a [K::Panel],
    x: [&'a [K::Act]; T],
    place: TileRange,
    out: &'a mut TileMut<'o>,
}

impl<'a, 'o, K: PanelType, const T: usize> Tile<'a, 'o, K, T> {
    fn new(
        panels: &'a [K::Panel],
        x: ActRows<'a>,
        place: TileRange,
        out: &'a mut TileMut<'o>,
    ) -> Self {
        let x = core::array::from_fn(|i| &x.blocks(place.t + i)[place.from..place.to]);
        Self {
            panels,
            x,
            place,
            out,
        }
    }
}

impl<K: PanelType, const T: usize> Op for Tile<'_, '_, K, T> {
    /// T.
    type Out = usize;

    #[inline(always)]
    fn run<L: Dot>(self, l: L) -> usize {
        let TileRange {
            blocks,
            from,
            to,
            row,
            t: first,
            ahead,
        } = self.place;
        for (p, w) in self.panels.chunks_exact(blocks).enumerate() {
            let row = row + p * PANEL_ROWS;
            let w = &w[from..to];
            // Loops instead of `map`: what is not inlined would go through memory.
            let mut x = self.x;
            for t in 0..T {
                x[t] = &x[t][..w.len()];
            }
            let mut acc = [[l.splat_f(0.0); T]; MAX_PARTS];
            if from > 0 {
                for t in 0..T {
                    let sums = head(self.out.token_mut(first + t), row);
                    for part in 0..L::PARTS {
                        acc[part][t] = l.load_f(&sums, part);
                    }
                }
            }
            for b in 0..w.len() {
                // Known at compile time for several tokens.
                let ahead = if T > 1 {
                    AHEAD
                } else {
                    ahead.of(p * blocks + b)
                };
                let mut acts = [&x[0][b]; T];
                for t in 1..T {
                    acts[t] = &x[t][b];
                }
                for part in 0..L::PARTS {
                    K::block(l, ahead, part, &w[b], &acts, &mut acc[part]);
                }
            }
            for t in 0..T {
                let mut sums = [l.splat_f(0.0); MAX_PARTS];
                for part in 0..L::PARTS {
                    sums[part] = acc[part][t];
                }
                store(l, sums, row, self.out.token_mut(first + t));
            }
        }
        T
    }
}

/// Up to 16 rows of one token, as many as there are, filled up.
#[inline(always)]
pub(crate) fn head(out: &[f32], row: usize) -> [f32; PANEL_ROWS] {
    match out[row..].first_chunk() {
        Some(rows) => *rows,
        None => padded(&out[row..], 0.0),
    }
}

/// Writes up to 16 rows of one token, as many as there are.
#[inline(always)]
pub(crate) fn store<L: Lanes>(l: L, acc: [L::F; MAX_PARTS], row: usize, out: &mut [f32]) {
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
