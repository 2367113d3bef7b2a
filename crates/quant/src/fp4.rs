//! The 4-bit float formats: E2M1 values with a scale for each 32 (OCP microscaling) or 16 (NVIDIA).

use bytemuck::{Pod, Zeroable};

use crate::block::block;
use crate::legacy::nibbles;
use crate::number::{E8M0, UE4M3};

/// E2M1's values doubled, by code. The scales are halved to make up for it.
pub const E2M1_DOUBLED: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// 32 values with a power of two.
#[derive(Copy, Clone, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockMXFP4 {
    /// The scale.
    pub e: E8M0,
    /// Two codes a byte: value `i` below and `i + 16` above.
    pub qs: [u8; 16],
}
block!(BlockMXFP4, MXFP4, 32, 17);

/// 64 values in 4 groups, each with a scale.
#[derive(Copy, Clone, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct BlockNVFP4 {
    /// The scales of the groups.
    pub d: [UE4M3; 4],
    /// Two codes a byte, 8 bytes a group: value `i` below and `i + 8` above.
    pub qs: [[u8; 8]; 4],
}
block!(BlockNVFP4, NVFP4, 64, 36);

impl BlockMXFP4 {
    /// The doubled values before scaling.
    #[inline]
    pub fn quants(&self) -> [i8; 32] {
        nibbles(&self.qs).map(|code| E2M1_DOUBLED[usize::from(code)])
    }

    /// The block's values.
    pub fn dequantize(&self, out: &mut [f32; 32]) {
        let d = self.e.to_f32_half();
        for (out, q) in out.iter_mut().zip(self.quants()) {
            *out = d * f32::from(q);
        }
    }
}

impl BlockNVFP4 {
    /// The doubled values of a group before scaling.
    #[inline]
    pub fn quants(qs: &[u8; 8]) -> [i8; 16] {
        core::array::from_fn(|i| {
            let code = if i < 8 { qs[i] & 15 } else { qs[i - 8] >> 4 };
            E2M1_DOUBLED[usize::from(code)]
        })
    }

    /// The block's values.
    pub fn dequantize(&self, out: &mut [f32; 64]) {
        let groups = out.as_chunks_mut::<16>().0.iter_mut();
        for ((out, d), qs) in groups.zip(self.d).zip(&self.qs) {
            let d = d.to_f32_half();
            for (out, q) in out.iter_mut().zip(Self::quants(qs)) {
                *out = d * f32::from(q);
            }
        }
    }
}
