//! Q5_K: Q4_K with a fifth bit for each value.

use bytemuck::{Pod, Zeroable};

use super::q4_k::{nibble_planes, scale_groups, unpack_scales_mins};
use crate::block::block;
use crate::number::F16;

/// 256 values of 5 bits.
#[derive(Copy, Clone, Debug, Pod, Zeroable)]
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct BlockQ5_K {
    /// What a scale of 1 is worth.
    pub d: F16,
    /// What a minimum of 1 is worth.
    pub dmin: F16,
    /// The packed scales and minima: see [`unpack_scales_mins`].
    pub scales: [u8; 12],
    /// The fifth bits: bit `g` of byte `i` belongs to value `i` of group `g`.
    pub qh: [u8; 32],
    /// The lower four bits. Each pair of groups takes 32 bytes: the first below, the second above.
    pub qs: [u8; 128],
}
block!(BlockQ5_K, Q5_K, 256, 176);

impl BlockQ5_K {
    /// The scales and the minima of the 8 groups.
    #[inline]
    pub fn scales_mins(&self) -> ([u8; 8], [u8; 8]) {
        unpack_scales_mins(&self.scales)
    }

    /// The quants in order, 0 to 31.
    #[inline]
    pub fn quants(&self) -> [u8; 256] {
        let mut q = nibble_planes(&self.qs);
        for (group, q) in q.as_chunks_mut::<32>().0.iter_mut().enumerate() {
            for (q, high) in q.iter_mut().zip(&self.qh) {
                *q |= (high >> group & 1) << 4;
            }
        }
        q
    }

    /// The block's values.
    pub fn dequantize(&self, out: &mut [f32; 256]) {
        scale_groups(self.d, self.dmin, &self.scales, &self.quants(), out);
    }
}
