//! Queries · keys.

use bytemuck::Zeroable;

use super::stored::{Unit, UnitF16, UnitF32, UnitQ8, last_unit, units};
use super::{KvRows, KvType};
use crate::lanes::{Dot, Lanes, MAX_PARTS, Op};

/// out[h][j] = scale · (q[h] · k[j]).
pub(crate) struct Scores<'a> {
    pub(crate) q: &'a [f32],
    pub(crate) k: KvRows<'a>,
    pub(crate) scale: f32,
    pub(crate) out: &'a mut [f32],
    /// Floats from one head's scores to the next one's.
    pub(crate) stride: usize,
}

impl Op for Scores<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Dot>(self, l: L) {
        match self.k.kind {
            KvType::F32 => l.call(Heads(self, UnitF32::zeroed())),
            KvType::F16 => l.call(Heads(self, UnitF16::zeroed())),
            KvType::Q8_0 => l.call(Heads(self, UnitQ8::zeroed())),
        }
    }
}

/// The sums of one query and one key.
type Sums<F> = [F; MAX_PARTS];

/// 32 numbers of a query.
type Query = [[f32; 16]; 2];

/// The scores, with the unit that the keys are stored in.
struct Heads<'a, U>(Scores<'a>, U);

impl<U: Unit> Op for Heads<'_, U> {
    type Out = ();

    #[inline(always)]
    fn run<L: Dot>(mut self, l: L) {
        let heads = self.0.q.len() / self.0.k.head_dim;
        let mut h = 0;
        while h < heads {
            h += match (heads - h, L::PARTS) {
                _ if L::TILE < 2 => self.rows::<L, 1, 1>(l, h),
                (1, _) => self.rows::<L, 1, 4>(l, h),
                (2 | 3, _) => self.rows::<L, 2, 4>(l, h),
                (4.., 1) => self.rows::<L, 4, 4>(l, h),
                // Half the registers for the sums.
                _ => self.rows::<L, 4, 2>(l, h),
            };
        }
    }
}

impl<U: Unit> Heads<'_, U> {
    /// H heads from `first` on, R keys at a time, as many as the registers hold. Returns H.
    #[inline(always)]
    fn rows<L: Lanes, const H: usize, const R: usize>(&mut self, l: L, first: usize) -> usize {
        let n = self.0.k.n;
        let mut j = 0;
        while j + R <= n {
            if first == 0 {
                self.0.k.ask(l, j, R);
            }
            let sums = self.tile::<L, H, R>(l, first, j);
            self.store(l, first, j, &sums);
            j += R;
        }
        while j < n {
            let sums = self.tile::<L, H, 1>(l, first, j);
            self.store(l, first, j, &sums);
            j += 1;
        }
        H
    }

    /// H heads from `first` on with R keys from `j` on: each number is loaded once.
    #[inline(always)]
    fn tile<L: Lanes, const H: usize, const R: usize>(
        &self,
        l: L,
        first: usize,
        j: usize,
    ) -> [[Sums<L::F>; R]; H] {
        let dim = self.0.k.head_dim;
        let (whole, rest) = (dim / 32, dim % 32);
        let mut q: [&[f32]; H] = [&[]; H];
        let mut k: [&[U]; R] = [&[]; R];
        for h in 0..H {
            q[h] = &self.0.q[(first + h) * dim..][..dim];
        }
        for r in 0..R {
            k[r] = &units(self.0.k.row(j + r))[..whole];
        }
        let mut sums = [[[l.splat_f(0.0); MAX_PARTS]; R]; H];
        for part in 0..L::PARTS {
            let mut acc = [[l.splat_f(0.0); R]; H];
            for u in 0..whole {
                let mut queries = [&[[0.0; 16]; 2]; H];
                let mut keys = [&k[0][u]; R];
                for h in 0..H {
                    queries[h] = query(&q[h][32 * u..]);
                }
                for r in 0..R {
                    keys[r] = &k[r][u];
                }
                add(l, part, &queries, &keys, &mut acc);
            }
            if rest > 0 {
                let mut queries = [[[0.0; 16]; 2]; H];
                let mut keys = [U::zeroed(); R];
                for h in 0..H {
                    queries[h].as_flattened_mut()[..rest].copy_from_slice(&q[h][32 * whole..]);
                }
                for r in 0..R {
                    keys[r] = last_unit(self.0.k.row(j + r));
                }
                add(l, part, &queries.each_ref(), &keys.each_ref(), &mut acc);
            }
            for h in 0..H {
                for r in 0..R {
                    sums[h][r][part] = acc[h][r];
                }
            }
        }
        sums
    }

    /// Ends the sums of H heads from `first` on with R keys from `j` on.
    #[inline(always)]
    fn store<L: Lanes, const H: usize, const R: usize>(
        &mut self,
        l: L,
        first: usize,
        j: usize,
        sums: &[[Sums<L::F>; R]; H],
    ) {
        let Scores {
            scale, out, stride, ..
        } = &mut self.0;
        let mut scores = [[0.0; R]; H];
        let (sixteens, rest) = sums.as_flattened().as_chunks::<16>();
        let (to_sixteens, to_rest) = scores.as_flattened_mut().as_chunks_mut::<16>();
        for (to, sixteen) in to_sixteens.iter_mut().zip(sixteens) {
            *to = l.sum16(sixteen);
        }
        let (fours, rest) = rest.as_chunks::<4>();
        let (to_fours, to_rest) = to_rest.as_chunks_mut::<4>();
        for (to, four) in to_fours.iter_mut().zip(fours) {
            *to = l.sum4(four);
        }
        for (to, one) in to_rest.iter_mut().zip(rest) {
            *to = l.sum(one);
        }
        for (h, scores) in scores.iter().enumerate() {
            let out = &mut out[(first + h) * *stride + j..][..R];
            for r in 0..R {
                out[r] = *scale * scores[r];
            }
        }
    }
}

/// The first 32 numbers.
#[inline(always)]
fn query(q: &[f32]) -> &Query {
    bytemuck::cast_ref::<[f32; 32], Query>(q.first_chunk().unwrap_or(&[0.0; 32]))
}

/// Adds the products of 32 numbers.
#[inline(always)]
fn add<L: Lanes, U: Unit, const H: usize, const R: usize>(
    l: L,
    part: usize,
    queries: &[&Query; H],
    keys: &[&U; R],
    acc: &mut [[L::F; R]; H],
) {
    for half in 0..2 {
        let mut k = [l.splat_f(0.0); R];
        for r in 0..R {
            k[r] = keys[r].load(l, half, part);
        }
        for h in 0..H {
            let q = l.load_f(&queries[h][half], part);
            for r in 0..R {
                acc[h][r] = l.fma(q, k[r], acc[h][r]);
            }
        }
    }
}
