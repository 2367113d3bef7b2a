//! Products of bytes, by way of pairs of 16 bits.

use super::Simd128;
use crate::lanes::{Dot, Lanes, Op};
use core::arch::wasm32::*;

/// Running sums: two for each lane, one for each pair of its bytes.
#[derive(Copy, Clone)]
pub(crate) struct Pairs {
    /// Of lanes 0 and 1.
    below: v128,
    /// Of lanes 2 and 3.
    above: v128,
}

/// The 16-bit numbers of lanes 0 and 1, and of lanes 2 and 3.
#[derive(Copy, Clone)]
pub(crate) struct Words {
    below: v128,
    above: v128,
}

#[inline(always)]
fn widen(w: v128) -> Words {
    Words {
        below: i16x8_extend_low_i8x16(w),
        above: i16x8_extend_high_i8x16(w),
    }
}

/// Four activations, twice: the same for all lanes.
#[inline(always)]
fn activations(x: i32) -> v128 {
    i16x8_extend_low_i8x16(i32x4_splat(x))
}

/// The two sums of each lane as one.
#[inline(always)]
fn joined(sums: Pairs) -> v128 {
    i32x4_add(
        i32x4_shuffle::<0, 2, 4, 6>(sums.below, sums.above),
        i32x4_shuffle::<1, 3, 5, 7>(sums.below, sums.above),
    )
}

impl Dot for Simd128 {
    const NARROW: bool = false;
    type Sum = Pairs;
    type Signed = Words;

    #[inline(always)]
    fn zero(self) -> Pairs {
        self.start(0, 0)
    }
    #[inline(always)]
    fn start(self, minus_sum_x: i32, shift: u32) -> Pairs {
        let start = minus_sum_x << shift;
        let once = i32x4(start, 0, start, 0);
        Pairs {
            below: once,
            above: once,
        }
    }
    #[inline(always)]
    fn dot(self, sum: Pairs, w: v128, x: i32) -> Pairs {
        // Weights of 0 to 127 read the same as signed bytes.
        let (w, x) = (widen(w), activations(x));
        Pairs {
            below: i32x4_add(sum.below, i32x4_dot_i16x8(w.below, x)),
            above: i32x4_add(sum.above, i32x4_dot_i16x8(w.above, x)),
        }
    }
    #[inline(always)]
    fn carry(self, sum: Pairs) -> Pairs {
        sum
    }
    #[inline(always)]
    fn finish(self, sum: Pairs) -> v128 {
        joined(sum)
    }
    #[inline(always)]
    fn fold(self, tot: v128, sum: Pairs, scale: v128) -> v128 {
        i32x4_add(tot, i32x4_mul(joined(sum), scale))
    }
    #[inline(always)]
    fn fold_small(self, tot: v128, sum: Pairs, scale: v128) -> v128 {
        self.fold(tot, sum, scale)
    }
    #[inline(always)]
    fn dot_pairs(self, acc: v128, a: v128, b: i32) -> v128 {
        i32x4_add(acc, i32x4_dot_i16x8(a, i32x4_splat(b)))
    }
    #[inline(always)]
    fn signed(self, w: v128) -> Words {
        widen(w)
    }
    #[inline(always)]
    fn signed_lut(self, table: &[i8; 16], codes: v128) -> Words {
        widen(self.lut(table, codes))
    }
    #[inline(always)]
    fn start_signed(self, _: i32) -> v128 {
        i32x4_splat(0)
    }
    #[inline(always)]
    fn dot_signed(self, acc: v128, w: Words, x: i32) -> v128 {
        let x = activations(x);
        let sums = Pairs {
            below: i32x4_dot_i16x8(w.below, x),
            above: i32x4_dot_i16x8(w.above, x),
        };
        i32x4_add(acc, joined(sums))
    }
    #[inline(always)]
    fn call<O: Op>(self, op: O) -> O::Out {
        #[inline(never)]
        fn enter<O: Op>(l: Simd128, op: O) -> O::Out {
            op.run(l)
        }
        enter(self, op)
    }
}
