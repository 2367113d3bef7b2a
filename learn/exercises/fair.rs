//! Exercise 6.1: a fair step.

/// Shares a budget among clients that want so many tokens each. Nobody gets more than it wants, nothing is left over
/// while somebody wants more, and no client gets two tokens more than another that would have liked them.
pub fn fair_shares(budget: usize, wants: &[usize]) -> Vec<usize> {
    // Your code here.
    wants.iter().map(|want| *want.min(&budget)).collect()
}
