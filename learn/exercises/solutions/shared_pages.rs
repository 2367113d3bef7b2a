//! Exercise 6.2: what two prompts have in common.

use crate::pages::PAGE;

/// How many pages the second of two prompts can take from the first. At least one token must be left to compute, since
/// somebody has to produce the logits.
pub fn shared_pages(first: &[u32], second: &[u32]) -> usize {
    let common = first.iter().zip(second).take_while(|(a, b)| a == b).count();
    common.min(second.len().saturating_sub(1)) / PAGE
}
