//! Exercise 6.4: a draw that does not depend on the order of its list.

/// The token that a dart in [0, 1) hits, when the probabilities lie side by side in the order of their tokens. A draw must
/// not depend on how the candidates were sorted.
pub fn token_of(probabilities: &[(u32, f64)], dart: f64) -> Option<u32> {
    let mut sorted = probabilities.to_vec();
    sorted.sort_by_key(|pair| pair.0);
    let mut total = 0.0;
    let hit = sorted.iter().find(|pair| {
        total += pair.1;
        dart < total
    });
    hit.or(sorted.last()).map(|pair| pair.0)
}
