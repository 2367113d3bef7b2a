//! Checks of the exercises of part 1.

use strata_learn::gguf::ModelFile;
use strata_quant::BF16;
use strata_weights::Gguf;

use crate::repository;

pub(super) fn bf16(bf16_to_f32: fn(u16) -> f32) {
    for bits in 0..=u16::MAX {
        let expected = BF16::from_bits(bits).to_f32();
        let found = bf16_to_f32(bits);
        assert!(
            found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan(),
            "{bits:#06x} is {expected}, not {found}"
        );
    }
}

pub(super) fn strides(place: fn(&[usize], &[usize]) -> usize) {
    let dims = [4, 3, 2];
    let mut expected = 0;
    for c in 0..2 {
        for b in 0..3 {
            for a in 0..4 {
                assert_eq!(place(&dims, &[a, b, c]), expected, "element {a}, {b}, {c}");
                expected += 1;
            }
        }
    }
}

pub(super) fn parameters(parameters: fn(&ModelFile<'_>) -> u64) {
    let path = repository().join("crates/model/tests/golden/llama.gguf");
    let bytes = std::fs::read(path).expect("the golden file is there");
    let theirs = Gguf::parse(&bytes).expect("a valid file");
    let count = |dims: &[u64]| dims.iter().product::<u64>();
    let expected: u64 = theirs.tensors().iter().map(|t| count(&t.dims)).sum();
    let ours = ModelFile::parse(&bytes).expect("a valid file");
    assert_eq!(parameters(&ours), expected);
}
