//! Exercise 3.3: GELU, by its approximation with tanh.

/// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))).
pub fn gelu(x: f32) -> f32 {
    let inner = (2.0 / std::f32::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
    x / 2.0 * (1.0 + inner.tanh())
}
