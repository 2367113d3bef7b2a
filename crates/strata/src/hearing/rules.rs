//! What may be written next: suppressed tokens, and stamps that come in pairs and do not fall.

use super::tokens::SpeechTokens;
use strata_kernels::Kernels;

/// The logit of what may not be written.
pub(super) const FORBIDDEN: f32 = -1e30;

/// Forbids what may not follow the tokens that were written so far.
pub(super) fn apply(
    kernels: &Kernels,
    tokens: &SpeechTokens,
    written: &[u32],
    stamps: bool,
    logits: &mut [f32],
) {
    let mut forbid = |token: u32| {
        if let Some(logit) = logits.get_mut(token as usize) {
            *logit = FORBIDDEN;
        }
    };
    tokens.suppressed.iter().for_each(|&token| forbid(token));
    forbid(tokens.no_stamps);
    if written.is_empty() {
        let first = tokens.suppressed_first.iter();
        first.for_each(|&token| forbid(token));
    }
    let first = (tokens.first_stamp as usize).min(logits.len());
    if !stamps {
        logits[first..].fill(FORBIDDEN);
        return;
    }
    let is_stamp = |token: u32| token >= tokens.first_stamp;
    let last = written.last().copied();
    let one_before = written.len().checked_sub(2).map(|at| written[at]);
    let after_stamp = last.is_some_and(is_stamp);
    let after_text = one_before.is_some_and(|token| !is_stamp(token));
    if after_stamp && after_text {
        // The stamp ended a segment: another begins, or the text ends.
        logits[..tokens.end as usize].fill(FORBIDDEN);
    } else if after_stamp {
        logits[first..].fill(FORBIDDEN);
    }
    if let Some(&stamp) = written.iter().rev().find(|&&token| is_stamp(token)) {
        // The stamp that begins a segment may be that which ended the one before.
        let least = if after_stamp && after_text {
            stamp
        } else {
            stamp + 1
        };
        let least = (least as usize).min(logits.len());
        logits[first..least].fill(FORBIDDEN);
    }
    if written.is_empty() {
        logits[..first].fill(FORBIDDEN);
        let latest = (first + tokens.first_limit + 1).min(logits.len());
        logits[latest..].fill(FORBIDDEN);
    }
    // If all stamps together are likelier than the best text, one is written.
    let (text, stamps) = logits.split_at_mut(first);
    if !stamps.is_empty() && log_sum(kernels, stamps) > kernels.max(text) {
        text.fill(FORBIDDEN);
    }
}

/// ln Σ eˣ.
pub(super) fn log_sum(kernels: &Kernels, logits: &[f32]) -> f32 {
    let maximum = kernels.max(logits);
    let mut shares = logits.to_vec();
    maximum + libm::logf(kernels.exp_sub(&mut shares, maximum))
}
