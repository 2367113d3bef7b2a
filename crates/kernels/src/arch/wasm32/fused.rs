//! Multiplication and addition with one rounding, which the instructions do not have.

use core::arch::wasm32::*;

/// a · b + c with one rounding, as the [reference](crate::arch::scalar::fma) computes it, without its branches.
#[inline(always)]
pub(super) fn multiply_add(a: v128, b: v128, c: v128) -> v128 {
    let above = |a| i64x2_shuffle::<1, 0>(a, a);
    let low = to_odd(a, b, c);
    let high = to_odd(above(a), above(b), above(c));
    i64x2_shuffle::<0, 2>(f32x4_demote_f64x2_zero(low), f32x4_demote_f64x2_zero(high))
}

/// The lower two lanes in f64, rounded to odd. Products are exact there, and what a sum loses is known exactly.
#[inline(always)]
fn to_odd(a: v128, b: v128, c: v128) -> v128 {
    let product = f64x2_mul(f64x2_promote_low_f32x4(a), f64x2_promote_low_f32x4(b));
    let c = f64x2_promote_low_f32x4(c);
    let sum = f64x2_add(product, c);
    let of_c = f64x2_sub(sum, product);
    let error = f64x2_add(f64x2_sub(product, f64x2_sub(sum, of_c)), f64x2_sub(c, of_c));
    // Where something was lost; not where the sum is infinite or NaN, since the error is NaN then.
    let lost = f64x2_gt(f64x2_abs(error), f64x2_splat(0.0));
    // One step towards zero where the sum is too great, and then to the odd neighbour further out: what is odd stays.
    let too_great = i64x2_shr(v128_xor(error, sum), 63);
    let cut = i64x2_add(sum, v128_and(lost, too_great));
    v128_or(cut, v128_and(lost, i64x2_splat(1)))
}
