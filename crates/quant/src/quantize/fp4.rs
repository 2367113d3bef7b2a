//! MXFP4 and NVFP4: few scales are possible, so the ones around the spanning scale are tried in turn.

use bytemuck::cast_ref;

use crate::Quantize;
use crate::fit::{E2m1, Levels};
use crate::fp4::{BlockMXFP4, BlockNVFP4, E2M1_DOUBLED};
use crate::legacy::pack_nibbles;
use crate::number::{E8M0, UE4M3};

/// The squared error of the values over `scale`, in units of the scale.
fn error<const N: usize>(x: &[f32; N], w: Option<&[f32; N]>, scale: f32) -> f32 {
    let mut error = 0.0;
    for i in 0..N {
        let v = x[i] / scale;
        let miss = v - E2m1::nearest(v);
        error += w.map_or(1.0, |w| w[i]) * miss * miss;
    }
    error
}

/// The code of E2M1 nearest to `v`; `v` is doubled.
fn code(v: f32) -> u8 {
    let level = E2m1::nearest(v);
    let magnitude = level.abs() as i8;
    let code: u8 = E2M1_DOUBLED[1..8]
        .iter()
        .map(|&m| u8::from(magnitude >= m))
        .sum();
    if level < 0.0 { code | 8 } else { code }
}

fn largest(x: &[f32]) -> f32 {
    x.iter().fold(0.0, |a, x| a.max(x.abs()))
}

impl Quantize for BlockMXFP4 {
    fn quantize(values: &[f32; 32], weights: Option<&[f32; 32]>) -> Self {
        // The exponent of the largest value less 2, that of E2M1's largest.
        let exponent = (largest(values).to_bits() >> 23) as u8;
        let first = exponent.saturating_sub(2);
        let (mut e, mut least) = (E8M0(first), f32::INFINITY);
        let mut square = 1.0;
        for next in first..=first.saturating_add(1).min(254) {
            let found = square * error(values, weights, E8M0(next).to_f32_half());
            if found < least {
                (e, least) = (E8M0(next), found);
            }
            square *= 4.0;
        }
        let d = e.to_f32_half();
        Self {
            e,
            qs: pack_nibbles(&values.map(|x| code(x / d))),
        }
    }
}

impl Quantize for BlockNVFP4 {
    fn quantize(values: &[f32; 64], weights: Option<&[f32; 64]>) -> Self {
        let x: &[[f32; 16]; 4] = cast_ref(values);
        let w: Option<&[[f32; 16]; 4]> = weights.map(cast_ref);
        let d = core::array::from_fn(|g| nvfp4_scale(&x[g], w.map(|w| &w[g])));
        Self {
            d,
            qs: core::array::from_fn(|g| {
                let scale = d[g].to_f32_half();
                let q = x[g].map(|x| if scale == 0.0 { 0 } else { code(x / scale) });
                core::array::from_fn(|i| q[i] | q[i + 8] << 4)
            }),
        }
    }
}

fn nvfp4_scale(x: &[f32; 16], w: Option<&[f32; 16]>) -> UE4M3 {
    let span = largest(x) / 12.0;
    if span == 0.0 {
        return UE4M3(0);
    }
    // The scales rise with their codes: the first that spans the values, and its neighbours.
    let spanning = (1..UE4M3::MAX.0)
        .find(|&code| UE4M3(code).to_f32_half() >= span)
        .unwrap_or(UE4M3::MAX.0);
    let (mut best, mut least) = (UE4M3(spanning), f32::INFINITY);
    for code in spanning.saturating_sub(5).max(1)..=(spanning + 4).min(UE4M3::MAX.0) {
        let scale = UE4M3(code).to_f32_half();
        let found = scale * scale * error(x, w, scale);
        if found < least {
            (best, least) = (UE4M3(code), found);
        }
    }
    best
}
