//! Exercise 3.3: GELU, by its approximation with tanh.

/// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))).
pub fn gelu(x: f32) -> f32 {
    // Your code here.
    x
}
