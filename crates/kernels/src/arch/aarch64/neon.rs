//! 128-bit registers: a line in four.
#![allow(unsafe_code)]

use core::arch::aarch64::*;
use core::arch::asm;
use core::marker::PhantomData;

use super::{Sdot, Widen};
use crate::lanes::{Lanes, MAX_PARTS};

/// The token of a 128-bit backend; `D` is how it multiplies bytes.
#[derive(Copy, Clone)]
pub(crate) struct Neon<D>(PhantomData<D>);

impl<D> Neon<D> {
    /// # Safety
    /// The processor has the instructions that [`Dot::call`] switches on for this `D`.
    pub(crate) unsafe fn new() -> Self {
        Self(PhantomData)
    }
}

/// How bytes are multiplied.
pub(crate) trait Multiply: Copy {
    /// See [`Lanes::TILE`]: as many as leave registers for the weights.
    const TILE: usize;
}

impl Multiply for Widen {
    const TILE: usize = 4;
}

impl Multiply for Sdot {
    const TILE: usize = 8;
}

/// Calls intrinsics.
macro_rules! op {
    ($op:expr) => {
        // SAFETY: a token is at hand, so the instructions exist; where they read or write memory, it is inside an array
        // as long as the register.
        unsafe { $op }
    };
}

mod dot;

/// Registers in a line.
const PARTS: usize = 4;

/// One part of an array for 16 lanes. The check is for the compiler to remove: every part is a constant.
#[inline(always)]
fn place<T, const N: usize, const M: usize>(array: &[T; N], part: usize) -> &[T; M] {
    const { assert!(N == PARTS * M) };
    &array.as_chunks().0[part]
}

/// The same, to write.
#[inline(always)]
fn place_mut<T, const N: usize, const M: usize>(array: &mut [T; N], part: usize) -> &mut [T; M] {
    const { assert!(N == PARTS * M) };
    &mut array.as_chunks_mut().0[part]
}

/// 16 bytes, as they lie.
#[inline]
#[target_feature(enable = "neon")]
fn load_bytes(bytes: &[u8; 16]) -> uint8x16_t {
    // SAFETY: the array is as long as the register.
    unsafe { vld1q_u8(bytes.as_ptr()) }
}

/// 4 half words, as they lie.
#[inline]
#[target_feature(enable = "neon")]
fn load_words(words: &[u8; 8]) -> uint16x4_t {
    vcreate_u16(u64::from_le_bytes(*words))
}

/// 4 bytes below, zeros above.
#[inline]
#[target_feature(enable = "neon")]
fn load_quad(bytes: &[u8; 4]) -> uint8x8_t {
    vcreate_u8(u64::from(u32::from_le_bytes(*bytes)))
}

impl<D: Multiply> Lanes for Neon<D> {
    const PARTS: usize = PARTS;
    const TILE: usize = D::TILE;
    type I = int32x4_t;
    type F = float32x4_t;

    #[inline(always)]
    fn load(self, line: &[u8; 64], part: usize) -> int32x4_t {
        op!(vreinterpretq_s32_u8(load_bytes(place(line, part))))
    }
    #[inline(always)]
    fn load_u8(self, bytes: &[u8; 16], part: usize) -> int32x4_t {
        op!({
            let words = vmovl_u8(load_quad(place(bytes, part)));
            vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(words)))
        })
    }
    #[inline(always)]
    fn load_u16(self, words: &[u8; 32], part: usize) -> int32x4_t {
        op!(vreinterpretq_s32_u32(vmovl_u16(load_words(place(
            words, part
        )))))
    }
    #[inline(always)]
    fn load_i8(self, bytes: &[u8; 16], part: usize) -> int32x4_t {
        op!({
            let words = vmovl_s8(vreinterpret_s8_u8(load_quad(place(bytes, part))));
            vmovl_s16(vget_low_s16(words))
        })
    }
    #[inline(always)]
    fn store_i8(self, a: int32x4_t, out: &mut [i8; 16], part: usize) {
        op!({
            let words = vmovn_s32(a);
            let bytes = vreinterpret_s32_s8(vmovn_s16(vcombine_s16(words, words)));
            *place_mut(out, part) = vget_lane_s32::<0>(bytes)
                .to_le_bytes()
                .map(|byte| byte as i8);
        });
    }
    #[inline(always)]
    fn prefetch<T>(self, line: &T, ahead: usize) {
        let address = core::ptr::from_ref(line).cast::<u8>().wrapping_add(ahead);
        // SAFETY: a hint; it touches nothing that a program can see, and never faults.
        unsafe {
            asm!(
                "prfm pldl1keep, [{}]",
                in(reg) address.addr(),
                options(nomem, nostack, preserves_flags)
            );
        }
    }

    #[inline(always)]
    fn splat(self, a: i32) -> int32x4_t {
        op!(vdupq_n_s32(a))
    }
    #[inline(always)]
    fn and(self, a: int32x4_t, b: int32x4_t) -> int32x4_t {
        op!(vandq_s32(a, b))
    }
    #[inline(always)]
    fn or(self, a: int32x4_t, b: int32x4_t) -> int32x4_t {
        op!(vorrq_s32(a, b))
    }
    #[inline(always)]
    fn shl(self, a: int32x4_t, n: u32) -> int32x4_t {
        op!(vshlq_s32(a, vdupq_n_s32(n as i32)))
    }
    #[inline(always)]
    fn shr(self, a: int32x4_t, n: u32) -> int32x4_t {
        // A shift left by less than nothing.
        op!({
            let back = vdupq_n_s32(-(n as i32));
            vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(a), back))
        })
    }
    #[inline(always)]
    fn sar(self, a: int32x4_t, n: u32) -> int32x4_t {
        op!(vshlq_s32(a, vdupq_n_s32(-(n as i32))))
    }
    #[inline(always)]
    fn add(self, a: int32x4_t, b: int32x4_t) -> int32x4_t {
        op!(vaddq_s32(a, b))
    }
    #[inline(always)]
    fn sub(self, a: int32x4_t, b: int32x4_t) -> int32x4_t {
        op!(vsubq_s32(a, b))
    }
    #[inline(always)]
    fn mul(self, a: int32x4_t, b: int32x4_t) -> int32x4_t {
        op!(vmulq_s32(a, b))
    }
    #[inline(always)]
    fn max_i(self, a: int32x4_t, b: int32x4_t) -> int32x4_t {
        op!(vmaxq_s32(a, b))
    }
    #[inline(always)]
    fn sub8(self, a: int32x4_t, b: int32x4_t) -> int32x4_t {
        op!(vreinterpretq_s32_s8(vsubq_s8(
            vreinterpretq_s8_s32(a),
            vreinterpretq_s8_s32(b)
        )))
    }
    #[inline(always)]
    fn even_i8(self, a: int32x4_t) -> int32x4_t {
        op!({
            let upper = vshlq_n_s16::<8>(vreinterpretq_s16_s32(a));
            vreinterpretq_s32_s16(vshrq_n_s16::<8>(upper))
        })
    }
    #[inline(always)]
    fn mul_pairs(self, a: int32x4_t, by: i16) -> int32x4_t {
        op!(vreinterpretq_s32_s16(vmulq_n_s16(
            vreinterpretq_s16_s32(a),
            by
        )))
    }
    #[inline(always)]
    fn lut(self, table: &[i8; 16], codes: int32x4_t) -> int32x4_t {
        op!({
            let table = vld1q_s8(table.as_ptr());
            vreinterpretq_s32_s8(vqtbl1q_s8(table, vreinterpretq_u8_s32(codes)))
        })
    }

    #[inline(always)]
    fn load_f(self, values: &[f32; 16], part: usize) -> float32x4_t {
        op!({
            let values: &[f32; 4] = place(values, part);
            vld1q_f32(values.as_ptr())
        })
    }
    #[inline(always)]
    fn store_f(self, a: float32x4_t, out: &mut [f32; 16], part: usize) {
        op!({
            let out: &mut [f32; 4] = place_mut(out, part);
            vst1q_f32(out.as_mut_ptr(), a);
        });
    }
    #[inline(always)]
    fn load_f16(self, halves: &[u8; 32], part: usize) -> float32x4_t {
        op!(vcvt_f32_f16(vreinterpret_f16_u16(load_words(place(
            halves, part
        )))))
    }
    #[inline(always)]
    fn store_f16(self, a: float32x4_t, out: &mut [u8; 32], part: usize) {
        op!({
            let halves = vget_lane_u64::<0>(vreinterpret_u64_f16(vcvt_f16_f32(a)));
            *place_mut(out, part) = halves.to_le_bytes();
        });
    }
    #[inline(always)]
    fn splat_f(self, a: f32) -> float32x4_t {
        op!(vdupq_n_f32(a))
    }
    #[inline(always)]
    fn splat_f16(self, half: [u8; 2]) -> float32x4_t {
        op!(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(
            u16::from_le_bytes(half)
        ))))
    }
    #[inline(always)]
    fn to_f(self, a: int32x4_t) -> float32x4_t {
        op!(vcvtq_f32_s32(a))
    }
    #[inline(always)]
    fn round(self, a: float32x4_t) -> int32x4_t {
        op!(vcvtnq_s32_f32(a))
    }
    #[inline(always)]
    fn bits(self, a: float32x4_t) -> int32x4_t {
        op!(vreinterpretq_s32_f32(a))
    }
    #[inline(always)]
    fn of_bits(self, a: int32x4_t) -> float32x4_t {
        op!(vreinterpretq_f32_s32(a))
    }
    #[inline(always)]
    fn add_f(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        op!(vaddq_f32(a, b))
    }
    #[inline(always)]
    fn sub_f(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        op!(vsubq_f32(a, b))
    }
    #[inline(always)]
    fn mul_f(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        op!(vmulq_f32(a, b))
    }
    #[inline(always)]
    fn div_f(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        op!(vdivq_f32(a, b))
    }
    #[inline(always)]
    fn fma(self, a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        op!(vfmaq_f32(c, a, b))
    }
    #[inline(always)]
    fn fnma(self, a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        op!(vfmsq_f32(c, a, b))
    }
    #[inline(always)]
    fn max_f(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        // Not `fmax`, which gives NaN for NaN and knows that 0 is more than −0.
        op!(vbslq_f32(vcgtq_f32(a, b), a, b))
    }
    #[inline(always)]
    fn min_f(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        op!(vbslq_f32(vcltq_f32(a, b), a, b))
    }
    #[inline(always)]
    fn select_lt(
        self,
        a: float32x4_t,
        b: float32x4_t,
        yes: float32x4_t,
        no: float32x4_t,
    ) -> float32x4_t {
        op!(vbslq_f32(vcltq_f32(a, b), yes, no))
    }
    #[inline(always)]
    fn sum(self, lanes: &[float32x4_t; MAX_PARTS]) -> f32 {
        op!({
            let four = fold(lanes);
            vpadds_f32(vadd_f32(vget_low_f32(four), vget_high_f32(four)))
        })
    }
    #[inline(always)]
    fn sum4(self, [a, b, c, d]: &[[float32x4_t; MAX_PARTS]; 4]) -> [f32; 4] {
        op!({
            let (ab, cd) = (halve(fold(a), fold(b)), halve(fold(c), fold(d)));
            let mut out = [0.0; 4];
            vst1q_f32(out.as_mut_ptr(), vpaddq_f32(ab, cd));
            out
        })
    }
}

/// The first two steps of the tree of [`Lanes::sum`].
#[inline]
#[target_feature(enable = "neon")]
fn fold([a, b, c, d]: &[float32x4_t; MAX_PARTS]) -> float32x4_t {
    vaddq_f32(vaddq_f32(*a, *c), vaddq_f32(*b, *d))
}

/// The third step for two sums: lanes j and j + 2 of `a` below, of `b` above.
#[inline]
#[target_feature(enable = "neon")]
fn halve(a: float32x4_t, b: float32x4_t) -> float32x4_t {
    let (a, b) = (vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b));
    vaddq_f32(
        vreinterpretq_f32_f64(vtrn1q_f64(a, b)),
        vreinterpretq_f32_f64(vtrn2q_f64(a, b)),
    )
}
