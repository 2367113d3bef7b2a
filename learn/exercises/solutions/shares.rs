//! Exercise 5.4: routing without making the shares add up to 1.

/// The `k` best experts, the best first, with their shares of a softmax over *all* experts.
pub fn route(scores: &[f32], k: usize) -> Vec<(usize, f32)> {
    let max = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let sum: f32 = scores.iter().map(|score| (score - max).exp()).sum();
    let mut shares: Vec<(usize, f32)> = scores
        .iter()
        .map(|score| (score - max).exp() / sum)
        .enumerate()
        .collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    shares.truncate(k);
    shares
}
