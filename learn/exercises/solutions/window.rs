//! Exercise 4.1: attention with a sliding window.

/// What one head gathers for a query, if it may look at the last `window` positions only. `keys` and `values` have a row
/// for each position, as long as the query.
pub fn attend(q: &[f32], keys: &[Vec<f32>], values: &[Vec<f32>], window: usize) -> Vec<f32> {
    let first = keys.len().saturating_sub(window);
    let scale = 1.0 / (q.len() as f32).sqrt();
    let scores: Vec<f32> = keys[first..]
        .iter()
        .map(|key| key.iter().zip(q).map(|(k, q)| k * q).sum::<f32>() * scale)
        .collect();
    let max = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = scores.iter().map(|score| (score - max).exp()).sum();
    let mut out = vec![0.0; q.len()];
    for (score, value) in scores.iter().zip(&values[first..]) {
        for (out, value) in out.iter_mut().zip(value) {
            *out += (score - max).exp() / sum * value;
        }
    }
    out
}
