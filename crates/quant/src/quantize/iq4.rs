//! IQ4_NL and IQ4_XS.

use bytemuck::cast_ref;

use crate::Quantize;
use crate::fit::{Curve, fit_symmetric, fit_symmetric_groups, nearest_levels};
use crate::iq::{BlockIQ4_NL, BlockIQ4_XS, IQ4_VALUES};
use crate::legacy::pack_nibbles;
use crate::number::{F16, LeU16};

static ONES: [f32; 256] = [1.0; 256];

/// The codes of 32 values of the curve.
fn pack_codes(levels: &[i8; 32]) -> [u8; 16] {
    let code = |level: i8| {
        IQ4_VALUES[1..]
            .iter()
            .map(|&value| u8::from(level >= value))
            .sum()
    };
    pack_nibbles(&levels.map(code))
}

impl Quantize for BlockIQ4_NL {
    fn quantize(values: &[f32; 32], weights: Option<&[f32; 32]>) -> Self {
        let reach = 18.0;
        let weights = weights.unwrap_or(&[1.0; 32]);
        let d = F16::from_f32_saturating(fit_symmetric::<Curve, 32>(values, weights, reach));
        Self {
            d,
            qs: pack_codes(&nearest_levels::<Curve, 32>(values, d.to_f32())),
        }
    }
}

impl Quantize for BlockIQ4_XS {
    fn quantize(values: &[f32; 256], weights: Option<&[f32; 256]>) -> Self {
        let reach = 18.0;
        let weights = weights.unwrap_or(&ONES);
        let fit =
            fit_symmetric_groups::<Curve, 32, 8>(cast_ref(values), cast_ref(weights), -32, reach);
        let scales = fit.scales.map(|scale| (scale + 32) as u8);
        let high = (0..8).fold(0, |bits, g| bits | u16::from(scales[g] >> 4) << (2 * g));
        Self {
            d: fit.d,
            scales_h: LeU16::new(high),
            scales_l: core::array::from_fn(|i| scales[2 * i] & 15 | scales[2 * i + 1] << 4),
            qs: core::array::from_fn(|g| pack_codes(&fit.levels[g])),
        }
    }
}
