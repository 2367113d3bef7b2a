//! Exercise 3.1: LayerNorm, which RMSNorm replaced.

/// (x - mean) / sqrt(variance + eps) * weight + bias.
pub fn layer_norm(x: &[f32], weight: &[f32], bias: &[f32], eps: f32) -> Vec<f32> {
    // Your code here.
    x.iter().map(|x| x * weight[0] + bias[0] + eps).collect()
}
