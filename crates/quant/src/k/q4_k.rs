//! Q4_K: 8 groups of 32; value = d · scale · q − dmin · min, with 6-bit scales and minima.

use bytemuck::{Pod, Zeroable};

use crate::block::block;
use crate::number::F16;

/// 256 values of 4 bits.
#[derive(Copy, Clone, Debug, Pod, Zeroable)]
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct BlockQ4_K {
    /// What a scale of 1 is worth.
    pub d: F16,
    /// What a minimum of 1 is worth.
    pub dmin: F16,
    /// The packed scales and minima: see [`unpack_scales_mins`].
    pub scales: [u8; 12],
    /// Each pair of groups takes 32 bytes: the first below, the second above.
    pub qs: [u8; 128],
}
block!(BlockQ4_K, Q4_K, 256, 144);

/// The 6-bit scales and minima of Q4_K and Q5_K. Bytes 0–3 and 4–7 hold those of groups 0–3 in their lower six bits;
/// groups 4–7 have their lower four bits in bytes 8–11 (scale below, minimum above) and their upper two on top of
/// bytes 0–7.
#[inline]
pub const fn unpack_scales_mins(packed: &[u8; 12]) -> ([u8; 8], [u8; 8]) {
    let (mut scales, mut mins) = ([0; 8], [0; 8]);
    let mut i = 0;
    while i < 4 {
        scales[i] = packed[i] & 63;
        mins[i] = packed[i + 4] & 63;
        scales[i + 4] = packed[i + 8] & 15 | packed[i] >> 6 << 4;
        mins[i + 4] = packed[i + 8] >> 4 | packed[i + 4] >> 6 << 4;
        i += 1;
    }
    (scales, mins)
}

/// Packs 6-bit scales and minima; bits above the sixth are lost.
#[inline]
pub const fn pack_scales_mins(scales: &[u8; 8], mins: &[u8; 8]) -> [u8; 12] {
    let mut packed = [0; 12];
    let mut i = 0;
    while i < 4 {
        packed[i] = scales[i] & 63 | scales[i + 4] >> 4 << 6;
        packed[i + 4] = mins[i] & 63 | mins[i + 4] >> 4 << 6;
        packed[i + 8] = scales[i + 4] & 15 | mins[i + 4] << 4;
        i += 1;
    }
    packed
}

/// Splits the nibbles of Q4_K and Q5_K into the values in order.
#[inline]
pub(super) fn nibble_planes(qs: &[u8; 128]) -> [u8; 256] {
    let mut q = [0; 256];
    for (pair, qs) in q
        .as_chunks_mut::<64>()
        .0
        .iter_mut()
        .zip(qs.as_chunks::<32>().0)
    {
        for (i, byte) in qs.iter().enumerate() {
            pair[i] = byte & 15;
            pair[i + 32] = byte >> 4;
        }
    }
    q
}

/// Packs the lower four bits of the values.
#[inline]
pub(crate) fn pack_nibble_planes(q: &[[u8; 32]; 8]) -> [u8; 128] {
    core::array::from_fn(|i| {
        let pair = 2 * (i / 32);
        q[pair][i % 32] & 15 | q[pair + 1][i % 32] << 4
    })
}

/// Scales quants group by group, for Q4_K and Q5_K.
#[inline]
pub(super) fn scale_groups(
    d: F16,
    dmin: F16,
    packed: &[u8; 12],
    q: &[u8; 256],
    out: &mut [f32; 256],
) {
    let (d, dmin) = (d.to_f32(), dmin.to_f32());
    let (scales, mins) = unpack_scales_mins(packed);
    for (group, out) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let scale = d * f32::from(scales[group]);
        let min = dmin * f32::from(mins[group]);
        for (out, &q) in out.iter_mut().zip(&q[32 * group..]) {
            *out = scale * f32::from(q) - min;
        }
    }
}

impl BlockQ4_K {
    /// The scales and the minima of the 8 groups.
    #[inline]
    pub fn scales_mins(&self) -> ([u8; 8], [u8; 8]) {
        unpack_scales_mins(&self.scales)
    }

    /// The quants in order, 0 to 15.
    #[inline]
    pub fn quants(&self) -> [u8; 256] {
        nibble_planes(&self.qs)
    }

    /// The block's values.
    pub fn dequantize(&self, out: &mut [f32; 256]) {
        scale_groups(self.d, self.dmin, &self.scales, &self.quants(), out);
    }
}

#[cfg(test)]
mod tests {
    use super::{pack_scales_mins, unpack_scales_mins};

    #[test]
    fn scales_pack_and_unpack() {
        for seed in 0..64u8 {
            let scales =
                core::array::from_fn(|i| seed.wrapping_mul(7).wrapping_add(i as u8 * 11) & 63);
            let mins =
                core::array::from_fn(|i| seed.wrapping_mul(13).wrapping_add(i as u8 * 5) & 63);
            assert_eq!(
                unpack_scales_mins(&pack_scales_mins(&scales, &mins)),
                (scales, mins)
            );
        }
    }
}
