//! Exercise 1.3: how many parameters a model has.

use crate::gguf::ModelFile;

/// The numbers of all tensors together.
pub fn parameters(file: &ModelFile<'_>) -> u64 {
    let tensors = file.tensors.values();
    tensors
        .map(|tensor| tensor.dims.iter().product::<u64>())
        .sum()
}
