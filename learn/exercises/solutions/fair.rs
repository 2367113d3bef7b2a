//! Exercise 6.1: a fair step.

/// Shares a budget among clients that want so many tokens each. Nobody gets more than it wants, nothing is left over
/// while somebody wants more, and no client gets two tokens more than another that would have liked them.
pub fn fair_shares(budget: usize, wants: &[usize]) -> Vec<usize> {
    let mut shares = vec![0; wants.len()];
    let mut left = budget;
    while left > 0 {
        let before = left;
        for (share, want) in shares.iter_mut().zip(wants) {
            if *share < *want && left > 0 {
                *share += 1;
                left -= 1;
            }
        }
        if left == before {
            break;
        }
    }
    shares
}
