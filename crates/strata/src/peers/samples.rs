//! Whether two machines have the same model: what its file says, and samples of the weights that one of them computes with.
//!
//! Hashing all weights would read those of all layers on every machine, which is what several machines are there to avoid.

use std::ops::Range;
use strata_platform::Sha256;
use strata_weights::GgufSet;

/// Bytes of a sample.
const SAMPLE: usize = 64;

/// A digest of samples of some layers' weights: the beginning, the middle and the end of each tensor.
pub(super) fn samples(model: &GgufSet<'_>, layers: Range<usize>) -> [u8; 32] {
    let mut hash = Sha256::new();
    for tensor in model.tensors() {
        let number = tensor.name.strip_prefix("blk.");
        let number = number.and_then(|rest| rest.split_once('.')?.0.parse().ok());
        if number.is_none_or(|number: usize| !layers.contains(&number)) {
            continue;
        }
        let data = tensor.data;
        let last = data.len().saturating_sub(SAMPLE);
        for start in [0, last / 2, last] {
            hash.update(&data[start..data.len().min(start + SAMPLE)]);
        }
    }
    hash.finalize()
}
