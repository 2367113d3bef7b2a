//! IQ4_NL and IQ4_XS: 4-bit codes on a curve that is denser around zero.

use bytemuck::{Pod, Zeroable};

use crate::block::block;
use crate::legacy::nibbles;
use crate::number::{F16, LeU16};

/// The curve: the value of each code.
pub const IQ4_VALUES: [i8; 16] = [
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
];

/// The curve's value nearest to each half step from −127 up: halfway points are whole or half numbers, so that the
/// values between two steps all have the same.
const NEAREST: [i8; 481] = {
    let mut table = [0; 481];
    let (mut i, mut code) = (0, 0);
    while i < table.len() {
        let doubled = i as i32 - 254;
        while code < 15 && IQ4_VALUES[code] as i32 + IQ4_VALUES[code + 1] as i32 <= doubled {
            code += 1;
        }
        table[i] = IQ4_VALUES[code];
        i += 1;
    }
    table
};

/// The curve's value nearest to `v`.
#[inline(always)]
pub(crate) fn nearest_iq4(v: f32) -> i8 {
    // `as` saturates, and takes NaN to 0.
    let step = (2.0 * v + 254.0) as usize;
    NEAREST[step.min(480)]
}

/// 32 values.
#[derive(Copy, Clone, Debug, Pod, Zeroable)]
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct BlockIQ4_NL {
    /// The scale.
    pub d: F16,
    /// Two codes a byte: value `i` below and `i + 16` above.
    pub qs: [u8; 16],
}
block!(BlockIQ4_NL, IQ4_NL, 32, 18);

/// 8 groups of 32 values with 6-bit scales.
#[derive(Copy, Clone, Debug, Pod, Zeroable)]
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct BlockIQ4_XS {
    /// What a scale of 1 is worth.
    pub d: F16,
    /// The upper two bits of the scales.
    pub scales_h: LeU16,
    /// The lower four bits of the scales, two groups a byte.
    pub scales_l: [u8; 4],
    /// Two codes a byte, 16 bytes a group: value `i` below and `i + 16` above.
    pub qs: [[u8; 16]; 8],
}
block!(BlockIQ4_XS, IQ4_XS, 256, 136);

/// The curve's values for 32 packed codes.
#[inline]
fn curve_values(qs: &[u8; 16]) -> [i8; 32] {
    nibbles(qs).map(|code| IQ4_VALUES[usize::from(code)])
}

#[inline]
fn scale_into(scale: f32, q: &[i8; 32], out: &mut [f32; 32]) {
    for (out, &q) in out.iter_mut().zip(q) {
        *out = scale * f32::from(q);
    }
}

impl BlockIQ4_NL {
    /// The curve's values for the codes, in order.
    #[inline]
    pub fn quants(&self) -> [i8; 32] {
        curve_values(&self.qs)
    }

    /// The block's values.
    pub fn dequantize(&self, out: &mut [f32; 32]) {
        scale_into(self.d.to_f32(), &self.quants(), out);
    }
}

impl BlockIQ4_XS {
    /// The signed scales of the groups, −32 to 31.
    #[inline]
    pub fn group_scales(&self) -> [i8; 8] {
        let high = self.scales_h.get();
        core::array::from_fn(|i| {
            let low = self.scales_l[i / 2] >> (4 * (i % 2)) & 15;
            let high = (high >> (2 * i)) as u8 & 3;
            (low | high << 4) as i8 - 32
        })
    }

    /// The curve's values for the codes of one group, in order.
    #[inline]
    pub fn quants(qs: &[u8; 16]) -> [i8; 32] {
        curve_values(qs)
    }

    /// The block's values.
    pub fn dequantize(&self, out: &mut [f32; 256]) {
        let d = self.d.to_f32();
        let groups = out.as_chunks_mut::<32>().0.iter_mut();
        for ((out, scale), qs) in groups.zip(self.group_scales()).zip(&self.qs) {
            scale_into(d * f32::from(scale), &curve_values(qs), out);
        }
    }
}
