//! Exercise 4.2: how surprised a model is.

/// The negative logarithm of the probability that the logits give a token. No logit may overflow it.
pub fn surprise(logits: &[f32], token: u32) -> f32 {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = logits.iter().map(|logit| (logit - max).exp()).sum();
    max + sum.ln() - logits[token as usize]
}
