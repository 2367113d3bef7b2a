//! Exercise 5.2: the norm that Qwen3 adds to queries and keys.

/// RMSNorm of each head by itself, all with the same weight, which is as long as a head.
pub fn qk_norm(heads: &mut [f32], weight: &[f32], eps: f32) {
    for head in heads.chunks_exact_mut(weight.len()) {
        let squares: f32 = head.iter().map(|x| x * x).sum();
        let scale = 1.0 / (squares / weight.len() as f32 + eps).sqrt();
        for (x, weight) in head.iter_mut().zip(weight) {
            *x *= scale * weight;
        }
    }
}
