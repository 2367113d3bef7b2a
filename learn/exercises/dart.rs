//! Exercise 6.4: a draw that does not depend on the order of its list.

/// The token that a dart in [0, 1) hits, when the probabilities lie side by side in the order of their tokens. A draw must
/// not depend on how the candidates were sorted.
pub fn token_of(probabilities: &[(u32, f64)], dart: f64) -> Option<u32> {
    // Your code here.
    probabilities
        .iter()
        .find(|pair| pair.1 > dart)
        .map(|pair| pair.0)
}
