//! MXFP4 and NVFP4: few scales are possible, so the ones around the spanning scale are tried in turn.

use bytemuck::cast_ref;

use crate::Quantize;
use crate::fit::{E2m1, Levels, losses};
use crate::fp4::{BlockMXFP4, BlockNVFP4, E2M1_DOUBLED};
use crate::legacy::pack_nibbles;
use crate::number::{E8M0, UE4M3};

/// The code of E2M1 nearest to `v`; `v` is doubled.
#[inline(always)]
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

/// The first of the least.
fn least<const C: usize>(losses: [f32; C]) -> usize {
    (1..C).fold(0, |best, i| if losses[i] < losses[best] { i } else { best })
}

impl Quantize for BlockMXFP4 {
    fn quantize(values: &[f32; 32], weights: Option<&[f32; 32]>) -> Self {
        // The exponent of the largest value less 2, that of E2M1's largest: the power that may clip it. The next
        // one cannot.
        let exponent = (largest(values).to_bits() >> 23) as u8;
        let clipping = exponent.saturating_sub(2);
        // In units of the first scale, since squares of the values themselves may not fit a float.
        let unit = E8M0(clipping).to_f32_half();
        let x = values.map(|x| x / unit);
        let losses = losses::<E2m1, 32, 2>(&x, weights.unwrap_or(&[1.0; 32]), &[1.0, 2.0]);
        let (e, inv) = [(clipping, 1.0), (clipping + 1, 0.5)][least(losses)];
        Self {
            e: E8M0(e),
            qs: pack_nibbles(&x.map(|x| code(x * inv))),
        }
    }
}

impl Quantize for BlockNVFP4 {
    fn quantize(values: &[f32; 64], weights: Option<&[f32; 64]>) -> Self {
        let x: &[[f32; 16]; 4] = cast_ref(values);
        let w: &[[f32; 16]; 4] = cast_ref(weights.unwrap_or(&[1.0; 64]));
        let mut block = Self {
            d: [UE4M3(0); 4],
            qs: [[0; 8]; 4],
        };
        for g in 0..4 {
            let d = nvfp4_scale(&x[g], &w[g]);
            let inv = 1.0 / d.to_f32_half();
            let codes = x[g].map(|x| code(x * inv));
            block.d[g] = d;
            block.qs[g] = core::array::from_fn(|i| codes[i] | codes[i + 8] << 4);
        }
        block
    }
}

/// The best of the scales around the one that spans the values, at least the smallest that is not zero.
fn nvfp4_scale(x: &[f32; 16], w: &[f32; 16]) -> UE4M3 {
    let span = largest(x) / 6.0;
    // The scales rise with their codes. Where they are normal, a code is the top of the float's own bits with another
    // bias; below, it counts steps of 2^-9.
    let code = if span < 1.0 / 64.0 {
        (span * 512.0) as u8
    } else {
        ((span.to_bits() >> 20) - (120 << 3)) as u8
    };
    let first = code.saturating_sub(8).clamp(1, UE4M3::MAX.0 - 15);
    let scales: [UE4M3; 16] = core::array::from_fn(|i| UE4M3(first + i as u8));
    scales[least(losses::<E2m1, 16, 16>(
        x,
        w,
        &scales.map(UE4M3::to_f32_half),
    ))]
}
