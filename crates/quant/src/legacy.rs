//! The first formats: 32 values with one or two half-float scales of their own.
//!
//! 4-bit values lie as ggml packs them: byte `i` holds value `i` below and value `i + 16` above. The fifth bit of value
//! `i` is bit `i` of `qh`.

use bytemuck::{Pod, Zeroable};

use crate::block::block;
use crate::number::{F16, LeU32};

/// Value = d · (q − 8).
#[derive(Copy, Clone, Debug, Pod, Zeroable)]
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct BlockQ4_0 {
    /// The scale.
    pub d: F16,
    /// Two values a byte.
    pub qs: [u8; 16],
}
block!(BlockQ4_0, Q4_0, 32, 18);

/// Value = d · q + m.
#[derive(Copy, Clone, Debug, Pod, Zeroable)]
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct BlockQ4_1 {
    /// The scale.
    pub d: F16,
    /// The minimum.
    pub m: F16,
    /// Two values a byte.
    pub qs: [u8; 16],
}
block!(BlockQ4_1, Q4_1, 32, 20);

/// Value = d · (q − 16).
#[derive(Copy, Clone, Debug, Pod, Zeroable)]
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct BlockQ5_0 {
    /// The scale.
    pub d: F16,
    /// The fifth bits.
    pub qh: LeU32,
    /// The lower four bits, two values a byte.
    pub qs: [u8; 16],
}
block!(BlockQ5_0, Q5_0, 32, 22);

/// Value = d · q + m.
#[derive(Copy, Clone, Debug, Pod, Zeroable)]
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct BlockQ5_1 {
    /// The scale.
    pub d: F16,
    /// The minimum.
    pub m: F16,
    /// The fifth bits.
    pub qh: LeU32,
    /// The lower four bits, two values a byte.
    pub qs: [u8; 16],
}
block!(BlockQ5_1, Q5_1, 32, 24);

/// Value = d · q.
#[derive(Copy, Clone, Debug, Pod, Zeroable)]
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct BlockQ8_0 {
    /// The scale.
    pub d: F16,
    /// The values.
    pub qs: [i8; 32],
}
block!(BlockQ8_0, Q8_0, 32, 34);

/// Value = d · q, with the sum that products with `m`-types need.
#[derive(Copy, Clone, Debug, Pod, Zeroable)]
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct BlockQ8_1 {
    /// The scale.
    pub d: F16,
    /// d times the sum of `qs`.
    pub s: F16,
    /// The values.
    pub qs: [i8; 32],
}
block!(BlockQ8_1, Q8_1, 32, 36);

/// Splits packed nibbles into the 32 values in order.
#[inline]
pub(crate) fn nibbles(qs: &[u8; 16]) -> [u8; 32] {
    core::array::from_fn(|i| if i < 16 { qs[i] & 15 } else { qs[i - 16] >> 4 })
}

/// Packs the lower four bits of 32 values.
#[inline]
pub(crate) fn pack_nibbles(q: &[u8; 32]) -> [u8; 16] {
    core::array::from_fn(|i| q[i] & 15 | q[i + 16] << 4)
}

/// Nibbles with their fifth bits.
#[inline]
fn five_bits(qs: &[u8; 16], qh: LeU32) -> [u8; 32] {
    let low = nibbles(qs);
    let high = qh.get();
    core::array::from_fn(|i| low[i] | ((high >> i) as u8 & 1) << 4)
}

/// Gathers the fifth bits of 32 values.
#[inline]
pub(crate) fn pack_fifth_bits(q: &[u8; 32]) -> LeU32 {
    let bits = (0..32).fold(0, |bits, i| bits | ((q[i] >> 4 & 1) as u32) << i);
    LeU32::new(bits)
}

impl BlockQ4_0 {
    /// The quants as signed integers, −8 to 7.
    #[inline]
    pub fn quants(&self) -> [i8; 32] {
        nibbles(&self.qs).map(|q| q as i8 - 8)
    }

    /// The block's values.
    #[inline]
    pub fn dequantize(&self, out: &mut [f32; 32]) {
        scale_into(self.d, &self.quants(), out);
    }
}

impl BlockQ4_1 {
    /// The quants, 0 to 15.
    #[inline]
    pub fn quants(&self) -> [u8; 32] {
        nibbles(&self.qs)
    }

    /// The block's values.
    #[inline]
    pub fn dequantize(&self, out: &mut [f32; 32]) {
        scale_and_shift_into(self.d, self.m, &self.quants(), out);
    }
}

impl BlockQ5_0 {
    /// The quants as signed integers, −16 to 15.
    #[inline]
    pub fn quants(&self) -> [i8; 32] {
        five_bits(&self.qs, self.qh).map(|q| q as i8 - 16)
    }

    /// The block's values.
    #[inline]
    pub fn dequantize(&self, out: &mut [f32; 32]) {
        scale_into(self.d, &self.quants(), out);
    }
}

impl BlockQ5_1 {
    /// The quants, 0 to 31.
    #[inline]
    pub fn quants(&self) -> [u8; 32] {
        five_bits(&self.qs, self.qh)
    }

    /// The block's values.
    #[inline]
    pub fn dequantize(&self, out: &mut [f32; 32]) {
        scale_and_shift_into(self.d, self.m, &self.quants(), out);
    }
}

impl BlockQ8_0 {
    /// The block's values.
    #[inline]
    pub fn dequantize(&self, out: &mut [f32; 32]) {
        scale_into(self.d, &self.qs, out);
    }
}

impl BlockQ8_1 {
    /// The block's values.
    #[inline]
    pub fn dequantize(&self, out: &mut [f32; 32]) {
        scale_into(self.d, &self.qs, out);
    }
}

#[inline]
fn scale_into(d: F16, q: &[i8; 32], out: &mut [f32; 32]) {
    let d = d.to_f32();
    for (out, &q) in out.iter_mut().zip(q) {
        *out = d * f32::from(q);
    }
}

#[inline]
fn scale_and_shift_into(d: F16, m: F16, q: &[u8; 32], out: &mut [f32; 32]) {
    let (d, m) = (d.to_f32(), m.to_f32());
    for (out, &q) in out.iter_mut().zip(q) {
        *out = d * f32::from(q) + m;
    }
}
