//! The truncating samplers: each keeps a part of the candidates.

use alloc::vec::Vec;

use super::candidates::{Candidate, entropy, keep_best, keep_until, largest, rank, softmax};

/// The least score that top-n-sigma keeps: n standard deviations under the largest. Banned tokens do not count.
pub(crate) fn sigma_floor(scores: &[f32], max: f32, n: f32) -> f32 {
    let allowed = || {
        scores
            .iter()
            .filter(|&&s| s > f32::NEG_INFINITY)
            .map(|&s| f64::from(s))
    };
    let (mut count, mut sum) = (0u32, 0.0);
    for score in allowed() {
        count += 1;
        sum += score;
    }
    let mean = sum / f64::from(count.max(1));
    let squares: f64 = allowed().map(|s| (s - mean) * (s - mean)).sum();
    let deviation = libm::sqrt(squares / f64::from(count.max(1)));
    (f64::from(max) - f64::from(n) * deviation) as f32
}

/// The least score that min-p keeps.
pub(crate) fn min_p_floor(max: f32, p: f32) -> f32 {
    max + libm::logf(p)
}

pub(crate) fn min_p(list: &mut Vec<Candidate>, p: f32, min_keep: usize) {
    let floor = min_p_floor(largest(list), p);
    let kept = list.iter().filter(|c| c.logit >= floor).count();
    if kept >= min_keep {
        list.retain(|c| c.logit >= floor);
    } else {
        keep_best(list, min_keep.min(list.len()));
    }
}

pub(crate) fn top_p(list: &mut Vec<Candidate>, p: f32, min_keep: usize) {
    softmax(list);
    // All that are less likely than this together cannot make up what top-p leaves out: no need to sort them.
    let least = (1.0 - p) / list.len() as f32;
    if list.iter().filter(|c| c.probability >= least).count() >= min_keep.max(1) {
        list.retain(|c| c.probability >= least);
    }
    keep_until(list, rank, |total, n| {
        total >= f64::from(p) && n >= min_keep
    });
}

pub(crate) fn typical(list: &mut Vec<Candidate>, p: f32, min_keep: usize) {
    let normalizer = softmax(list);
    let entropy = entropy(list, normalizer);
    // How far the surprise is from the expected one. It is not negative, so its bits are in its order.
    let oddness = |c: &Candidate| libm::fabs(normalizer.surprise(c.logit) - entropy).to_bits();
    keep_until(
        list,
        |c| (oddness(c), rank(c)),
        |total, n| total > f64::from(p) && n >= min_keep,
    );
}

/// Of the candidates at or above the threshold, only the least likely stays.
pub(crate) fn xtc(list: &mut Vec<Candidate>, threshold: f32, min_keep: usize) {
    softmax(list);
    let top = || list.iter().filter(|c| c.probability >= threshold);
    let (count, Some(&least)) = (top().count(), top().max_by_key(|c| rank(c))) else {
        return;
    };
    if count > 1 && list.len() - (count - 1) >= min_keep {
        list.retain(|c| c.probability < threshold || c.token == least.token);
    }
}

/// Keeps the candidates whose surprise is at most `mu` bits, or the likeliest.
pub(crate) fn mirostat(list: &mut Vec<Candidate>, mu: f32) {
    let normalizer = softmax(list);
    let most = f64::from(mu) * core::f64::consts::LN_2;
    if list.iter().any(|c| normalizer.surprise(c.logit) <= most) {
        list.retain(|c| normalizer.surprise(c.logit) <= most);
    } else {
        keep_best(list, 1);
    }
}
