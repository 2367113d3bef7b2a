//! A mixture of experts: several feed-forward networks, of which each token uses a few.

// ANCHOR: route
/// The experts that a token goes to, and how much each of them counts: the `k` best of a softmax, made to add up to 1.
pub fn route(scores: &[f32], k: usize) -> Vec<(usize, f32)> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]).then(a.cmp(b)));
    order.truncate(k);
    let Some(best) = order.first().map(|best| scores[*best]) else {
        return Vec::new();
    };
    // What the others would have had cancels out of the shares.
    let weights: Vec<f32> = order.iter().map(|e| (scores[*e] - best).exp()).collect();
    let sum: f32 = weights.iter().sum();
    order
        .into_iter()
        .zip(weights)
        .map(|(expert, weight)| (expert, weight / sum))
        .collect()
}
// ANCHOR_END: route

// ANCHOR: mixture
/// What the chosen experts say about a vector, weighed. The others are not computed.
pub fn mixture(
    x: &[f32],
    scores: &[f32],
    k: usize,
    expert: impl Fn(usize, &[f32]) -> Vec<f32>,
) -> Vec<f32> {
    let mut out = vec![0.0; x.len()];
    for (e, weight) in route(scores, k) {
        for (out, y) in out.iter_mut().zip(expert(e, x)) {
            *out += weight * y;
        }
    }
    out
}
// ANCHOR_END: mixture
