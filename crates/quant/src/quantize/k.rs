//! Q2_K to Q8_K.

use bytemuck::cast_ref;

use crate::Quantize;
use crate::fit::{Linear, fit_affine_groups, fit_symmetric_groups};
use crate::k::{
    BlockQ2_K, BlockQ3_K, BlockQ4_K, BlockQ5_K, BlockQ6_K, BlockQ8_K, pack_nibble_planes,
    pack_scales_mins,
};
use crate::number::{LeF32, LeI16};

type Values = [f32; 256];

static ONES: Values = [1.0; 256];

/// The bits of one value in a byte that holds values `i`, `i + 32`, `i + 64`, `i + 96` of a half.
fn two_bit_planes(q: &[u8; 256], byte: usize) -> u8 {
    let start = 128 * (byte / 32) + byte % 32;
    (0..4).fold(0, |bits, plane| {
        bits | (q[start + 32 * plane] & 3) << (2 * plane)
    })
}

impl Quantize for BlockQ2_K {
    fn quantize(values: &Values, weights: Option<&Values>) -> Self {
        let reach = 0.9;
        let weights = weights.unwrap_or(&ONES);
        let fit =
            fit_affine_groups::<16, 16>(cast_ref(values), cast_ref(weights), 3.0, 15.0, reach);
        let q: &[u8; 256] = cast_ref(&fit.quants);
        Self {
            scales: core::array::from_fn(|i| fit.scales[i] | fit.mins[i] << 4),
            qs: core::array::from_fn(|i| two_bit_planes(q, i)),
            d: fit.d,
            dmin: fit.dmin,
        }
    }
}

impl Quantize for BlockQ3_K {
    fn quantize(values: &Values, weights: Option<&Values>) -> Self {
        let reach = 1.0;
        let weights = weights.unwrap_or(&ONES);
        let fit = fit_symmetric_groups::<Linear<-4, 3>, 16, 16>(
            cast_ref(values),
            cast_ref(weights),
            -32,
            reach,
        );
        let levels: &[i8; 256] = cast_ref(&fit.levels);
        let q = levels.map(|level| (level + 4) as u8);
        Self {
            hmask: core::array::from_fn(|i| {
                (0..8).fold(0, |bits, plane| bits | (q[32 * plane + i] >> 2) << plane)
            }),
            qs: core::array::from_fn(|i| two_bit_planes(&q, i)),
            scales: Self::pack_scales(&fit.scales),
            d: fit.d,
        }
    }
}

impl Quantize for BlockQ4_K {
    fn quantize(values: &Values, weights: Option<&Values>) -> Self {
        let reach = 1.5;
        let weights = weights.unwrap_or(&ONES);
        let fit =
            fit_affine_groups::<32, 8>(cast_ref(values), cast_ref(weights), 15.0, 63.0, reach);
        Self {
            d: fit.d,
            dmin: fit.dmin,
            scales: pack_scales_mins(&fit.scales, &fit.mins),
            qs: pack_nibble_planes(&fit.quants),
        }
    }
}

impl Quantize for BlockQ5_K {
    fn quantize(values: &Values, weights: Option<&Values>) -> Self {
        let reach = 2.5;
        let weights = weights.unwrap_or(&ONES);
        let fit =
            fit_affine_groups::<32, 8>(cast_ref(values), cast_ref(weights), 31.0, 63.0, reach);
        let fifth_bits = |i: usize| (0..8).fold(0, |bits, g| bits | (fit.quants[g][i] >> 4) << g);
        Self {
            d: fit.d,
            dmin: fit.dmin,
            scales: pack_scales_mins(&fit.scales, &fit.mins),
            qh: core::array::from_fn(fifth_bits),
            qs: pack_nibble_planes(&fit.quants),
        }
    }
}

impl Quantize for BlockQ6_K {
    fn quantize(values: &Values, weights: Option<&Values>) -> Self {
        let reach = 4.0;
        let weights = weights.unwrap_or(&ONES);
        let fit = fit_symmetric_groups::<Linear<-32, 31>, 16, 16>(
            cast_ref(values),
            cast_ref(weights),
            -128,
            reach,
        );
        let levels: &[i8; 256] = cast_ref(&fit.levels);
        let q = levels.map(|level| (level + 32) as u8);
        let upper = q.map(|q| q >> 4);
        Self {
            ql: core::array::from_fn(|i| {
                let start = 128 * (i / 64) + i % 64;
                q[start] & 15 | q[start + 64] << 4
            }),
            qh: core::array::from_fn(|i| two_bit_planes(&upper, i)),
            scales: fit.scales,
            d: fit.d,
        }
    }
}

impl Quantize for BlockQ8_K {
    fn quantize(values: &Values, _: Option<&Values>) -> Self {
        // The largest magnitude goes to −127 or 127 by its sign, as in ggml.
        let largest = values
            .iter()
            .fold(0.0f32, |a, &x| if x.abs() > a.abs() { x } else { a });
        let scale = if largest.abs() < 1e-30 {
            0.0
        } else {
            -127.0 / largest
        };
        let qs = values.map(|x| crate::fit::nearest_integer(x * scale, -127.0, 127.0) as i8);
        Self {
            d: LeF32::new(if scale == 0.0 { 0.0 } else { 1.0 / scale }),
            qs,
            bsums: core::array::from_fn(|g| {
                LeI16::new(qs[16 * g..][..16].iter().map(|&q| i16::from(q)).sum())
            }),
        }
    }
}
