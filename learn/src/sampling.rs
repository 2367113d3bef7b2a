//! Choosing a token from logits.

// ANCHOR: likeliest
/// The token with the largest logit; the first of equals.
pub fn likeliest(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (token, logit) in logits.iter().enumerate() {
        if *logit > logits[best] {
            best = token;
        }
    }
    best as u32
}
// ANCHOR_END: likeliest

// ANCHOR: candidates
/// A token that may be next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Its number in the vocabulary.
    pub token: u32,
    /// What the model said.
    pub logit: f32,
    /// Its share of 1.
    pub probability: f64,
}

/// All tokens, the likeliest first.
pub fn candidates(logits: &[f32]) -> Vec<Candidate> {
    let mut list: Vec<Candidate> = (0..)
        .zip(logits)
        .map(|(token, &logit)| Candidate {
            token,
            logit,
            probability: 0.0,
        })
        .collect();
    list.sort_by(|a, b| b.logit.total_cmp(&a.logit).then(a.token.cmp(&b.token)));
    share(&mut list);
    list
}

/// Makes the probabilities add up to 1 again: a softmax over those that are left.
pub fn share(list: &mut [Candidate]) {
    let Some(max) = list.first().map(|first| f64::from(first.logit)) else {
        return;
    };
    let weight = |c: &Candidate| (f64::from(c.logit) - max).exp();
    let sum: f64 = list.iter().map(weight).sum();
    for candidate in list.iter_mut() {
        candidate.probability = weight(candidate) / sum;
    }
}
// ANCHOR_END: candidates

// ANCHOR: samplers
/// Divides all logits: below 1 the likely get likelier, above 1 the differences shrink.
pub fn temperature(list: &mut [Candidate], temperature: f32) {
    for candidate in list.iter_mut() {
        candidate.logit /= temperature;
    }
    share(list);
}

/// Keeps the k likeliest.
pub fn top_k(list: &mut Vec<Candidate>, k: usize) {
    list.truncate(k.max(1));
    share(list);
}

/// Keeps the likeliest that together reach the probability p.
pub fn top_p(list: &mut Vec<Candidate>, p: f64) {
    let mut total = 0.0;
    let kept = list.iter().position(|candidate| {
        total += candidate.probability;
        total >= p
    });
    if let Some(last) = kept {
        list.truncate(last + 1);
    }
    share(list);
}

/// Keeps those that have at least p times the probability of the likeliest.
pub fn min_p(list: &mut Vec<Candidate>, p: f32) {
    let Some(floor) = list.first().map(|first| first.logit + p.ln()) else {
        return;
    };
    list.retain(|candidate| candidate.logit >= floor);
    share(list);
}
// ANCHOR_END: samplers

// ANCHOR: draw
/// Draw number `position` of a seed, uniform in [0, 1): a hash (SplitMix64), so nothing has to be remembered.
pub fn uniform(seed: u64, position: u64) -> f64 {
    let mut z = seed.wrapping_add((position + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    (z >> 11) as f64 / (1u64 << 53) as f64
}

/// The candidate in whose share of the line from 0 to 1 the number lies.
pub fn draw(list: &[Candidate], uniform: f64) -> Option<u32> {
    let mut total = 0.0;
    let hit = list.iter().find(|candidate| {
        total += candidate.probability;
        uniform < total
    });
    // Rounding may leave the sum a hair under 1.
    hit.or(list.last()).map(|candidate| candidate.token)
}
// ANCHOR_END: draw
