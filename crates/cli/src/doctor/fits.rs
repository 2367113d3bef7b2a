//! Which models fit, and how fast they would be.

use super::speed::Speeds;
use strata_convert::Mix;
use strata_host::Budget;

/// Sizes that models come in, in billions of weights, with the bytes of keys and values of a position.
const SIZES: &[(&str, f64, f64)] = &[
    ("1b", 1.2, 32e3),
    ("3b", 3.2, 112e3),
    ("8b", 8.0, 128e3),
    ("14b", 14.7, 192e3),
    ("32b", 32.8, 256e3),
    ("70b", 70.6, 320e3),
];
/// The usual mixes and their bits of a weight.
const MIXES: &[(Mix, f64)] = &[(Mix::Q4KM, 4.85), (Mix::Q8_0, 8.5)];
/// Positions that keys and values are counted for.
pub(super) const CONTEXT: f64 = 4096.0;
/// What buffers and the program itself take.
const PROGRAM: f64 = 300e6;
/// The share of the integer peak that prefill reaches.
const PREFILL_SHARE: f64 = 0.6;

/// One size of model in one mix.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fit {
    pub(super) size: &'static str,
    pub(super) mix: Mix,
    /// Of its weights.
    pub(super) bytes: f64,
    /// Of everything, with a context of [`CONTEXT`].
    pub(super) needed: f64,
    pub(super) fits: bool,
    /// Tokens a second; every weight is read for each.
    pub(super) decode: f64,
    /// Tokens a second of a prompt.
    pub(super) prefill: f64,
}

impl Fit {
    /// All sizes in all mixes, the smallest first.
    pub(super) fn table(budget: &Budget, speeds: &Speeds) -> Vec<Fit> {
        let available = budget.available_bytes as f64;
        let row = |&(size, billions, kv): &(&'static str, f64, f64), &(mix, bits): &(Mix, f64)| {
            let weights = billions * 1e9;
            let bytes = weights * bits / 8.0;
            let needed = bytes + kv * CONTEXT + PROGRAM;
            Fit {
                size,
                mix,
                bytes,
                needed,
                fits: needed <= available,
                decode: speeds.all_threads / bytes,
                prefill: PREFILL_SHARE * speeds.operations / (2.0 * weights),
            }
        };
        SIZES
            .iter()
            .flat_map(|size| MIXES.iter().map(move |mix| row(size, mix)))
            .collect()
    }

    /// The largest of a table that is whole in so much memory.
    pub(super) fn largest_within(table: &[Self], bytes: u64) -> Option<&Self> {
        let fitting = table.iter().filter(|fit| fit.needed <= bytes as f64);
        fitting.max_by(|a, b| a.needed.total_cmp(&b.needed))
    }

    pub(super) fn name(&self) -> String {
        format!("{} {}", self.size, self.mix.name())
    }
}
