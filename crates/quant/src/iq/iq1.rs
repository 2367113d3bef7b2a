//! IQ1_S and IQ1_M: 8 values at a time are a point of a ternary grid, shifted up or down by an eighth.

use bytemuck::{Pod, Zeroable};

use super::grids::IQ1;
use crate::block::block;
use crate::number::{F16, LeU16};

/// 8 groups of 32 values.
#[derive(Copy, Clone, Debug, Pod, Zeroable)]
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct BlockIQ1_S {
    /// What a scale of 1 is worth.
    pub d: F16,
    /// The lower 8 bits of the points, 8 values each.
    pub qs: [u8; 32],
    /// For each group four times 3 upper bits of the points, a 3-bit scale, and the shift's sign.
    pub qh: [LeU16; 8],
}
block!(BlockIQ1_S, IQ1_S, 256, 50);

/// 16 groups of 16 values; a shift for each 8.
#[derive(Copy, Clone, Debug, Pod, Zeroable)]
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct BlockIQ1_M {
    /// The lower 8 bits of the points, 8 values each.
    pub qs: [u8; 32],
    /// For each point 3 upper bits and the shift's sign, two points a byte.
    pub qh: [u8; 16],
    /// Four times four 3-bit scales from below; the upper four bits of the words make the block's half float.
    pub scales: [LeU16; 4],
}
block!(BlockIQ1_M, IQ1_M, 256, 56);

/// Writes one point, shifted and scaled.
#[inline]
fn put_ternary(scale: f32, point: u16, down: bool, out: &mut [f32; 8]) {
    let shift = if down { -0.125 } else { 0.125 };
    for (i, out) in out.iter_mut().enumerate() {
        let trit = f32::from(point >> (2 * i) & 3) - 1.0;
        *out = scale * (trit + shift);
    }
}

impl BlockIQ1_S {
    /// The block's values.
    pub fn dequantize(&self, out: &mut [f32; 256]) {
        let d = self.d.to_f32();
        for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let qh = self.qh[i / 4].get();
            let scale = d * f32::from(2 * (qh >> 12 & 7) + 1);
            let high = usize::from(qh >> (3 * (i % 4)) & 7);
            let point = IQ1[usize::from(self.qs[i]) | high << 8];
            put_ternary(scale, point, qh & 0x8000 != 0, out);
        }
    }
}

impl BlockIQ1_M {
    /// The block's scale, gathered from its four pieces.
    #[inline]
    pub fn d(&self) -> F16 {
        let bits = (0..4).fold(0, |bits, i| bits | (self.scales[i].get() >> 12) << (4 * i));
        F16::from_bits(bits)
    }

    /// The block's values.
    pub fn dequantize(&self, out: &mut [f32; 256]) {
        let d = self.d().to_f32();
        for (i, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            let group = i / 2;
            let scale = self.scales[group / 4].get() >> (3 * (group % 4)) & 7;
            let scale = d * f32::from(2 * scale + 1);
            let qh = self.qh[i / 2] >> (4 * (i % 2));
            let point = IQ1[usize::from(self.qs[i]) | usize::from(qh & 7) << 8];
            put_ternary(scale, point, qh & 8 != 0, out);
        }
    }
}
