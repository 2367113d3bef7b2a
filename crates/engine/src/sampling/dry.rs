//! DRY: how long a repetition each token would continue, and what that costs it.
//!
//! Positions count backwards from the latest token. The runs are found with the Z algorithm on the reversed history:
//! `z[k]` tokens before position k are the same as the last `z[k]` tokens, so the token after them would be the next
//! of a repetition. Linear in the lookback.

use alloc::vec::Vec;

use super::history::History;
use super::settings::Dry;

/// Buffers that are kept between tokens.
#[derive(Debug, Clone, Default)]
pub(crate) struct Runs {
    z: Vec<usize>,
    /// (token, longest run that it would continue), in the order of the tokens.
    longest: Vec<(u32, usize)>,
}

/// Lowers the scores of tokens that would continue a repetition.
pub(crate) fn penalize(dry: &Dry, history: &History, scores: &mut [f32], runs: &mut Runs) {
    let allowed = dry.allowed_length as usize;
    let n = history.len().min(dry.lookback.reach());
    if n <= allowed {
        return;
    }
    let limit = distance_to_breaker(dry, history, n);
    if limit < allowed {
        return;
    }
    repeats(history, n, &mut runs.z);
    runs.longest.clear();
    for (k, &z) in runs.z.iter().enumerate().skip(1) {
        let run = z.min(limit);
        if run >= allowed {
            runs.longest.push((history.back(k - 1), run));
        }
    }
    // The longest of each token comes first and stays.
    runs.longest
        .sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)));
    runs.longest.dedup_by_key(|run| run.0);

    let cap = greatest_exponent(dry.base);
    for &(token, run) in &runs.longest {
        if breakers_from(dry, token).any(|breaker| breaker.len() == 1) {
            continue;
        }
        if let Some(score) = scores.get_mut(token as usize) {
            let exponent = (run - allowed).min(cap);
            let growth = libm::pow(f64::from(dry.base), exponent as f64);
            *score -= (f64::from(dry.multiplier) * growth) as f32;
        }
    }
}

/// The largest power of the base that is still a finite f32. A base of one never grows.
fn greatest_exponent(base: f32) -> usize {
    const LN_MAX: f32 = 88.722_84;
    if base > 1.000_001 {
        (LN_MAX / libm::logf(base)) as usize
    } else {
        usize::MAX
    }
}

/// The breakers that begin with a token. They are sorted, by [`Sampler::new`](super::Sampler::new): there can be
/// thousands, since a breaker given as text is every token that contains it.
fn breakers_from(dry: &Dry, token: u32) -> impl Iterator<Item = &Vec<u32>> {
    let first = dry.breakers.partition_point(|b| b.first() < Some(&token));
    dry.breakers[first..]
        .iter()
        .take_while(move |b| b.first() == Some(&token))
}

/// How many tokens follow the latest breaker among the last n. Of several that begin at one token the longest counts.
fn distance_to_breaker(dry: &Dry, history: &History, n: usize) -> usize {
    for start in 0..n {
        let matches = |breaker: &&Vec<u32>| {
            breaker.len() <= start + 1
                && (breaker.iter().enumerate()).all(|(i, &token)| history.back(start - i) == token)
        };
        let breakers = breakers_from(dry, history.back(start)).filter(matches);
        if let Some(longest) = breakers.map(Vec::len).max() {
            return start + 1 - longest;
        }
    }
    n
}

/// `z[k]`: for how many steps the tokens going back from position k equal those going back from the end.
fn repeats(history: &History, n: usize, z: &mut Vec<usize>) {
    z.clear();
    z.resize(n, 0);
    // The match that reaches furthest back covers positions start..end.
    let (mut start, mut end) = (0, 0);
    for k in 1..n {
        let mut run = if k < end {
            z[k - start].min(end - k)
        } else {
            0
        };
        while k + run < n && history.back(run) == history.back(k + run) {
            run += 1;
        }
        z[k] = run;
        if k + run > end {
            (start, end) = (k, k + run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Random, Stream};
    use crate::sampling::{Lookback, SamplerSettings};
    use alloc::vec::Vec;

    #[test]
    fn repeats_are_those_of_a_naive_search() {
        let mut random = Random::new(11, Stream::Token);
        let dry = Dry {
            multiplier: 1.0,
            lookback: Lookback::All,
            ..Dry::default()
        };
        let settings = SamplerSettings {
            dry,
            ..SamplerSettings::default()
        };
        let mut z = Vec::new();
        for round in 0..2000 {
            let mut history = History::new(&settings);
            let n = 1 + round % 40;
            for _ in 0..n {
                history.push((random.next_u64() % (2 + round as u64 % 2)) as u32);
            }
            repeats(&history, n, &mut z);
            for (k, &run) in z.iter().enumerate().skip(1) {
                let same = |&i: &usize| history.back(i) == history.back(k + i);
                assert_eq!(run, (0..n - k).take_while(same).count());
            }
        }
    }
}
