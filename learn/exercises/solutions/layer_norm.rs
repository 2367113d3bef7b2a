//! Exercise 3.1: LayerNorm, which RMSNorm replaced.

/// (x - mean) / sqrt(variance + eps) * weight + bias.
pub fn layer_norm(x: &[f32], weight: &[f32], bias: &[f32], eps: f32) -> Vec<f32> {
    let n = x.len() as f32;
    let mean = x.iter().sum::<f32>() / n;
    let variance = x.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / n;
    let scale = 1.0 / (variance + eps).sqrt();
    let gains = weight.iter().zip(bias);
    x.iter()
        .zip(gains)
        .map(|(x, (weight, bias))| (x - mean) * scale * weight + bias)
        .collect()
}
