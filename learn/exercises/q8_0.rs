//! Exercise 2.2: Q8_0, the 8-bit format.

use crate::half::f32_to_f16;

/// 32 numbers in 34 bytes: a half float, then signed bytes. The largest magnitude becomes 127; what lies halfway is
/// rounded away from zero, and the quants are made with the scale before it is rounded to a half float.
pub fn quantize_q8_0(x: &[f32; 32]) -> [u8; 34] {
    // Your code here.
    let mut block = [0; 34];
    block[..2].copy_from_slice(&f32_to_f16(x[0]).to_le_bytes());
    block
}
