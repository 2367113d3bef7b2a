//! Exercise 5.4: routing without making the shares add up to 1.

/// The `k` best experts, the best first, with their shares of a softmax over *all* experts.
pub fn route(scores: &[f32], k: usize) -> Vec<(usize, f32)> {
    // Your code here.
    scores.iter().copied().enumerate().take(k).collect()
}
