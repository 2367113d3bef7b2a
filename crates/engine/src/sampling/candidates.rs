//! The tokens still in the running, and the arithmetic that every truncating sampler shares.
//!
//! The list is always in an order that follows from the logits alone: that of the tokens, or of their rank (the larger
//! logit first, then the lower token), or the order in which a sampler chose them. Sums therefore have fixed bits.
//! Where only the best few are wanted, only they are sorted.

use alloc::vec::Vec;
use core::cmp::Ordering;

/// A token that may be drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Candidate {
    /// Its id.
    pub token: u32,
    /// Its logit after penalties and temperature.
    pub logit: f32,
    /// Its share among the candidates.
    pub probability: f32,
}

/// The larger logit first, then the lower token. Logits are never NaN here.
pub(crate) fn by_rank(a: &Candidate, b: &Candidate) -> Ordering {
    let logits = b.logit.partial_cmp(&a.logit).unwrap_or(Ordering::Equal);
    logits.then(a.token.cmp(&b.token))
}

/// Fills the list with the tokens whose score is at least the floor, in their order. Banned tokens never qualify.
pub(crate) fn gather(scores: &[f32], floor: f32, list: &mut Vec<Candidate>) {
    list.clear();
    for (token, &logit) in scores.iter().enumerate() {
        if logit >= floor && logit > f32::NEG_INFINITY {
            list.push(candidate(token, logit));
        }
    }
}

/// Fills the list with the best k of them, by rank.
///
/// Works in a list of a few k, from which the worse part is thrown out whenever it is full. Few scores pass the floor
/// that this sets, so most cost one comparison.
pub(crate) fn gather_top(scores: &[f32], mut floor: f32, k: usize, list: &mut Vec<Candidate>) {
    const LEAST_BATCH: usize = 256;
    list.clear();
    let full = k.saturating_add(k.max(LEAST_BATCH));
    for (token, &logit) in scores.iter().enumerate() {
        if logit >= floor && logit > f32::NEG_INFINITY {
            list.push(candidate(token, logit));
            if list.len() == full {
                list.select_nth_unstable_by(k - 1, by_rank);
                list.truncate(k);
                floor = list[k - 1].logit;
            }
        }
    }
    sort_best(list, 0, k, by_rank);
    list.truncate(k);
}

fn candidate(token: usize, logit: f32) -> Candidate {
    Candidate {
        token: token as u32,
        logit,
        probability: 0.0,
    }
}

/// Extends a sorted beginning of `done` entries to `want` entries.
fn sort_best(
    list: &mut [Candidate],
    done: usize,
    want: usize,
    order: impl Fn(&Candidate, &Candidate) -> Ordering + Copy,
) {
    let rest = &mut list[done..];
    let want = want - done;
    if want < rest.len() {
        rest.select_nth_unstable_by(want, order);
        rest[..want].sort_unstable_by(order);
    } else {
        rest.sort_unstable_by(order);
    }
}

/// Keeps the first entries by `order` up to the one at which `enough(their probability, their number)` holds.
pub(crate) fn keep_until(
    list: &mut Vec<Candidate>,
    order: impl Fn(&Candidate, &Candidate) -> Ordering + Copy,
    enough: impl Fn(f64, usize) -> bool,
) {
    const FIRST_BATCH: usize = 128;
    let mut total = 0.0;
    let (mut done, mut want) = (0, FIRST_BATCH);
    while done < list.len() {
        sort_best(list, done, want, order);
        while done < want.min(list.len()) {
            total += f64::from(list[done].probability);
            done += 1;
            if enough(total, done) {
                list.truncate(done);
                return;
            }
        }
        want *= 4;
    }
}

/// Keeps the n best by rank.
pub(crate) fn keep_best(list: &mut Vec<Candidate>, n: usize) {
    sort_best(list, 0, n, by_rank);
    list.truncate(n);
}

/// The largest logit in a list that is not empty.
pub(crate) fn largest(list: &[Candidate]) -> f32 {
    list.iter().fold(
        f32::NEG_INFINITY,
        |max, c| {
            if c.logit > max { c.logit } else { max }
        },
    )
}

/// The normalizer of a softmax: the largest logit, and the logarithm of the sum of the exponentials relative to it.
/// They are not added, because a huge logit would swallow the sum.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Normalizer {
    pub(crate) max: f64,
    pub(crate) log_sum: f64,
}

impl Normalizer {
    /// Minus the logarithm of the probability, in nats.
    pub(crate) fn surprise(self, logit: f32) -> f64 {
        self.log_sum - (f64::from(logit) - self.max)
    }
}

/// Sets the probabilities.
pub(crate) fn softmax(list: &mut [Candidate]) -> Normalizer {
    let max = largest(list);
    let mut sum = 0.0;
    for c in list.iter_mut() {
        c.probability = libm::expf(c.logit - max);
        sum += f64::from(c.probability);
    }
    for c in list.iter_mut() {
        c.probability = (f64::from(c.probability) / sum) as f32;
    }
    Normalizer {
        max: f64::from(max),
        log_sum: libm::log(sum),
    }
}

/// The entropy in nats, given what [`softmax`] returned.
pub(crate) fn entropy(list: &[Candidate], normalizer: Normalizer) -> f64 {
    list.iter()
        .map(|c| f64::from(c.probability) * normalizer.surprise(c.logit))
        .sum()
}

/// The entry at a point in [0, 1) of the cumulative distribution. The list is not empty.
pub(crate) fn pick(list: &[Candidate], point: f64) -> Candidate {
    let total: f64 = list.iter().map(|c| f64::from(c.probability)).sum();
    let mut left = point * total;
    let mut last = list[0];
    for &c in list {
        if c.probability > 0.0 {
            last = c;
            left -= f64::from(c.probability);
            if left < 0.0 {
                break;
            }
        }
    }
    last
}
