//! The tokens still in the running, and the arithmetic that every truncating sampler shares.
//!
//! The list is always in an order that follows from the logits alone: that of the tokens, or of their rank (the larger
//! logit first, then the lower token), or the order in which a sampler chose them. Sums therefore have fixed bits.
//! Where only the best few are wanted, only they are sorted.

use alloc::vec::Vec;

use crate::exponential::{exp, sum};

/// How many candidates are computed side by side.
const BLOCK: usize = 64;

/// How many scores are passed over at once when none of them matters.
const SKIP: usize = 32;

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

/// Orders candidates as integers, which sorts fastest: the larger logit first, then the lower token.
pub(crate) fn rank(c: &Candidate) -> u64 {
    let bits = c.logit.to_bits() as i32;
    // Floats compare as their bits do, except that those of negative ones run the other way.
    let ascending = bits ^ ((bits >> 31) as u32 >> 1) as i32;
    let descending = !((ascending as u32) ^ 1 << 31);
    u64::from(descending) << 32 | u64::from(c.token)
}

/// Fills the list with the tokens whose score is at least the floor, in their order. Banned tokens never qualify.
pub(crate) fn gather(scores: &[f32], floor: f32, list: &mut Vec<Candidate>) {
    list.clear();
    let floor = floor.max(f32::MIN);
    for (chunk, values) in scores.chunks(SKIP).enumerate() {
        if reaches(values, floor) {
            for (i, &logit) in values.iter().enumerate() {
                if logit >= floor {
                    list.push(candidate(chunk * SKIP + i, logit));
                }
            }
        }
    }
}

/// Fills the list with the best k of them, by rank.
///
/// Works in a list of a few k, from which the worse part is thrown out whenever it is full. Few scores pass the floor
/// that this sets, so most cost one comparison.
pub(crate) fn gather_top(scores: &[f32], floor: f32, k: usize, list: &mut Vec<Candidate>) {
    const LEAST_BATCH: usize = 256;
    list.clear();
    let mut floor = floor.max(f32::MIN);
    let full = k.saturating_add(k.max(LEAST_BATCH));
    for (chunk, values) in scores.chunks(SKIP).enumerate() {
        if !reaches(values, floor) {
            continue;
        }
        for (i, &logit) in values.iter().enumerate() {
            if logit >= floor {
                list.push(candidate(chunk * SKIP + i, logit));
                if list.len() == full {
                    list.select_nth_unstable_by_key(k - 1, rank);
                    list.truncate(k);
                    floor = list[k - 1].logit;
                }
            }
        }
    }
    sort_best(list, 0, k, rank);
    list.truncate(k);
}

/// Whether any score is at least the floor. Without an early end, so that the compiler can use vectors.
fn reaches(scores: &[f32], floor: f32) -> bool {
    scores.iter().fold(false, |any, &s| any | (s >= floor))
}

fn candidate(token: usize, logit: f32) -> Candidate {
    Candidate {
        token: token as u32,
        // Turns minus zero into zero, which is equal but has other bits.
        logit: logit + 0.0,
        probability: 0.0,
    }
}

/// Extends a sorted beginning of `done` entries to `want` entries.
fn sort_best<K: Ord>(
    list: &mut [Candidate],
    done: usize,
    want: usize,
    key: impl Fn(&Candidate) -> K + Copy,
) {
    let rest = &mut list[done..];
    let want = want - done;
    if want < rest.len() {
        rest.select_nth_unstable_by_key(want, key);
        rest[..want].sort_unstable_by_key(key);
    } else {
        rest.sort_unstable_by_key(key);
    }
}

/// Keeps the first entries by `key` up to the one at which `enough(their probability, their number)` holds.
pub(crate) fn keep_until<K: Ord>(
    list: &mut Vec<Candidate>,
    key: impl Fn(&Candidate) -> K + Copy,
    enough: impl Fn(f64, usize) -> bool,
) {
    const FIRST_BATCH: usize = 128;
    let mut total = 0.0;
    let (mut done, mut want) = (0, FIRST_BATCH);
    while done < list.len() {
        sort_best(list, done, want, key);
        while done < want.min(list.len()) {
            total += f64::from(list[done].probability);
            done += 1;
            if enough(total, done) {
                list.truncate(done);
                return;
            }
        }
        want *= 8;
    }
}

/// Keeps the n best by rank.
pub(crate) fn keep_best(list: &mut Vec<Candidate>, n: usize) {
    sort_best(list, 0, n, rank);
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
    let mut total = 0.0;
    for block in list.chunks_mut(BLOCK) {
        // Side by side in an array, the exponentials become vector code.
        let mut weights = [0.0; BLOCK];
        let weights = &mut weights[..block.len()];
        for (weight, c) in weights.iter_mut().zip(block.iter()) {
            *weight = c.logit - max;
        }
        for weight in weights.iter_mut() {
            *weight = exp(*weight);
        }
        for (weight, c) in weights.iter().zip(block) {
            c.probability = *weight;
        }
        total += sum(weights);
    }
    let share = (1.0 / total) as f32;
    for c in list.iter_mut() {
        c.probability *= share;
    }
    Normalizer {
        max: f64::from(max),
        log_sum: libm::log(total),
    }
}

/// The entropy in nats, given what [`softmax`] returned.
pub(crate) fn entropy(list: &[Candidate], normalizer: Normalizer) -> f64 {
    list.iter()
        .map(|c| f64::from(c.probability) * normalizer.surprise(c.logit))
        .sum()
}

/// The entry at a point in [0, 1) of the cumulative distribution. The list is not empty, and has its probabilities.
pub(crate) fn pick(list: &[Candidate], point: f64) -> Candidate {
    let share = |block: &[Candidate]| -> f64 {
        let mut shares = [0.0; BLOCK];
        for (share, c) in shares.iter_mut().zip(block) {
            *share = c.probability;
        }
        sum(&shares)
    };
    // The probabilities are rounded, so their sum is not quite 1.
    let mut left = point * list.chunks(BLOCK).map(share).sum::<f64>();
    for block in list.chunks(BLOCK) {
        let whole = share(block);
        if left >= whole {
            left -= whole;
            continue;
        }
        for &c in block {
            left -= f64::from(c.probability);
            if left < 0.0 {
                return c;
            }
        }
    }
    // Rounding carried the point past the end.
    let possible = list.iter().rev().find(|c| c.probability > 0.0);
    *possible.unwrap_or(&list[0])
}
