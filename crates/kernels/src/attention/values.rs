//! Weights · values.

use bytemuck::Zeroable;

use super::stored::{Unit, UnitF16, UnitF32, UnitQ8, last_unit, units};
use super::{KvRows, KvType};
use crate::lanes::{Dot, Lanes, Op};

/// acc[h] += Σ p[h][j] · v[j], in the order of j.
pub(crate) struct Accumulate<'a> {
    pub(crate) p: &'a [f32],
    /// Floats from one head's weights to the next one's.
    pub(crate) stride: usize,
    pub(crate) v: KvRows<'a>,
    pub(crate) acc: &'a mut [f32],
}

impl Op for Accumulate<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Dot>(self, l: L) {
        match self.v.kind {
            KvType::F32 => l.call(Heads(self, UnitF32::zeroed())),
            KvType::F16 => l.call(Heads(self, UnitF16::zeroed())),
            KvType::Q8_0 => l.call(Heads(self, UnitQ8::zeroed())),
        }
    }
}

/// The sums, with the unit that the values are stored in.
struct Heads<'a, U>(Accumulate<'a>, U);

impl<U: Unit> Op for Heads<'_, U> {
    type Out = ();

    #[inline(always)]
    fn run<L: Dot>(mut self, l: L) {
        let heads = self.0.acc.len() / self.0.v.head_dim;
        let mut h = 0;
        while h < heads {
            h += match (heads - h, L::PARTS) {
                _ if L::TILE < 2 => self.columns::<L, 1, 1>(l, h),
                (1, _) => self.columns::<L, 1, 4>(l, h),
                (2 | 3, _) => self.columns::<L, 2, 2>(l, h),
                (4.., 1) => self.columns::<L, 4, 2>(l, h),
                // Half the registers for the sums.
                _ => self.columns::<L, 4, 1>(l, h),
            };
        }
    }
}

impl<U: Unit> Heads<'_, U> {
    /// H heads from `first` on, C units of columns at a time, as many as the registers hold. Returns H.
    #[inline(always)]
    fn columns<L: Lanes, const H: usize, const C: usize>(&mut self, l: L, first: usize) -> usize {
        let whole = self.0.v.head_dim / 32;
        let mut unit = 0;
        while unit + C <= whole {
            self.tile::<L, H, C>(l, first, unit);
            unit += C;
        }
        // What is left, and a last unit that may not be whole.
        while 32 * unit < self.0.v.head_dim {
            self.tile::<L, H, 1>(l, first, unit);
            unit += 1;
        }
        H
    }

    /// H heads from `first` on, C units of columns from `unit` on.
    #[inline(always)]
    fn tile<L: Lanes, const H: usize, const C: usize>(&mut self, l: L, first: usize, unit: usize) {
        let Accumulate { p, stride, v, acc } = &mut self.0;
        let (dim, n) = (v.head_dim, v.n);
        let width = (32 * C).min(dim - 32 * unit);
        let mut weights: [&[f32]; H] = [&[]; H];
        let mut sums = [[[[0.0; 16]; 2]; C]; H];
        for h in 0..H {
            weights[h] = &p[(first + h) * *stride..][..n];
            let columns = &acc[(first + h) * dim + 32 * unit..][..width];
            copy(columns, flat(&mut sums[h]));
        }
        let mut v = *v;
        for part in 0..L::PARTS {
            if (first, unit, part) != (0, 0, 0) {
                // They have been asked for.
                v = v.before(&[]);
            }
            add_rows::<L, U, H, C>(l, part, v, unit, &weights, &mut sums);
        }
        for h in 0..H {
            let columns = &mut acc[(first + h) * dim + 32 * unit..][..width];
            copy(flat(&mut sums[h]), columns);
        }
    }
}

/// Columns as they lie in a head.
#[inline(always)]
fn flat(sums: &mut [[[f32; 16]; 2]]) -> &mut [f32] {
    sums.as_flattened_mut().as_flattened_mut()
}

/// Copies as many floats as both have; a whole unit at a time, which takes no call.
#[inline(always)]
fn copy(from: &[f32], to: &mut [f32]) {
    let (units, rest) = from.as_chunks::<32>();
    let (to_units, to_rest) = to.as_chunks_mut::<32>();
    for (to, from) in to_units.iter_mut().zip(units) {
        *to = *from;
    }
    if to_units.len() > units.len() {
        to_units[units.len()][..rest.len()].copy_from_slice(rest);
    } else if !to_rest.is_empty() {
        to_rest.copy_from_slice(&from[32 * to_units.len()..][..to_rest.len()]);
    }
}

/// Adds all rows, weighted, to one part of the sums.
#[inline(always)]
fn add_rows<L: Lanes, U: Unit, const H: usize, const C: usize>(
    l: L,
    part: usize,
    v: KvRows<'_>,
    unit: usize,
    weights: &[&[f32]; H],
    sums: &mut [[[[f32; 16]; 2]; C]; H],
) {
    let mut acc = [[[l.splat_f(0.0); 2]; C]; H];
    for h in 0..H {
        for c in 0..C {
            for half in 0..2 {
                acc[h][c][half] = l.load_f(&sums[h][c][half], part);
            }
        }
    }
    for j in 0..v.n {
        v.ask(l, j, 1);
        let row = v.row(j);
        let last;
        let units: &[U; C] = match units(row)[unit..].first_chunk() {
            Some(units) => units,
            None => {
                last = [last_unit(row); C];
                &last
            }
        };
        for c in 0..C {
            for half in 0..2 {
                let v = units[c].load(l, half, part);
                for h in 0..H {
                    acc[h][c][half] = l.fma(l.splat_f(weights[h][j]), v, acc[h][c][half]);
                }
            }
        }
    }
    for h in 0..H {
        for c in 0..C {
            for half in 0..2 {
                l.store_f(acc[h][c][half], &mut sums[h][c][half], part);
            }
        }
    }
}
