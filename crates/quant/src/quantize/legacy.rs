//! Q4_0 to Q8_1.

use crate::Quantize;
use crate::fit::{
    Levels, Linear, Offset, fit_affine, fit_symmetric, nearest_levels, nearest_quants,
};
use crate::legacy::{
    BlockQ4_0, BlockQ4_1, BlockQ5_0, BlockQ5_1, BlockQ8_0, BlockQ8_1, pack_fifth_bits, pack_nibbles,
};
use crate::number::F16;

const ONES: [f32; 32] = [1.0; 32];

/// The scale of 32 values, and their levels with the scale as it is stored.
fn around_zero<L: Levels>(x: &[f32; 32], w: Option<&[f32; 32]>) -> (F16, [i8; 32]) {
    let reach = 2.0;
    let d = F16::from_f32_saturating(fit_symmetric::<L, 32>(x, w.unwrap_or(&ONES), reach));
    (d, nearest_levels::<L, 32>(x, d.to_f32()))
}

/// The scale and minimum of 32 values, and their quants with the two as they are stored.
fn above_minimum(x: &[f32; 32], w: Option<&[f32; 32]>, top: f32) -> (F16, F16, [u8; 32]) {
    let reach = 1.5;
    let mut fit = fit_affine(x, w.unwrap_or(&ONES), top, Offset::Free, reach);
    let d = F16::from_f32_saturating(fit.scale);
    let m = F16::from_f32_saturating(-fit.min);
    (fit.scale, fit.min) = (d.to_f32(), -m.to_f32());
    (d, m, nearest_quants(x, fit, top))
}

impl Quantize for BlockQ4_0 {
    fn quantize(values: &[f32; 32], weights: Option<&[f32; 32]>) -> Self {
        let (d, levels) = around_zero::<Linear<-8, 7>>(values, weights);
        Self {
            d,
            qs: pack_nibbles(&levels.map(|q| (q + 8) as u8)),
        }
    }
}

impl Quantize for BlockQ5_0 {
    fn quantize(values: &[f32; 32], weights: Option<&[f32; 32]>) -> Self {
        let (d, levels) = around_zero::<Linear<-16, 15>>(values, weights);
        let q = levels.map(|q| (q + 16) as u8);
        Self {
            d,
            qh: pack_fifth_bits(&q),
            qs: pack_nibbles(&q),
        }
    }
}

impl Quantize for BlockQ4_1 {
    fn quantize(values: &[f32; 32], weights: Option<&[f32; 32]>) -> Self {
        let (d, m, q) = above_minimum(values, weights, 15.0);
        Self {
            d,
            m,
            qs: pack_nibbles(&q),
        }
    }
}

impl Quantize for BlockQ5_1 {
    fn quantize(values: &[f32; 32], weights: Option<&[f32; 32]>) -> Self {
        let (d, m, q) = above_minimum(values, weights, 31.0);
        Self {
            d,
            m,
            qh: pack_fifth_bits(&q),
            qs: pack_nibbles(&q),
        }
    }
}

/// The scale that takes the largest magnitude to 127, and the quants: with this many levels a search gains nothing, and
/// so the bytes are the same as ggml's.
fn eight_bits(x: &[f32; 32]) -> (f32, [i8; 32]) {
    let d = x.iter().fold(0.0f32, |a, x| a.max(x.abs())) / 127.0;
    // A smaller scale is zero as a half float, and its inverse may be infinite.
    let inv = if d < 1e-30 { 0.0 } else { 1.0 / d };
    (d, x.map(|x| round_away(x * inv)))
}

/// The nearest integer, ties away from zero.
#[inline]
fn round_away(v: f32) -> i8 {
    let whole = v as i32;
    let fraction = v - whole as f32;
    let away = i32::from(fraction >= 0.5) - i32::from(fraction <= -0.5);
    (whole + away) as i8
}

impl Quantize for BlockQ8_0 {
    fn quantize(values: &[f32; 32], _: Option<&[f32; 32]>) -> Self {
        let (d, qs) = eight_bits(values);
        Self {
            d: F16::from_f32_saturating(d),
            qs,
        }
    }
}

impl Quantize for BlockQ8_1 {
    fn quantize(values: &[f32; 32], _: Option<&[f32; 32]>) -> Self {
        let (d, qs) = eight_bits(values);
        let sum: i32 = qs.iter().map(|&q| i32::from(q)).sum();
        Self {
            d: F16::from_f32_saturating(d),
            s: F16::from_f32_saturating(d * sum as f32),
            qs,
        }
    }
}
