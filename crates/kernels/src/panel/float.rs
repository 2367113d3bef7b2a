//! F32, F16 and BF16 weights with f32 activations: four sums a row, by column modulo 4, each in column order; then
//! (s0 + s1) + (s2 + s3).

use core::marker::PhantomData;

use bytemuck::{Pod, Zeroable};
use strata_quant::GgmlType;

use super::PANEL_ROWS;
use super::matmul::{Matmul, store};
use crate::lanes::{Dot, Lanes, MAX_PARTS, Op};
use crate::tile::TileMut;

/// One column of 16 rows.
pub(super) trait Column: Pod {
    /// The weights of one part.
    fn load<L: Lanes>(&self, l: L, part: usize) -> L::F;
}

/// A column of f32.
#[derive(Copy, Clone, Pod, Zeroable)]
#[repr(transparent)]
pub(super) struct F32(pub(super) [u8; 64]);

/// A column of half floats.
#[derive(Copy, Clone, Pod, Zeroable)]
#[repr(transparent)]
pub(super) struct F16([u8; 32]);

/// A column of bfloat16.
#[derive(Copy, Clone, Pod, Zeroable)]
#[repr(transparent)]
pub(super) struct BF16([u8; 32]);

impl Column for F32 {
    #[inline(always)]
    fn load<L: Lanes>(&self, l: L, part: usize) -> L::F {
        l.of_bits(l.load(&self.0, part))
    }
}

impl Column for F16 {
    #[inline(always)]
    fn load<L: Lanes>(&self, l: L, part: usize) -> L::F {
        l.load_f16(&self.0, part)
    }
}

impl Column for BF16 {
    #[inline(always)]
    fn load<L: Lanes>(&self, l: L, part: usize) -> L::F {
        l.load_bf16(&self.0, part)
    }
}

/// An activation, as it lies in a row.
pub(super) type X = [u8; 4];

/// Adds the products of some columns, which start at a multiple of 4, to the four sums of T tokens.
#[inline(always)]
pub(super) fn add_columns<L: Dot, C: Column, const T: usize>(
    l: L,
    ahead: usize,
    part: usize,
    w: &[C],
    x: &[&[X]; T],
    sums: &mut [[L::F; 4]; T],
) {
    let (stretches, rest) = w.as_chunks::<STRETCH>();
    for (i, w) in stretches.iter().enumerate() {
        add_stretch(l, ahead, part, w, &pick(x, i), sums);
    }
    let mut x = *x;
    for t in 0..T {
        x[t] = &x[t][w.len() - rest.len()..w.len()];
    }
    let (quads, rest) = rest.as_chunks::<4>();
    for (i, w) in quads.iter().enumerate() {
        add_stretch(l, ahead, part, w, &pick(&x, i), sums);
    }
    for (c, w) in rest.iter().enumerate() {
        let w = w.load(l, part);
        for t in 0..T {
            let x = l.splat_f(f32::from_ne_bytes(x[t][4 * quads.len() + c]));
            sums[t][c] = l.fma(w, x, sums[t][c]);
        }
    }
}

/// Panels that are computed together where there are tokens enough: each activation is loaded once for all of them.
const TOGETHER: usize = 3;

/// Tokens that meet so many panels.
const TOKENS: usize = 8;

/// Tokens that the registers hold the sums of, with those of [`TOGETHER`] panels.
const fn tokens_together<L: Lanes>() -> usize {
    match (L::PARTS, L::TILE) {
        // Small code matters more.
        _ if cfg!(feature = "compact") => 0,
        // Lanes are memory.
        (_, ..2) | (1, ..8) => 0,
        (2, _) => 4,
        _ => 8,
    }
}

/// How many panels a worker takes at once to meet so many tokens.
pub(crate) const fn together(ty: GgmlType, tokens: usize) -> usize {
    match ty {
        GgmlType::F32 | GgmlType::F16 | GgmlType::BF16 if tokens >= TOKENS => TOGETHER,
        _ => 1,
    }
}

/// Adds the products of some columns of P panels, which start at a multiple of 4, to the four sums of T tokens each.
#[inline(always)]
fn add_together<L: Dot, C: Column, const T: usize, const P: usize>(
    l: L,
    part: usize,
    w: &[&[C]; P],
    x: &[&[X]; T],
    sums: &mut [[[L::F; 4]; T]; P],
) {
    let mut from = add_stretches::<L, C, T, P, STRETCH>(l, part, (w, x), 0, sums);
    from = add_stretches::<L, C, T, P, SHORT>(l, part, (w, x), from, sums);
    if from == w[0].len() {
        return;
    }
    let mut rest = *x;
    for t in 0..T {
        rest[t] = &x[t][from..];
    }
    for p in 0..P {
        // None of it lies ahead: it has been asked for.
        add_columns(l, 0, part, &w[p][from..], &rest, &mut sums[p]);
    }
}

/// The same for as many stretches of N columns as there are; gives where they end.
#[inline(always)]
fn add_stretches<L: Dot, C: Column, const T: usize, const P: usize, const N: usize>(
    l: L,
    part: usize,
    (w, x): (&[&[C]; P], &[&[X]; T]),
    from: usize,
    sums: &mut [[[L::F; 4]; T]; P],
) -> usize {
    let mut from = from;
    while let Some(first) = w[0][from..].first_chunk::<N>() {
        let mut panels = [first; P];
        for p in 1..P {
            panels[p] = &w[p][from..].as_chunks().0[0];
        }
        let mut tokens = [&x[0][from..].as_chunks().0[0]; T];
        for t in 1..T {
            tokens[t] = &x[t][from..].as_chunks().0[0];
        }
        add_stretch_together::<L, C, T, P, N>(l, part, &panels, &tokens, sums);
        from += N;
    }
    from
}

/// One of the four sums after the other: those of so many tokens and panels fill the registers.
#[inline(always)]
fn add_stretch_together<L: Dot, C: Column, const T: usize, const P: usize, const N: usize>(
    l: L,
    part: usize,
    w: &[&[C; N]; P],
    x: &[&[X; N]; T],
    sums: &mut [[[L::F; 4]; T]; P],
) {
    for c in 0..4 {
        let mut acc = [[l.splat_f(0.0); T]; P];
        for p in 0..P {
            for t in 0..T {
                acc[p][t] = sums[p][t][c];
            }
        }
        for q in 0..N / 4 {
            let mut weights = [l.splat_f(0.0); P];
            for p in 0..P {
                weights[p] = w[p][4 * q + c].load(l, part);
            }
            for t in 0..T {
                let x = l.splat_f(f32::from_ne_bytes(x[t][4 * q + c]));
                for p in 0..P {
                    acc[p][t] = l.fma(weights[p], x, acc[p][t]);
                }
            }
        }
        for p in 0..P {
            for t in 0..T {
                sums[p][t][c] = acc[p][t];
            }
        }
    }
}

/// The i-th N activations of each token. A loop instead of `map`: what is not inlined would go through memory.
#[inline(always)]
fn pick<'a, const T: usize, const N: usize>(x: &[&'a [X]; T], i: usize) -> [&'a [X; N]; T] {
    let mut picked = [&x[0].as_chunks().0[i]; T];
    for t in 1..T {
        picked[t] = &x[t].as_chunks().0[i];
    }
    picked
}

/// The same for a fixed number of columns, a multiple of 4: no length is left to check.
#[inline(always)]
fn add_stretch<L: Dot, C: Column, const T: usize, const N: usize>(
    l: L,
    ahead: usize,
    part: usize,
    w: &[C; N],
    x: &[&[X; N]; T],
    sums: &mut [[L::F; 4]; T],
) {
    if T == 1 {
        for q in 0..N / 4 {
            for line in (0..4).step_by(64 / size_of::<C>()) {
                if part == 0 {
                    l.prefetch(&w[4 * q + line], ahead);
                }
            }
            for c in 0..4 {
                let w = &w[4 * q + c];
                let x = l.splat_f(f32::from_ne_bytes(x[0][4 * q + c]));
                sums[0][c] = l.fma(w.load(l, part), x, sums[0][c]);
            }
        }
        return;
    }
    // One of the four sums after the other: so many tokens fill the registers by themselves.
    for c in 0..4 {
        let mut acc = [l.splat_f(0.0); T];
        for t in 0..T {
            acc[t] = sums[t][c];
        }
        for q in 0..N / 4 {
            for line in (0..4).step_by(64 / size_of::<C>()) {
                if part == 0 && c == 0 {
                    l.prefetch(&w[4 * q + line], ahead);
                }
            }
            let w = w[4 * q + c].load(l, part);
            for t in 0..T {
                let x = l.splat_f(f32::from_ne_bytes(x[t][4 * q + c]));
                acc[t] = l.fma(w, x, acc[t]);
            }
        }
        for t in 0..T {
            sums[t][c] = acc[t];
        }
    }
}

/// Columns that are taken at once, part by part and sum by sum: with their activations they fit the first-level cache.
pub(super) const STRETCH: usize = 256;

/// The same for what is left.
const SHORT: usize = 32;

/// The end of the four sums.
#[inline(always)]
pub(super) fn combine<L: Lanes>(l: L, sums: &[L::F; 4]) -> L::F {
    l.add_f(l.add_f(sums[0], sums[1]), l.add_f(sums[2], sums[3]))
}

/// Weights in float columns.
pub(super) struct FloatMatmul<'a, C> {
    m: Matmul<'a>,
    column: PhantomData<C>,
}

impl<'a, C> FloatMatmul<'a, C> {
    pub(super) const fn new(m: Matmul<'a>) -> Self {
        Self {
            m,
            column: PhantomData,
        }
    }
}

impl<C: Column> Op for FloatMatmul<'_, C> {
    type Out = ();

    #[inline(always)]
    fn run<L: Dot>(self, l: L) {
        let ahead = self.m.ahead();
        let Matmul { w, x, mut out, .. } = self.m;
        let columns: &[C] = bytemuck::cast_slice(w.bytes());
        let cols = w.cols();
        // Many tokens meet several panels at once, token by token: the panels stay in a cache.
        let step = tokens_together::<L>();
        let panels = columns.len() / cols / TOGETHER * TOGETHER;
        let tokens = if step == 0 || panels == 0 {
            0
        } else {
            x.tokens() / TOKENS * TOKENS
        };
        for t in (0..tokens).step_by(step.max(1)) {
            for panel in (0..panels).step_by(TOGETHER) {
                let w = &columns[panel * cols..][..TOGETHER * cols];
                let row = panel * PANEL_ROWS;
                let out = &mut out;
                if step == 4 {
                    let x = core::array::from_fn(|i| x.blocks(t + i));
                    l.call(Block::<C, 4> { w, x, out, row, t });
                } else {
                    let x = core::array::from_fn(|i| x.blocks(t + i));
                    l.call(Block::<C, 8> { w, x, out, row, t });
                }
            }
        }
        for (p, w) in columns.chunks_exact(cols).enumerate() {
            let row = p * PANEL_ROWS;
            let mut t = if p < panels { tokens } else { 0 };
            while t < x.tokens() {
                let left = x.tokens() - t;
                let out = &mut out;
                t += if left >= 8 {
                    l.call(Tile::<C, 8> {
                        w,
                        x: core::array::from_fn(|i| x.blocks(t + i)),
                        out,
                        row,
                        t,
                        ahead,
                    })
                } else if left >= 4 {
                    l.call(Tile::<C, 4> {
                        w,
                        x: core::array::from_fn(|i| x.blocks(t + i)),
                        out,
                        row,
                        t,
                        ahead,
                    })
                } else if left >= 2 {
                    l.call(Tile::<C, 2> {
                        w,
                        x: core::array::from_fn(|i| x.blocks(t + i)),
                        out,
                        row,
                        t,
                        ahead,
                    })
                } else {
                    l.call(Tile::<C, 1> {
                        w,
                        x: [x.blocks(t)],
                        out,
                        row,
                        t,
                        ahead,
                    })
                };
            }
        }
    }
}

/// [`TOGETHER`] panels from `row` on, and T tokens from `t` on.
struct Block<'a, 'o, C, const T: usize> {
    w: &'a [C],
    x: [&'a [X]; T],
    out: &'a mut TileMut<'o>,
    row: usize,
    t: usize,
}

impl<C: Column, const T: usize> Op for Block<'_, '_, C, T> {
    type Out = ();

    #[inline(always)]
    fn run<L: Dot>(self, l: L) {
        let cols = self.w.len() / TOGETHER;
        let mut w: [&[C]; TOGETHER] = [&[]; TOGETHER];
        for p in 0..TOGETHER {
            w[p] = &self.w[p * cols..][..cols];
        }
        let mut sums = [[[[l.splat_f(0.0); 4]; T]; TOGETHER]; MAX_PARTS];
        for part in 0..L::PARTS {
            add_together(l, part, &w, &self.x, &mut sums[part]);
        }
        for p in 0..TOGETHER {
            for t in 0..T {
                let mut acc = [l.splat_f(0.0); MAX_PARTS];
                for part in 0..L::PARTS {
                    acc[part] = combine(l, &sums[part][p][t]);
                }
                let row = self.row + p * PANEL_ROWS;
                store(l, acc, row, self.out.token_mut(self.t + t));
            }
        }
    }
}

/// A panel from `row` on, and T tokens from `t` on.
struct Tile<'a, 'o, C, const T: usize> {
    w: &'a [C],
    x: [&'a [X]; T],
    out: &'a mut TileMut<'o>,
    row: usize,
    t: usize,
    ahead: usize,
}

impl<C: Column, const T: usize> Op for Tile<'_, '_, C, T> {
    /// T.
    type Out = usize;

    #[inline(always)]
    fn run<L: Dot>(self, l: L) -> usize {
        let mut sums = [[[l.splat_f(0.0); 4]; T]; MAX_PARTS];
        for (s, w) in self.w.chunks(STRETCH).enumerate() {
            let x = self.x.map(|x| &x[s * STRETCH..]);
            for part in 0..L::PARTS {
                add_columns(l, self.ahead, part, w, &x, &mut sums[part]);
            }
        }
        for t in 0..T {
            let mut acc = [l.splat_f(0.0); MAX_PARTS];
            for part in 0..L::PARTS {
                acc[part] = combine(l, &sums[part][t]);
            }
            store(l, acc, self.row, self.out.token_mut(self.t + t));
        }
        T
    }
}
