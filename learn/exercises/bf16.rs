//! Exercise 1.1: bfloat16, the upper half of an f32.

/// The value of a bfloat16.
pub fn bf16_to_f32(bits: u16) -> f32 {
    // Your code here.
    f32::from(bits)
}
