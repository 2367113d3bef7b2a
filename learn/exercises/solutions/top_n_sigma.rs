//! Exercise 3.4: top-n-sigma.

use crate::sampling::{Candidate, share};

/// Keeps the candidates whose logit is at most n standard deviations under the largest. The list is sorted, the
/// largest first, and none of its logits is infinite.
pub fn top_n_sigma(list: &mut Vec<Candidate>, n: f64) {
    let count = list.len() as f64;
    let mean = list.iter().map(|c| f64::from(c.logit)).sum::<f64>() / count;
    let squares = list.iter().map(|c| (f64::from(c.logit) - mean).powi(2));
    let deviation = (squares.sum::<f64>() / count).sqrt();
    let floor = f64::from(list[0].logit) - n * deviation;
    list.retain(|c| f64::from(c.logit) >= floor);
    share(list);
}
