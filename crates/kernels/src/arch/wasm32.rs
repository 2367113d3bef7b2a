//! WebAssembly's 128-bit registers: a line in four.
//!
//! A module says once which instructions it has, so there is nothing to ask a processor for.
#![allow(unsafe_code)]

use core::arch::wasm32::*;

use crate::lanes::{Lanes, MAX_PARTS};
use strata_quant::F16;

mod dot;
mod fused;

/// The token of the backend. The module was compiled for its instructions, so it needs no proof.
#[derive(Copy, Clone)]
pub(crate) struct Simd128;

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

/// Something of 16 bytes, as it lies.
#[inline(always)]
fn load<T: Copy, const N: usize>(array: &[T; N]) -> v128 {
    const { assert!(size_of::<[T; N]>() == size_of::<v128>()) };
    // SAFETY: the array is as long as the register, and alignment does not matter.
    unsafe { v128_load(array.as_ptr().cast()) }
}

/// Half floats in the lower half of each lane, as floats.
#[inline(always)]
fn of_halves(halves: v128) -> v128 {
    let sign = i32x4_shl(v128_and(halves, i32x4_splat(0x8000)), 16);
    let magnitude = v128_and(halves, i32x4_splat(0x7fff));
    // Read as a float's, the exponent is 112 too small; a multiplication mends that for subnormal numbers too.
    let scaled = f32x4_mul(
        i32x4_shl(magnitude, 13),
        f32x4_splat(f32::from_bits((127 + 112) << 23)),
    );
    let special = v128_and(
        i32x4_gt(magnitude, i32x4_splat(0x7bff)),
        i32x4_splat(0x7f80_0000),
    );
    v128_or(sign, v128_or(scaled, special))
}

/// 4 half words below, zero-extended.
#[inline(always)]
fn words(words: &[u8; 8]) -> v128 {
    u32x4_extend_low_u16x8(u64x2(u64::from_le_bytes(*words), 0))
}

/// 4 bytes in the lowest lane.
#[inline(always)]
fn quad(bytes: &[u8; 4]) -> v128 {
    u32x4(u32::from_le_bytes(*bytes), 0, 0, 0)
}

impl Lanes for Simd128 {
    const PARTS: usize = PARTS;
    const TILE: usize = 4;
    type I = v128;
    type F = v128;

    #[inline(always)]
    fn load(self, line: &[u8; 64], part: usize) -> v128 {
        load::<u8, 16>(place(line, part))
    }
    #[inline(always)]
    fn load_u8(self, bytes: &[u8; 16], part: usize) -> v128 {
        u32x4_extend_low_u16x8(u16x8_extend_low_u8x16(quad(place(bytes, part))))
    }
    #[inline(always)]
    fn load_u16(self, halves: &[u8; 32], part: usize) -> v128 {
        words(place(halves, part))
    }
    #[inline(always)]
    fn load_i8(self, bytes: &[u8; 16], part: usize) -> v128 {
        i32x4_extend_low_i16x8(i16x8_extend_low_i8x16(quad(place(bytes, part))))
    }
    #[inline(always)]
    fn store_i8(self, a: v128, out: &mut [i8; 16], part: usize) {
        // Lanes are within a byte, so nothing is cut off.
        let words = i16x8_narrow_i32x4(a, a);
        let bytes = i32x4_extract_lane::<0>(i8x16_narrow_i16x8(words, words));
        *place_mut(out, part) = bytes.to_le_bytes().map(|byte| byte as i8);
    }
    #[inline(always)]
    fn prefetch<T>(self, _: &T, _: usize) {}

    #[inline(always)]
    fn splat(self, a: i32) -> v128 {
        i32x4_splat(a)
    }
    #[inline(always)]
    fn and(self, a: v128, b: v128) -> v128 {
        v128_and(a, b)
    }
    #[inline(always)]
    fn or(self, a: v128, b: v128) -> v128 {
        v128_or(a, b)
    }
    #[inline(always)]
    fn shl(self, a: v128, n: u32) -> v128 {
        i32x4_shl(a, n)
    }
    #[inline(always)]
    fn shr(self, a: v128, n: u32) -> v128 {
        u32x4_shr(a, n)
    }
    #[inline(always)]
    fn sar(self, a: v128, n: u32) -> v128 {
        i32x4_shr(a, n)
    }
    #[inline(always)]
    fn add(self, a: v128, b: v128) -> v128 {
        i32x4_add(a, b)
    }
    #[inline(always)]
    fn sub(self, a: v128, b: v128) -> v128 {
        i32x4_sub(a, b)
    }
    #[inline(always)]
    fn mul(self, a: v128, b: v128) -> v128 {
        i32x4_mul(a, b)
    }
    #[inline(always)]
    fn max_i(self, a: v128, b: v128) -> v128 {
        i32x4_max(a, b)
    }
    #[inline(always)]
    fn sub8(self, a: v128, b: v128) -> v128 {
        i8x16_sub(a, b)
    }
    #[inline(always)]
    fn even_i8(self, a: v128) -> v128 {
        i16x8_shr(i16x8_shl(a, 8), 8)
    }
    #[inline(always)]
    fn mul_pairs(self, a: v128, by: i16) -> v128 {
        i16x8_mul(a, i16x8_splat(by))
    }
    #[inline(always)]
    fn lut(self, table: &[i8; 16], codes: v128) -> v128 {
        i8x16_swizzle(load(table), codes)
    }

    #[inline(always)]
    fn load_f(self, values: &[f32; 16], part: usize) -> v128 {
        load::<f32, 4>(place(values, part))
    }
    #[inline(always)]
    fn store_f(self, a: v128, out: &mut [f32; 16], part: usize) {
        let out: &mut [f32; 4] = place_mut(out, part);
        // SAFETY: the array is as long as the register, and alignment does not matter.
        unsafe { v128_store(out.as_mut_ptr().cast(), a) };
    }
    #[inline(always)]
    fn load_f16(self, halves: &[u8; 32], part: usize) -> v128 {
        of_halves(words(place(halves, part)))
    }
    #[inline(always)]
    fn store_f16(self, a: v128, out: &mut [u8; 32], part: usize) {
        // Few are stored for the many that are loaded.
        let floats = [
            f32x4_extract_lane::<0>(a),
            f32x4_extract_lane::<1>(a),
            f32x4_extract_lane::<2>(a),
            f32x4_extract_lane::<3>(a),
        ];
        let out: &mut [u8; 8] = place_mut(out, part);
        for (out, float) in out.as_chunks_mut::<2>().0.iter_mut().zip(floats) {
            *out = F16::from_f32(float).0;
        }
    }
    #[inline(always)]
    fn splat_f(self, a: f32) -> v128 {
        f32x4_splat(a)
    }
    #[inline(always)]
    fn splat_f16(self, half: [u8; 2]) -> v128 {
        of_halves(i32x4_splat(i32::from(u16::from_le_bytes(half))))
    }
    #[inline(always)]
    fn to_f(self, a: v128) -> v128 {
        f32x4_convert_i32x4(a)
    }
    #[inline(always)]
    fn round(self, a: v128) -> v128 {
        i32x4_trunc_sat_f32x4(f32x4_nearest(a))
    }
    #[inline(always)]
    fn bits(self, a: v128) -> v128 {
        a
    }
    #[inline(always)]
    fn of_bits(self, a: v128) -> v128 {
        a
    }
    #[inline(always)]
    fn add_f(self, a: v128, b: v128) -> v128 {
        f32x4_add(a, b)
    }
    #[inline(always)]
    fn sub_f(self, a: v128, b: v128) -> v128 {
        f32x4_sub(a, b)
    }
    #[inline(always)]
    fn mul_f(self, a: v128, b: v128) -> v128 {
        f32x4_mul(a, b)
    }
    #[inline(always)]
    fn div_f(self, a: v128, b: v128) -> v128 {
        f32x4_div(a, b)
    }
    #[inline(always)]
    fn fma(self, a: v128, b: v128, c: v128) -> v128 {
        fused::multiply_add(a, b, c)
    }
    #[inline(always)]
    fn fnma(self, a: v128, b: v128, c: v128) -> v128 {
        fused::multiply_add(f32x4_neg(a), b, c)
    }
    #[inline(always)]
    fn max_f(self, a: v128, b: v128) -> v128 {
        // a where b < a, else b.
        f32x4_pmax(b, a)
    }
    #[inline(always)]
    fn min_f(self, a: v128, b: v128) -> v128 {
        f32x4_pmin(b, a)
    }
    #[inline(always)]
    fn select_lt(self, a: v128, b: v128, yes: v128, no: v128) -> v128 {
        v128_bitselect(yes, no, f32x4_lt(a, b))
    }
    #[inline(always)]
    fn sum(self, lanes: &[v128; MAX_PARTS]) -> f32 {
        let four = fold(lanes);
        let two = f32x4_add(four, i32x4_shuffle::<2, 3, 0, 1>(four, four));
        f32x4_extract_lane::<0>(two) + f32x4_extract_lane::<1>(two)
    }
    #[inline(always)]
    fn sum4(self, [a, b, c, d]: &[[v128; MAX_PARTS]; 4]) -> [f32; 4] {
        let (ab, cd) = (halve(fold(a), fold(b)), halve(fold(c), fold(d)));
        let even = i32x4_shuffle::<0, 2, 4, 6>(ab, cd);
        let odd = i32x4_shuffle::<1, 3, 5, 7>(ab, cd);
        let sums = f32x4_add(even, odd);
        let mut out = [0.0; 4];
        // SAFETY: the array is as long as the register, and alignment does not matter.
        unsafe { v128_store(out.as_mut_ptr().cast(), sums) };
        out
    }
}

/// The first two steps of the tree of [`Lanes::sum`].
#[inline(always)]
fn fold([a, b, c, d]: &[v128; MAX_PARTS]) -> v128 {
    f32x4_add(f32x4_add(*a, *c), f32x4_add(*b, *d))
}

/// The third step for two sums: lanes j and j + 2 of `a` below, of `b` above.
#[inline(always)]
fn halve(a: v128, b: v128) -> v128 {
    let low = i32x4_shuffle::<0, 1, 4, 5>(a, b);
    f32x4_add(low, i32x4_shuffle::<2, 3, 6, 7>(a, b))
}
