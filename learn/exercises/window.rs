//! Exercise 4.1: attention with a sliding window.

/// What one head gathers for a query, if it may look at the last `window` positions only. `keys` and `values` have a row
/// for each position, as long as the query.
pub fn attend(q: &[f32], keys: &[Vec<f32>], values: &[Vec<f32>], window: usize) -> Vec<f32> {
    // Your code here.
    let seen = keys.len().min(window);
    let mut out = q.to_vec();
    out[0] += values[seen - 1][0];
    out
}
