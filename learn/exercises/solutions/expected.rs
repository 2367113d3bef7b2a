//! Exercise 6.3: what a draft is worth.

/// The mean number of tokens that a step gives, if each token of a draft is right with probability `rate` and the first
/// wrong one ends it. The token after the last right one is always gained.
pub fn expected_tokens(rate: f64, draft: u32) -> f64 {
    (0..=draft).map(|n| rate.powi(n as i32)).sum()
}
