//! Q3_K: 16 groups of 16; value = d · (scale − 32) · q, with 6-bit scales and q from −4 to 3.

use bytemuck::{Pod, Zeroable};

use crate::block::block;
use crate::number::F16;

/// 256 values of 3 bits.
#[derive(Copy, Clone, Debug, Pod, Zeroable)]
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct BlockQ3_K {
    /// The third bits: bit `p` of byte `i` belongs to value `32 p + i`. Where it is clear, 4 is taken away.
    pub hmask: [u8; 32],
    /// The lower two bits: each half of 128 values takes 32 bytes; byte `i` of them holds values `i`, `i + 32`,
    /// `i + 64`, `i + 96`.
    pub qs: [u8; 64],
    /// 6-bit scales: the lower four bits of scales 0–7 and 8–15 in the nibbles of the first 8 bytes, the upper two in
    /// the last 4 bytes.
    pub scales: [u8; 12],
    /// What a scale of 1 is worth.
    pub d: F16,
}
block!(BlockQ3_K, Q3_K, 256, 110);

impl BlockQ3_K {
    /// The signed scales of the 16 groups, −32 to 31.
    #[inline]
    pub fn group_scales(&self) -> [i8; 16] {
        core::array::from_fn(|i| {
            let low = self.scales[i % 8] >> (4 * (i / 8)) & 15;
            let high = self.scales[8 + i % 4] >> (2 * (i / 4)) & 3;
            (low | high << 4) as i8 - 32
        })
    }

    /// Packs signed scales, −32 to 31.
    pub(crate) fn pack_scales(scales: &[i8; 16]) -> [u8; 12] {
        let mut packed = [0; 12];
        for (i, &scale) in scales.iter().enumerate() {
            let scale = (scale + 32) as u8;
            packed[i % 8] |= (scale & 15) << (4 * (i / 8));
            packed[8 + i % 4] |= scale >> 4 << (2 * (i / 4));
        }
        packed
    }

    /// The quants in order, −4 to 3.
    #[inline]
    pub fn quants(&self) -> [i8; 256] {
        let mut q = [0; 256];
        for (plane, q) in q.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            let qs = &self.qs.as_chunks::<32>().0[plane / 4];
            for ((q, low), high) in q.iter_mut().zip(qs).zip(&self.hmask) {
                let low = low >> (2 * (plane % 4)) & 3;
                let high = high >> plane & 1;
                *q = (low | high << 2) as i8 - 4;
            }
        }
        q
    }

    /// The block's values.
    pub fn dequantize(&self, out: &mut [f32; 256]) {
        let d = self.d.to_f32();
        let scales = self.group_scales();
        let q = self.quants();
        for (group, out) in out.as_chunks_mut::<16>().0.iter_mut().enumerate() {
            let scale = d * f32::from(scales[group]);
            for (out, &q) in out.iter_mut().zip(&q[16 * group..]) {
                *out = scale * f32::from(q);
            }
        }
    }
}
