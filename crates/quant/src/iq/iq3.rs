//! IQ3_XXS and IQ3_S: 4 values at a time are a point of a grid of 8 magnitudes.

use bytemuck::{Pod, Zeroable};

use super::grids::{IQ3_S, IQ3_XXS};
use super::{even_signs, put_3bit};
use crate::block::block;
use crate::number::{F16, LeU32};

/// 8 groups of 32 values.
#[derive(Copy, Clone, Debug, Pod, Zeroable)]
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct BlockIQ3_XXS {
    /// What a scale of 1 is worth.
    pub d: F16,
    /// Points of the grid, 4 values each.
    pub qs: [u8; 64],
    /// For each group four times 7 sign bits from below, then a 4-bit scale.
    pub signs_scales: [LeU32; 8],
}
block!(BlockIQ3_XXS, IQ3_XXS, 256, 98);

/// 8 groups of 32 values.
#[derive(Copy, Clone, Debug, Pod, Zeroable)]
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct BlockIQ3_S {
    /// What a scale of 1 is worth.
    pub d: F16,
    /// The lower 8 bits of the points, 4 values each.
    pub qs: [u8; 64],
    /// The ninth bits, a byte for each group.
    pub qh: [u8; 8],
    /// The sign bits of 8 values each.
    pub signs: [u8; 32],
    /// 4-bit scales, two groups a byte.
    pub scales: [u8; 4],
}
block!(BlockIQ3_S, IQ3_S, 256, 110);

impl BlockIQ3_XXS {
    /// The block's values.
    pub fn dequantize(&self, out: &mut [f32; 256]) {
        const MAGNITUDES: [f32; 8] = [4.0, 12.0, 20.0, 28.0, 36.0, 44.0, 52.0, 62.0];
        let d = self.d.to_f32();
        for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let bits = self.signs_scales[i / 4].get();
            let scale = d * (0.5 + (bits >> 28) as f32) * 0.5;
            let points = [self.qs[2 * i], self.qs[2 * i + 1]].map(|q| IQ3_XXS[usize::from(q)]);
            let signs = even_signs(bits >> (7 * (i % 4)));
            put_3bit(scale, &MAGNITUDES, points, signs, out);
        }
    }
}

impl BlockIQ3_S {
    /// The block's values.
    pub fn dequantize(&self, out: &mut [f32; 256]) {
        const MAGNITUDES: [f32; 8] = [1.0, 3.0, 5.0, 7.0, 9.0, 11.0, 13.0, 15.0];
        let d = self.d.to_f32();
        for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let scale = self.scales[i / 8] >> (4 * (i / 4 % 2)) & 15;
            let scale = d * f32::from(1 + 2 * scale);
            let points = [2 * i, 2 * i + 1].map(|j| {
                let high = self.qh[j / 8] >> (j % 8) & 1;
                IQ3_S[usize::from(self.qs[j]) | usize::from(high) << 8]
            });
            put_3bit(scale, &MAGNITUDES, points, self.signs[i], out);
        }
    }
}
