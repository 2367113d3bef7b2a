//! Dequantized values against the gguf package's, bit for bit. `tools/quant_vectors.py` makes the vectors.

use std::fs;
use std::path::Path;

use strata_quant::{GgmlType, dequantize};

/// The blocks of a vector file and their values.
fn vectors(ty: GgmlType) -> (Vec<u8>, Vec<f32>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/vectors/{ty}.bin"));
    let data = fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let (count, rest) = data.split_first_chunk::<4>().expect("a count");
    let count = u32::from_le_bytes(*count) as usize;
    let (blocks, values) = rest.split_at(count * ty.block_bytes());
    let values: Vec<f32> = values
        .as_chunks::<4>()
        .0
        .iter()
        .map(|bytes| f32::from_le_bytes(*bytes))
        .collect();
    assert_eq!(values.len(), count * ty.block_len(), "{ty}");
    (blocks.to_vec(), values)
}

#[test]
fn every_type_gives_the_bits_of_gguf() {
    for &ty in GgmlType::ALL {
        let (blocks, expected) = vectors(ty);
        assert!(expected.iter().any(|&x| x != 0.0), "{ty}");
        let mut values = vec![f32::NAN; expected.len()];
        dequantize(ty, &blocks, &mut values).unwrap();
        for (i, (value, expected)) in values.iter().zip(&expected).enumerate() {
            assert_eq!(
                value.to_bits(),
                expected.to_bits(),
                "{ty} value {i}: {value:e} is not {expected:e}"
            );
        }
    }
}
