//! Q8_K: the activation format that ggml multiplies with K blocks; value = d · q.

use bytemuck::{Pod, Zeroable};

use crate::block::block;
use crate::number::{LeF32, LeI16};

/// 256 values of 8 bits.
#[derive(Copy, Clone, Debug, Pod, Zeroable)]
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct BlockQ8_K {
    /// The scale.
    pub d: LeF32,
    /// The values.
    pub qs: [i8; 256],
    /// The sums of each 16 values.
    pub bsums: [LeI16; 16],
}
block!(BlockQ8_K, Q8_K, 256, 292);

impl BlockQ8_K {
    /// The block's values.
    pub fn dequantize(&self, out: &mut [f32; 256]) {
        let d = self.d.get();
        for (out, &q) in out.iter_mut().zip(&self.qs) {
            *out = d * f32::from(q);
        }
    }
}
