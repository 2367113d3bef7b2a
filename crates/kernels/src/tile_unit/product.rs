//! A matrix × at least 16 tokens on a tile unit.
//!
//! Some pairs of panels are unpacked, a stretch of columns at a time, and all tokens pass over them, 32 at once: four squares of
//! sums for every 32 columns of a pair. The unit is one to two steps ahead of the float operations: a square is read only when its
//! register is needed again, because reading one that is not ready holds up everything behind it.

use core::marker::PhantomData;
use core::ops::Range;

use super::{COLUMNS, Square, TOKENS, TileAct, TilePanel, TileUnit, WeightTile, with_tile_panel};
use crate::act::ActRows;
use crate::lanes::{Dot, Op};
use crate::panel::PANEL_ROWS;
use crate::panel::matmul::{Matmul, head};
use crate::tile::TileMut;

/// Unpacked tiles of two panels that are kept, and of how many such pairs: 160 KiB, on the stack.
const KEPT: usize = 64;
const PAIRS: usize = 4;

/// A product of one of the [types](super::TYPES).
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
pub(crate) struct Tiled<'a, U> {
    pub(crate) m: Matmul<'a>,
    pub(crate) unit: U,
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
impl<U: TileUnit> Op for Tiled<'_, U> {
    type Out = ();

    #[inline(always)]
    fn run<L: Dot>(self, l: L) {
        with_tile_panel!(
            self.m.w.ty(),
            K => l.call(TiledMatmul::<K, U> { m: self.m, unit: self.unit, ty: PhantomData }),
            _ => l.call(self.m)
        );
    }
}

/// The same in plain Rust, where [`Dot::call`] is no function of its own: each type gets one, with a stack of its own.
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
pub(crate) fn run_plainly(m: Matmul<'_>) {
    use super::emulated::Emulated;
    use crate::arch::scalar::Scalar;

    #[inline(never)]
    fn one<K: TilePanel>(m: Matmul<'_>) {
        let (unit, ty) = (Emulated::new(), PhantomData::<K>);
        TiledMatmul { m, unit, ty }.run(Scalar);
    }
    with_tile_panel!(m.w.ty(), K => one::<K>(m), _ => Scalar.call(m));
}

struct TiledMatmul<'a, K, U> {
    m: Matmul<'a>,
    unit: U,
    ty: PhantomData<K>,
}

impl<K: TilePanel, U: TileUnit> Op for TiledMatmul<'_, K, U> {
    type Out = ();

    #[inline(always)]
    fn run<L: Dot>(mut self, l: L) {
        let Matmul { w, x, mut out, .. } = self.m;
        let (blocks, in_block) = (
            w.cols() / K::TYPE.block_len(),
            K::TYPE.block_len() / COLUMNS,
        );
        let panels: &[K::Panel] = bytemuck::cast_slice(w.bytes());
        let (groups, stretch) = (blocks * in_block, KEPT / 2 / K::TILES);
        let token_tiles = x.tokens().div_ceil(TOKENS);
        let mut tiles = [[WeightTile::EMPTY; KEPT]; PAIRS];
        let mut sums = Sums::EMPTY;
        for from in (0..groups).step_by(stretch) {
            let groups = from..(from + stretch).min(groups);
            for (run, panels) in panels.chunks(2 * PAIRS * blocks).enumerate() {
                for (i, panel) in panels.chunks_exact(blocks).enumerate() {
                    let tiles = tiles[i / 2].chunks_exact_mut(2 * K::TILES);
                    for (group, tiles) in groups.clone().zip(tiles) {
                        let mut unpacked = [WeightTile::EMPTY; 2];
                        for part in 0..L::PARTS {
                            let block = &panel[group / in_block];
                            K::unpack(l, part, block, group % in_block, &mut unpacked);
                        }
                        for tile in 0..K::TILES {
                            tiles[2 * tile + i % 2] = unpacked[tile];
                        }
                    }
                }
                for t in (0..token_tiles).step_by(2) {
                    let mut pass = Pass::<K>::new(x, t, groups.clone());
                    pass.gather(&mut sums.tokens);
                    let pairs = panels.chunks(2 * blocks).zip(&tiles).enumerate();
                    for (pair, (panels, tiles)) in pairs {
                        pass.panels = panels.len() / blocks;
                        let row = 2 * (PAIRS * run + pair) * PANEL_ROWS;
                        pass.begin(&mut sums, &mut out, row);
                        pass.run(l, &mut self.unit, tiles, &mut sums);
                        pass.end(&sums, &mut out, row);
                    }
                }
            }
        }
    }
}

/// What a pass writes.
#[repr(C, align(64))]
struct Sums {
    /// Squares of integers of two steps.
    squares: [[Square; 4]; 2],
    /// Floats: for each square, rows of each token.
    acc: [Floats; 4],
    /// The first of two products of a block, weighted.
    weighted: [Floats; 4],
    tokens: TokenScales,
}

/// Rows of each token of a square.
type Floats = [[f32; PANEL_ROWS]; TOKENS];

/// What a tile's tokens are multiplied with, side by side for each group of columns.
struct TokenScales {
    scale: [[[f32; TOKENS]; KEPT / 2]; 2],
    group_sum: [[[f32; TOKENS]; KEPT / 2]; 2],
}

impl Sums {
    const EMPTY: Self = Self {
        squares: [[Square([[0; 64]; TOKENS]); 4]; 2],
        acc: [[[0.0; PANEL_ROWS]; TOKENS]; 4],
        weighted: [[[0.0; PANEL_ROWS]; TOKENS]; 4],
        tokens: TokenScales {
            scale: [[[0.0; TOKENS]; KEPT / 2]; 2],
            group_sum: [[[0.0; TOKENS]; KEPT / 2]; 2],
        },
    };
}

/// A stretch of columns of one or two tiles of tokens, and of one or two panels after the other.
struct Pass<'a, K: TilePanel> {
    x: ActRows<'a>,
    rows: [&'a [K::Act]; 2 * TOKENS],
    /// The first token of each tile, and the first whose results are not there yet: where the tokens are no multiple of
    /// 16, the last tile has some of the one before.
    first: [usize; 2],
    new: [usize; 2],
    token_tiles: usize,
    panels: usize,
    groups: Range<usize>,
}

impl<'a, K: TilePanel> Pass<'a, K> {
    /// Tiles `tile` and `tile + 1` of tokens, if there are two.
    #[inline(always)]
    fn new(x: ActRows<'a>, tile: usize, groups: Range<usize>) -> Self {
        let new = [TOKENS * tile, TOKENS * (tile + 1)];
        let last = x.tokens() - TOKENS;
        let first = new.map(|t| t.min(last));
        Self {
            x,
            rows: core::array::from_fn(|t| x.blocks(first[t / TOKENS] + t % TOKENS)),
            first,
            new,
            token_tiles: if new[1] < x.tokens() { 2 } else { 1 },
            panels: 2,
            groups,
        }
    }

    /// Whether square `q` has tokens and rows.
    #[inline(always)]
    const fn has(&self, q: usize) -> bool {
        q / 2 < self.token_tiles && q % 2 < self.panels
    }

    /// Puts side by side what the inner loop takes token by token.
    #[inline(always)]
    fn gather(&self, out: &mut TokenScales) {
        let in_block = K::TYPE.block_len() / COLUMNS;
        for (i, rows) in self
            .rows
            .chunks_exact(TOKENS)
            .take(self.token_tiles)
            .enumerate()
        {
            for (t, row) in rows.iter().enumerate() {
                let groups = self.groups.clone().zip(&mut out.scale[i]);
                for ((group, scale), sum) in groups.zip(&mut out.group_sum[i]) {
                    let act = &row[group / in_block];
                    scale[t] = act.scale(group % in_block);
                    if K::MINIMA {
                        sum[t] = act.group_sum(group % in_block);
                    }
                }
            }
        }
    }

    /// The sums begin at 0, or where the stretch before left off.
    #[inline(always)]
    fn begin(&self, sums: &mut Sums, out: &mut TileMut<'_>, row: usize) {
        for q in (0..4).filter(|&q| self.has(q)) {
            for (t, acc) in sums.acc[q].iter_mut().enumerate() {
                *acc = if self.groups.start == 0 {
                    [0.0; PANEL_ROWS]
                } else {
                    head(
                        out.token_mut(self.first[q / 2] + t),
                        row + q % 2 * PANEL_ROWS,
                    )
                };
            }
        }
    }

    /// Writes what is new.
    #[inline(always)]
    fn end(&self, sums: &Sums, out: &mut TileMut<'_>, row: usize) {
        for q in (0..4).filter(|&q| self.has(q)) {
            let row = row + q % 2 * PANEL_ROWS;
            for (t, acc) in sums.acc[q].iter().enumerate() {
                let t = self.first[q / 2] + t;
                if t >= self.new[q / 2] {
                    let out = &mut out.token_mut(t)[row..];
                    let rows = out.len().min(PANEL_ROWS);
                    out[..rows].copy_from_slice(&acc[..rows]);
                }
            }
        }
    }

    #[inline(always)]
    fn run<L: Dot, U: TileUnit>(
        &self,
        l: L,
        unit: &mut U,
        tiles: &[WeightTile; KEPT],
        sums: &mut Sums,
    ) {
        let steps = self.groups.len() * K::TILES;
        for q in 0..4 {
            self.start(unit, tiles, q, 0);
        }
        for q in 0..4 {
            self.advance(unit, tiles, q, 0..steps, &mut sums.squares[0][q]);
        }
        for step in 0..steps {
            // Written out, so that each knows its registers.
            self.square(l, unit, tiles, 0, step..steps, sums);
            self.square(l, unit, tiles, 1, step..steps, sums);
            self.square(l, unit, tiles, 2, step..steps, sums);
            self.square(l, unit, tiles, 3, step..steps, sums);
        }
    }

    /// Multiplies square `q` of a step.
    #[inline(always)]
    fn start<U: TileUnit>(&self, unit: &mut U, tiles: &[WeightTile; KEPT], q: usize, step: usize) {
        if !self.has(q) {
            return;
        }
        if q.is_multiple_of(2) && step.is_multiple_of(K::TILES) {
            let group = self.groups.start + step / K::TILES;
            let in_block = K::TYPE.block_len() / COLUMNS;
            let at = group / in_block * size_of::<K::Act>() + group % in_block * COLUMNS;
            let (bytes, stride) = self.x.row_on(self.first[q / 2]);
            unit.load_x(q / 2, &bytes[at..], stride);
        }
        if q / 2 == 0 {
            unit.load_w(q % 2, &tiles[2 * step + q % 2].q);
        }
        unit.multiply(q);
    }

    /// Reads square `q` of the first of `steps`, and multiplies that of the next.
    #[inline(always)]
    fn advance<U: TileUnit>(
        &self,
        unit: &mut U,
        tiles: &[WeightTile; KEPT],
        q: usize,
        steps: Range<usize>,
        out: &mut Square,
    ) {
        if self.has(q) && !steps.is_empty() {
            unit.store(q, out);
            if steps.len() > 1 {
                self.start(unit, tiles, q, steps.start + 1);
            }
        }
    }

    /// Lets the unit go on, and joins square `q` of the first of `steps` to the sums.
    #[inline(always)]
    fn square<L: Dot, U: TileUnit>(
        &self,
        l: L,
        unit: &mut U,
        tiles: &[WeightTile; KEPT],
        q: usize,
        steps: Range<usize>,
        sums: &mut Sums,
    ) {
        if !self.has(q) {
            return;
        }
        let step = steps.start;
        let next = &mut sums.squares[(step + 1) % 2][q];
        self.advance(unit, tiles, q, step + 1..steps.end, next);
        let group = step / K::TILES;
        let w = &tiles[2 * step + q % 2];
        let x_scales = &sums.tokens.scale[q / 2][group];
        let x_sums = &sums.tokens.group_sum[q / 2][group];
        let square = &sums.squares[step % 2][q].0;
        let (weighted, acc) = (&mut sums.weighted[q], &mut sums.acc[q]);
        for part in 0..L::PARTS {
            let (scale, min) = (l.load_f(&w.scale, part), l.load_f(&w.min, part));
            for t in 0..TOKENS {
                let mut sum = small_to_f(l, l.load(&square[t], part));
                if K::TILES == 2 {
                    // Both products and their sum are exact, but for the last rounding, which is that of the integer.
                    // Added to 0, a product of 0 has its sign.
                    if step.is_multiple_of(2) {
                        let first = l.fma(sum, min, l.splat_f(0.0));
                        l.store_f(first, &mut weighted[t], part);
                        continue;
                    }
                    sum = l.fma(sum, min, l.load_f(&weighted[t], part));
                }
                let scale = l.mul_f(scale, l.splat_f(x_scales[t]));
                let mut joined = l.fma(scale, sum, l.load_f(&acc[t], part));
                if K::MINIMA {
                    joined = l.fnma(min, l.splat_f(x_sums[t]), joined);
                }
                l.store_f(joined, &mut acc[t], part);
            }
        }
    }
}

/// The float of an integer within ±2^22: added to the bits of 1.5 · 2^23 it is as many units more. While tiles are in use,
/// Intel's processors have one port for multiplications and conversions, and another that still does additions.
#[inline(always)]
fn small_to_f<L: Dot>(l: L, sum: L::I) -> L::F {
    let shifted = l.of_bits(l.add(sum, l.splat(0x4b40_0000)));
    l.sub_f(shifted, l.splat_f(12_582_912.0))
}
