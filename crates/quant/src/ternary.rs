//! The ternary formats: 256 values of −d, 0 or d.

use bytemuck::{Pod, Zeroable};

use crate::block::block;
use crate::number::F16;

/// Five values a byte. The digits of a byte are read from the top: it holds the number 0.abcde of base 3 as a fraction
/// of 256, rounded up, so that each multiplication by 3 carries the next digit out.
#[derive(Copy, Clone, Debug, Pod, Zeroable)]
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct BlockTQ1_0 {
    /// Values 0–159 in 32 bytes (digit `n` of byte `i` is value `32 n + i`), then values 160–239 in 16.
    pub qs: [u8; 48],
    /// Values 240–255, four a byte.
    pub qh: [u8; 4],
    /// The scale.
    pub d: F16,
}
block!(BlockTQ1_0, TQ1_0, 256, 54);

/// Four values a byte, each as value + 1.
#[derive(Copy, Clone, Debug, Pod, Zeroable)]
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct BlockTQ2_0 {
    /// Each half of 128 values takes 32 bytes; byte `i` of them holds values `i`, `i + 32`, `i + 64`, `i + 96`.
    pub qs: [u8; 64],
    /// The scale.
    pub d: F16,
}
block!(BlockTQ2_0, TQ2_0, 256, 66);

/// 3 to the power of the index, modulo 256.
const POWERS: [u8; 5] = [1, 3, 9, 27, 81];

/// Digit `n` of a byte, counted from the top, less one.
#[inline]
fn trit(byte: u8, n: usize) -> i8 {
    let rest = byte.wrapping_mul(POWERS[n]);
    ((u16::from(rest) * 3) >> 8) as i8 - 1
}

/// Digits 0 to 2 as one byte, the first on top; a missing fifth counts as 0.
#[inline]
fn pack_trits(digits: [u8; 5]) -> u8 {
    let number = digits.iter().fold(0, |n, &digit| 3 * n + u16::from(digit));
    (number * 256).div_ceil(243) as u8
}

impl BlockTQ1_0 {
    /// The values divided by the scale, in order.
    pub fn trits(&self) -> [i8; 256] {
        let mut q = [0; 256];
        let (first, rest) = q.split_at_mut(160);
        let (second, last) = rest.split_at_mut(80);
        for (i, q) in first.iter_mut().enumerate() {
            *q = trit(self.qs[i % 32], i / 32);
        }
        for (i, q) in second.iter_mut().enumerate() {
            *q = trit(self.qs[32 + i % 16], i / 16);
        }
        for (i, q) in last.iter_mut().enumerate() {
            *q = trit(self.qh[i % 4], i / 4);
        }
        q
    }

    /// The block with these ternary values.
    pub(crate) fn from_trits(d: F16, q: &[i8; 256]) -> Self {
        let digit = |i: usize| (q[i] + 1) as u8;
        Self {
            qs: core::array::from_fn(|i| {
                let (start, stride) = if i < 32 { (i, 32) } else { (128 + i, 16) };
                pack_trits(core::array::from_fn(|n| digit(start + n * stride)))
            }),
            qh: core::array::from_fn(|i| {
                pack_trits(core::array::from_fn(|n| {
                    if n < 4 { digit(240 + i + 4 * n) } else { 0 }
                }))
            }),
            d,
        }
    }

    /// The block's values.
    pub fn dequantize(&self, out: &mut [f32; 256]) {
        scale_into(self.d, &self.trits(), out);
    }
}

impl BlockTQ2_0 {
    /// The values divided by the scale, in order. The fourth code, which no quantizer writes, reads as 2.
    pub fn trits(&self) -> [i8; 256] {
        core::array::from_fn(|i| {
            let byte = self.qs[32 * (i / 128) + i % 32];
            (byte >> (2 * (i % 128 / 32)) & 3) as i8 - 1
        })
    }

    /// The block with these ternary values.
    pub(crate) fn from_trits(d: F16, q: &[i8; 256]) -> Self {
        Self {
            qs: core::array::from_fn(|i| {
                let start = 128 * (i / 32) + i % 32;
                (0..4).fold(0, |byte, n| {
                    byte | ((q[start + 32 * n] + 1) as u8) << (2 * n)
                })
            }),
            d,
        }
    }

    /// The block's values.
    pub fn dequantize(&self, out: &mut [f32; 256]) {
        scale_into(self.d, &self.trits(), out);
    }
}

#[inline]
fn scale_into(d: F16, q: &[i8; 256], out: &mut [f32; 256]) {
    let d = d.to_f32();
    for (out, &q) in out.iter_mut().zip(q) {
        *out = d * f32::from(q);
    }
}
