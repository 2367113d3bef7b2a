//! IQ2_XXS, IQ2_XS and IQ2_S: 8 values at a time are a point of a grid of magnitudes 8, 25 and 43.

use bytemuck::{Pod, Zeroable};

use super::grids::{IQ2_S, IQ2_XS, IQ2_XXS};
use super::{even_signs, put_2bit};
use crate::block::block;
use crate::number::{F16, LeU16, LeU32};

/// 8 groups of 32 values.
#[derive(Copy, Clone, Debug, Pod, Zeroable)]
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct BlockIQ2_XXS {
    /// What a scale of 1 is worth.
    pub d: F16,
    /// The groups.
    pub groups: [GroupIQ2_XXS; 8],
}
block!(BlockIQ2_XXS, IQ2_XXS, 256, 66);

/// 32 values of an IQ2_XXS block.
#[derive(Copy, Clone, Debug, Pod, Zeroable)]
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct GroupIQ2_XXS {
    /// Points of the grid, 8 values each.
    pub points: [u8; 4],
    /// Four times 7 sign bits from below, then a 4-bit scale.
    pub signs_scale: LeU32,
}

/// 16 groups of 16 values.
#[derive(Copy, Clone, Debug, Pod, Zeroable)]
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct BlockIQ2_XS {
    /// What a scale of 1 is worth.
    pub d: F16,
    /// A 9-bit point of the grid below, 7 sign bits above; 8 values each.
    pub qs: [LeU16; 32],
    /// 4-bit scales, two groups a byte.
    pub scales: [u8; 8],
}
block!(BlockIQ2_XS, IQ2_XS, 256, 74);

/// 16 groups of 16 values.
#[derive(Copy, Clone, Debug, Pod, Zeroable)]
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct BlockIQ2_S {
    /// What a scale of 1 is worth.
    pub d: F16,
    /// The lower 8 bits of the points, 8 values each.
    pub qs: [u8; 32],
    /// The sign bits of 8 values each.
    pub signs: [u8; 32],
    /// The upper two bits of four points a byte.
    pub qh: [u8; 8],
    /// 4-bit scales, two groups a byte.
    pub scales: [u8; 8],
}
block!(BlockIQ2_S, IQ2_S, 256, 82);

/// The worth of a 4-bit scale: an eighth for 0, then in steps of a quarter.
#[inline]
fn group_scale(d: f32, scale: u32) -> f32 {
    d * (0.5 + scale as f32) * 0.25
}

impl BlockIQ2_XXS {
    /// The block's values.
    pub fn dequantize(&self, out: &mut [f32; 256]) {
        let d = self.d.to_f32();
        for (group, out) in self.groups.iter().zip(out.as_chunks_mut::<32>().0) {
            let bits = group.signs_scale.get();
            let scale = group_scale(d, bits >> 28);
            for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                let point = IQ2_XXS[usize::from(group.points[i])];
                put_2bit(scale, point, even_signs(bits >> (7 * i)), out);
            }
        }
    }
}

impl BlockIQ2_XS {
    /// The block's values.
    pub fn dequantize(&self, out: &mut [f32; 256]) {
        let d = self.d.to_f32();
        for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let scale = self.scales[i / 4] >> (4 * (i / 2 % 2)) & 15;
            let q = self.qs[i].get();
            let point = IQ2_XS[usize::from(q & 511)];
            put_2bit(
                group_scale(d, scale.into()),
                point,
                even_signs(u32::from(q >> 9)),
                out,
            );
        }
    }
}

impl BlockIQ2_S {
    /// The block's values.
    pub fn dequantize(&self, out: &mut [f32; 256]) {
        let d = self.d.to_f32();
        for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let scale = self.scales[i / 4] >> (4 * (i / 2 % 2)) & 15;
            let high = self.qh[i / 4] >> (2 * (i % 4)) & 3;
            let point = IQ2_S[usize::from(self.qs[i]) | usize::from(high) << 8];
            put_2bit(group_scale(d, scale.into()), point, self.signs[i], out);
        }
    }
}
