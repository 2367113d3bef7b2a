//! The IQ formats: groups of values are points of a grid, with signs and scales beside them, or lie on a curve.

mod grids;
mod iq1;
mod iq2;
mod iq3;
mod iq4;

pub use iq1::{BlockIQ1_M, BlockIQ1_S};
pub use iq2::{BlockIQ2_S, BlockIQ2_XS, BlockIQ2_XXS, GroupIQ2_XXS};
pub use iq3::{BlockIQ3_S, BlockIQ3_XXS};
pub(crate) use iq4::nearest_iq4;
pub use iq4::{BlockIQ4_NL, BlockIQ4_XS, IQ4_VALUES};

/// The signs of 8 values from 7 bits: the eighth makes the number of minus signs even.
#[inline]
fn even_signs(bits: u32) -> u8 {
    let bits = bits as u8 & 127;
    bits | (bits.count_ones() as u8 & 1) << 7
}

/// 1 or −1 for bit `i`.
#[inline]
fn sign(signs: u8, i: usize) -> f32 {
    if signs >> i & 1 == 0 { 1.0 } else { -1.0 }
}

/// Writes one 8-value point of a two-bit grid: `scale` times the grid's magnitudes with their signs.
#[inline]
fn put_2bit(scale: f32, point: u16, signs: u8, out: &mut [f32; 8]) {
    const MAGNITUDES: [f32; 4] = [8.0, 25.0, 43.0, 0.0];
    for (i, out) in out.iter_mut().enumerate() {
        let magnitude = MAGNITUDES[usize::from(point >> (2 * i) & 3)];
        *out = scale * magnitude * sign(signs, i);
    }
}

/// Writes two 4-value points of a three-bit grid with their signs.
#[inline]
fn put_3bit(scale: f32, magnitudes: &[f32; 8], points: [u16; 2], signs: u8, out: &mut [f32; 8]) {
    let point = u32::from(points[0]) | u32::from(points[1]) << 12;
    for (i, out) in out.iter_mut().enumerate() {
        let magnitude = magnitudes[(point >> (3 * i) & 7) as usize];
        *out = scale * magnitude * sign(signs, i);
    }
}
