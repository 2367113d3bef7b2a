//! Products of bytes, widened or by `sdot`.

use super::super::{Sdot, Widen};
use super::{Multiply, Neon};
use crate::lanes::{Dot, Lanes, Op};
use core::arch::aarch64::*;
use core::arch::asm;

/// Sums of 16 bits, one for each of a lane's four bytes, and what was carried out of them.
#[derive(Copy, Clone)]
pub(crate) struct Narrow {
    /// Of lanes 0 and 1.
    below: int16x8_t,
    /// Of lanes 2 and 3.
    above: int16x8_t,
    carried: int32x4_t,
}

impl Neon<Widen> {
    /// What was carried, and nothing more.
    #[inline(always)]
    fn narrow(self, carried: int32x4_t) -> Narrow {
        op!(Narrow {
            below: vdupq_n_s16(0),
            above: vdupq_n_s16(0),
            carried,
        })
    }
}

impl<D: Multiply> Neon<D> {
    /// [`Dot::dot_pairs`], the same for both ways to multiply bytes.
    #[inline(always)]
    fn add_pairs(self, acc: int32x4_t, a: int32x4_t, b: i32) -> int32x4_t {
        op!({
            let (a, b) = (
                vreinterpretq_s16_s32(a),
                vreinterpretq_s16_s32(vdupq_n_s32(b)),
            );
            let below = vmull_s16(vget_low_s16(a), vget_low_s16(b));
            vaddq_s32(acc, vpaddq_s32(below, vmull_high_s16(a, b)))
        })
    }
}

impl Dot for Neon<Widen> {
    const NARROW: bool = true;
    type Sum = Narrow;
    type Signed = int8x16_t;

    #[inline(always)]
    fn zero(self) -> Narrow {
        self.narrow(self.splat(0))
    }
    #[inline(always)]
    fn start(self, minus_sum_x: i32, shift: u32) -> Narrow {
        self.narrow(self.splat(minus_sum_x << shift))
    }
    #[inline(always)]
    fn dot(self, sum: Narrow, w: int32x4_t, x: i32) -> Narrow {
        op!({
            let (w, x) = (
                vreinterpretq_s8_s32(w),
                vreinterpretq_s8_s32(vdupq_n_s32(x)),
            );
            Narrow {
                below: vmlal_s8(sum.below, vget_low_s8(w), vget_low_s8(x)),
                above: vmlal_high_s8(sum.above, w, x),
                ..sum
            }
        })
    }
    #[inline(always)]
    fn carry(self, sum: Narrow) -> Narrow {
        self.narrow(self.finish(sum))
    }
    #[inline(always)]
    fn finish(self, sum: Narrow) -> int32x4_t {
        // Two of a lane's four sums are what the limit of a narrow sum is for: 16 bits hold them.
        op!(vpadalq_s16(sum.carried, vpaddq_s16(sum.below, sum.above)))
    }
    #[inline(always)]
    fn fold(self, tot: int32x4_t, sum: Narrow, scale: int32x4_t) -> int32x4_t {
        op!(vmlaq_s32(tot, self.finish(sum), scale))
    }
    #[inline(always)]
    fn fold_small(self, tot: int32x4_t, sum: Narrow, scale: int32x4_t) -> int32x4_t {
        self.fold(tot, sum, scale)
    }
    #[inline(always)]
    fn dot_pairs(self, acc: int32x4_t, a: int32x4_t, b: i32) -> int32x4_t {
        self.add_pairs(acc, a, b)
    }
    #[inline(always)]
    fn signed(self, w: int32x4_t) -> int8x16_t {
        op!(vreinterpretq_s8_s32(w))
    }
    #[inline(always)]
    fn signed_lut(self, table: &[i8; 16], codes: int32x4_t) -> int8x16_t {
        self.signed(self.lut(table, codes))
    }
    #[inline(always)]
    fn start_signed(self, _: i32) -> int32x4_t {
        self.splat(0)
    }
    #[inline(always)]
    fn dot_signed(self, acc: int32x4_t, w: int8x16_t, x: i32) -> int32x4_t {
        op!({
            let x = vreinterpretq_s8_s32(vdupq_n_s32(x));
            // At most 128 · 127 · 2 in a pair, which 16 bits hold.
            let below = vmull_s8(vget_low_s8(w), vget_low_s8(x));
            vpadalq_s16(acc, vpaddq_s16(below, vmull_high_s8(w, x)))
        })
    }
    #[inline(always)]
    fn call<O: Op>(self, op: O) -> O::Out {
        #[inline(never)]
        fn enter<O: Op>(l: Neon<Widen>, op: O) -> O::Out {
            op.run(l)
        }
        enter(self, op)
    }
}

impl Dot for Neon<Sdot> {
    const NARROW: bool = false;
    type Sum = int32x4_t;
    type Signed = int32x4_t;

    #[inline(always)]
    fn zero(self) -> int32x4_t {
        self.splat(0)
    }
    #[inline(always)]
    fn start(self, minus_sum_x: i32, shift: u32) -> int32x4_t {
        self.splat(minus_sum_x << shift)
    }
    #[inline(always)]
    fn dot(self, mut sum: int32x4_t, w: int32x4_t, x: i32) -> int32x4_t {
        // As a float, so that it is loaded into a vector register at once.
        let x = f32::from_bits(x as u32);
        // SAFETY: a token is at hand, so the instruction exists; it only computes. (Its intrinsic is not stable.)
        unsafe {
            asm!(
                "sdot {sum:v}.4s, {w:v}.16b, {x:v}.4b[0]",
                sum = inlateout(vreg) sum,
                w = in(vreg) w,
                x = in(vreg) x,
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        sum
    }
    #[inline(always)]
    fn carry(self, sum: int32x4_t) -> int32x4_t {
        sum
    }
    #[inline(always)]
    fn finish(self, sum: int32x4_t) -> int32x4_t {
        sum
    }
    #[inline(always)]
    fn fold(self, tot: int32x4_t, sum: int32x4_t, scale: int32x4_t) -> int32x4_t {
        op!(vmlaq_s32(tot, sum, scale))
    }
    #[inline(always)]
    fn fold_small(self, tot: int32x4_t, sum: int32x4_t, scale: int32x4_t) -> int32x4_t {
        self.fold(tot, sum, scale)
    }
    #[inline(always)]
    fn dot_pairs(self, acc: int32x4_t, a: int32x4_t, b: i32) -> int32x4_t {
        self.add_pairs(acc, a, b)
    }
    #[inline(always)]
    fn signed(self, w: int32x4_t) -> int32x4_t {
        w
    }
    #[inline(always)]
    fn signed_lut(self, table: &[i8; 16], codes: int32x4_t) -> int32x4_t {
        self.lut(table, codes)
    }
    #[inline(always)]
    fn start_signed(self, _: i32) -> int32x4_t {
        self.splat(0)
    }
    #[inline(always)]
    fn dot_signed(self, acc: int32x4_t, w: int32x4_t, x: i32) -> int32x4_t {
        self.dot(acc, w, x)
    }
    #[inline(always)]
    fn call<O: Op>(self, op: O) -> O::Out {
        #[inline(never)]
        #[target_feature(enable = "dotprod")]
        fn enter<O: Op>(l: Neon<Sdot>, op: O) -> O::Out {
            op.run(l)
        }
        // SAFETY: a token is at hand, so the instructions exist.
        unsafe { enter(self, op) }
    }
}
