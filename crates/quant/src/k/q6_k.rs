//! Q6_K: 16 groups of 16; value = d · scale · q, with 8-bit scales and q from −32 to 31.

use bytemuck::{Pod, Zeroable};

use crate::block::block;
use crate::number::F16;

/// 256 values of 6 bits.
#[derive(Copy, Clone, Debug, Pod, Zeroable)]
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct BlockQ6_K {
    /// The lower four bits: each half of 128 values takes 64 bytes; byte `i` of them holds value `i` below and
    /// `i + 64` above.
    pub ql: [u8; 128],
    /// The upper two bits: each half takes 32 bytes; byte `i` of them holds values `i`, `i + 32`, `i + 64`, `i + 96`.
    pub qh: [u8; 64],
    /// The scales of the groups.
    pub scales: [i8; 16],
    /// What a scale of 1 is worth.
    pub d: F16,
}
block!(BlockQ6_K, Q6_K, 256, 210);

impl BlockQ6_K {
    /// The quants in order, −32 to 31.
    #[inline]
    pub fn quants(&self) -> [i8; 256] {
        let mut q = [0; 256];
        for (plane, q) in q.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            // Planes 0–3 are the first half of the block: the lower nibbles of 64 bytes, then the upper ones.
            let (half, place) = (plane / 4, plane % 4);
            let ql = &self.ql.as_chunks::<32>().0[2 * half + place % 2];
            let qh = &self.qh.as_chunks::<32>().0[half];
            for ((q, low), high) in q.iter_mut().zip(ql).zip(qh) {
                let low = low >> (4 * (place / 2)) & 15;
                let high = high >> (2 * place) & 3;
                *q = (low | high << 4) as i8 - 32;
            }
        }
        q
    }

    /// The block's values.
    pub fn dequantize(&self, out: &mut [f32; 256]) {
        let d = self.d.to_f32();
        let q = self.quants();
        for (group, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let scale = d * f32::from(self.scales[group]);
            for (out, &q) in out.iter_mut().zip(&q[16 * group..]) {
                *out = scale * f32::from(q);
            }
        }
    }
}
