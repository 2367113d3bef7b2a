//! Dequantized values against the gguf package's, bit for bit. `tools/quant_vectors.py` makes the vectors.

use std::fs;
use std::path::Path;

use strata_quant::{BlockQ4_K, GgmlType, QuantError, dequantize};

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

#[test]
fn blocks_read_like_bytes() {
    let (bytes, expected) = vectors(GgmlType::Q4_K);
    let blocks: &[BlockQ4_K] = bytemuck::cast_slice(&bytes);
    let mut out = [0.0; 256];
    for (block, expected) in blocks.iter().zip(expected.chunks(256)) {
        block.dequantize(&mut out);
        assert_eq!(out, expected);
        let (scales, mins) = block.scales_mins();
        let quants = block.quants();
        for (i, &value) in expected.iter().enumerate() {
            let scale = block.d.to_f32() * f32::from(scales[i / 32]);
            let min = block.dmin.to_f32() * f32::from(mins[i / 32]);
            assert_eq!(scale * f32::from(quants[i]) - min, value);
        }
    }
}

#[test]
fn lengths_must_fit() {
    for &ty in GgmlType::ALL {
        let (len, bytes) = (ty.block_len(), ty.block_bytes());
        let block = vec![0; 2 * bytes];
        let mut values = vec![0.0; 2 * len];
        assert_eq!(dequantize(ty, &block, &mut values), Ok(()));
        assert_eq!(dequantize(ty, &[], &mut []), Ok(()));
        for actual in [0, 1, bytes, 2 * bytes - 1] {
            assert_eq!(
                dequantize(ty, &block[..actual], &mut values),
                Err(QuantError::ByteLength {
                    ty,
                    values: 2 * len,
                    expected: 2 * bytes,
                    actual
                }),
            );
        }
        if len > 1 {
            assert_eq!(
                dequantize(ty, &block, &mut values[1..]),
                Err(QuantError::PartialBlock {
                    ty,
                    len: 2 * len - 1
                }),
            );
        }
    }
}
