//! Q2_K: 16 groups of 16; value = d · scale · q − dmin · min, with 4-bit scales and minima.

use bytemuck::{Pod, Zeroable};

use crate::block::block;
use crate::number::F16;

/// 256 values of 2 bits.
#[derive(Copy, Clone, Debug, Pod, Zeroable)]
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct BlockQ2_K {
    /// A group's scale below, its minimum above.
    pub scales: [u8; 16],
    /// Each half of 128 values takes 32 bytes; byte `i` of them holds values `i`, `i + 32`, `i + 64`, `i + 96`.
    pub qs: [u8; 64],
    /// What a scale of 1 is worth.
    pub d: F16,
    /// What a minimum of 1 is worth.
    pub dmin: F16,
}
block!(BlockQ2_K, Q2_K, 256, 84);

impl BlockQ2_K {
    /// The scales and the minima of the 16 groups.
    #[inline]
    pub fn scales_mins(&self) -> ([u8; 16], [u8; 16]) {
        (self.scales.map(|s| s & 15), self.scales.map(|s| s >> 4))
    }

    /// The quants in order, 0 to 3.
    #[inline]
    pub fn quants(&self) -> [u8; 256] {
        let mut q = [0; 256];
        for (half, qs) in q
            .as_chunks_mut::<128>()
            .0
            .iter_mut()
            .zip(self.qs.as_chunks::<32>().0)
        {
            for (plane, q) in half.as_chunks_mut::<32>().0.iter_mut().enumerate() {
                for (q, byte) in q.iter_mut().zip(qs) {
                    *q = byte >> (2 * plane) & 3;
                }
            }
        }
        q
    }

    /// The block's values.
    pub fn dequantize(&self, out: &mut [f32; 256]) {
        let (d, dmin) = (self.d.to_f32(), self.dmin.to_f32());
        let (scales, mins) = self.scales_mins();
        let q = self.quants();
        for (group, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let scale = d * f32::from(scales[group]);
            let min = dmin * f32::from(mins[group]);
            for (out, &q) in out.iter_mut().zip(&q[16 * group..]) {
                *out = scale * f32::from(q) - min;
            }
        }
    }
}
