//! Exercise 2.2: Q8_0, the 8-bit format.

use crate::half::f32_to_f16;

/// 32 numbers in 34 bytes: a half float, then signed bytes. The largest magnitude becomes 127; what lies halfway is
/// rounded away from zero, and the quants are made with the scale before it is rounded to a half float.
pub fn quantize_q8_0(x: &[f32; 32]) -> [u8; 34] {
    let largest = x.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
    let d = largest / 127.0;
    let inverse = if d == 0.0 { 0.0 } else { 1.0 / d };
    let mut block = [0; 34];
    block[..2].copy_from_slice(&f32_to_f16(d).to_le_bytes());
    for (byte, x) in block[2..].iter_mut().zip(x) {
        *byte = (x * inverse).round() as i8 as u8;
    }
    block
}
