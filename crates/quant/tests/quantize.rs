//! Quantize against the recorded errors of gguf and ggml, its promises on values that fit, and what it refuses.

use std::fs;
use std::path::{Path, PathBuf};

use strata_quant::{GgmlType, QuantError, dequantize, quantize};

const ROWS: [&str; 3] = ["gaussian", "laplace", "outlier"];

fn vector_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/vectors")
        .join(name)
}

fn row(name: &str) -> Vec<f32> {
    let bytes = fs::read(vector_path("rows.bin")).unwrap();
    let values: Vec<f32> = bytes
        .as_chunks::<4>()
        .0
        .iter()
        .map(|b| f32::from_le_bytes(*b))
        .collect();
    let index = ROWS.iter().position(|&row| row == name).unwrap();
    values
        .chunks(values.len() / ROWS.len())
        .nth(index)
        .unwrap()
        .to_vec()
}

/// The types that can be written.
fn writable() -> impl Iterator<Item = GgmlType> {
    GgmlType::ALL
        .iter()
        .copied()
        .filter(|ty| ty.max_magnitude().is_some())
}

fn to_bytes(ty: GgmlType, values: &[f32], importance: Option<&[f32]>) -> Vec<u8> {
    let mut bytes = vec![0xaa; ty.row_bytes(values.len() as u64).unwrap() as usize];
    quantize(ty, values, importance, &mut bytes).unwrap();
    bytes
}

fn through(ty: GgmlType, values: &[f32], importance: Option<&[f32]>) -> Vec<f32> {
    let mut back = vec![f32::NAN; values.len()];
    dequantize(ty, &to_bytes(ty, values, importance), &mut back).unwrap();
    back
}

fn rmse(a: &[f32], b: &[f32], weights: Option<&[f32]>) -> f64 {
    let square = |i: usize| {
        (f64::from(a[i]) - f64::from(b[i])).powi(2) * weights.map_or(1.0, |w| f64::from(w[i]))
    };
    ((0..a.len()).map(square).sum::<f64>() / a.len() as f64).sqrt()
}

/// A small generator, so that the tests need no crate for it.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) as u32
    }

    fn below(&mut self, n: u32) -> u32 {
        self.next() % n
    }

    fn float(&mut self) -> f32 {
        self.next() as f32 / (1u32 << 30) as f32 - 1.0
    }
}

fn check_recorded(file: &str) {
    let recorded = fs::read_to_string(vector_path(file)).unwrap();
    assert!(recorded.lines().count() >= 30);
    for line in recorded.lines() {
        let [ty, row_name, error] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let ty = GgmlType::from_name(ty).unwrap();
        let error: f64 = error.parse().unwrap();
        let values = row(row_name);
        let ours = rmse(&values, &through(ty, &values, None), None);
        assert!(
            ours <= error * (1.0 + 1e-8),
            "{ty} {row_name}: {ours:e} is more than {error:e}"
        );
    }
}

#[test]
fn errors_are_no_worse_than_those_of_gguf() {
    check_recorded("errors.txt");
}

#[test]
fn errors_are_no_worse_than_those_of_ggml() {
    check_recorded("ggml.txt");
}

/// Blocks whose values the format holds exactly, with the extreme levels in use.
fn exact_values(ty: GgmlType, random: &mut Random) -> Vec<f32> {
    // Negative scales too: they are as good as positive ones.
    let d = [0.5, -0.25, 0.001953125, 3.0][random.below(4) as usize];
    let len = ty.block_len();
    let mut levels: Vec<f32> = (0..len)
        .map(|_| match ty {
            GgmlType::Q4_0 => random.below(16) as f32 - 8.0,
            GgmlType::Q5_0 => random.below(32) as f32 - 16.0,
            GgmlType::Q4_1 => random.below(16) as f32,
            GgmlType::Q5_1 => random.below(32) as f32,
            GgmlType::TQ1_0 | GgmlType::TQ2_0 => random.below(3) as f32 - 1.0,
            GgmlType::IQ4_NL => f32::from(strata_quant::iq::IQ4_VALUES[random.below(16) as usize]),
            GgmlType::MXFP4 | GgmlType::NVFP4 => {
                f32::from(strata_quant::fp4::E2M1_DOUBLED[random.below(16) as usize])
            }
            _ => random.below(255) as f32 - 127.0,
        })
        .collect();
    let (low, high) = match ty {
        GgmlType::Q4_0 => (-8.0, 7.0),
        GgmlType::Q5_0 => (-16.0, 15.0),
        GgmlType::Q4_1 => (0.0, 15.0),
        GgmlType::Q5_1 => (0.0, 31.0),
        GgmlType::TQ1_0 | GgmlType::TQ2_0 => (-1.0, 1.0),
        GgmlType::IQ4_NL => (-127.0, 113.0),
        GgmlType::MXFP4 | GgmlType::NVFP4 => (-12.0, 12.0),
        _ => (-127.0, 127.0),
    };
    for group in levels.chunks_mut(16) {
        (group[0], group[1]) = (low, high);
    }
    let d = if ty == GgmlType::MXFP4 { 0.25 } else { d };
    let min = if matches!(ty, GgmlType::Q4_1 | GgmlType::Q5_1) {
        -2.5
    } else {
        0.0
    };
    let d = if min != 0.0 { f32::abs(d) } else { d };
    levels.iter().map(|level| d * level + min).collect()
}

#[test]
fn values_that_fit_come_back() {
    use GgmlType::*;
    let mut random = Random(1);
    for ty in [
        Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q8_1, IQ4_NL, TQ1_0, TQ2_0, MXFP4, NVFP4,
    ] {
        for _ in 0..50 {
            let values = exact_values(ty, &mut random);
            assert_eq!(through(ty, &values, None), values, "{ty}");
        }
    }
    for ty in [F32, F64] {
        let values: Vec<f32> = (0..256)
            .map(|_| f32::from_bits(random.next() & 0x7f7f_ffff))
            .collect();
        assert_eq!(through(ty, &values, None), values, "{ty}");
    }
}

#[test]
fn a_second_pass_changes_little() {
    for ty in writable() {
        for name in ROWS {
            let once = through(ty, &row(name), None);
            let twice = through(ty, &once, None);
            let (first, second) = (rmse(&row(name), &once, None), rmse(&once, &twice, None));
            assert!(
                second <= 0.6 * first,
                "{ty} {name}: {second:e} after {first:e}"
            );
        }
    }
}

#[test]
fn importance_moves_the_error_away() {
    use GgmlType::*;
    let values = row("gaussian");
    let mut random = Random(2);
    // A row of 512 columns, each eighth of which matters most.
    let importance: Vec<f32> = (0..512)
        .map(|_| if random.below(8) == 0 { 100.0 } else { 1.0 })
        .collect();
    let weights: Vec<f32> = importance
        .iter()
        .copied()
        .cycle()
        .take(values.len())
        .collect();
    for ty in [
        Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, TQ1_0, TQ2_0, MXFP4,
        NVFP4,
    ] {
        let plain = rmse(&values, &through(ty, &values, None), Some(&weights));
        let weighted = rmse(
            &values,
            &through(ty, &values, Some(&importance)),
            Some(&weights),
        );
        assert!(
            weighted < 0.99 * plain,
            "{ty}: {weighted:e} against {plain:e}"
        );
    }
}

#[test]
fn odd_importances_still_work() {
    let values = row("laplace");
    for ty in writable() {
        let plain = rmse(&values, &through(ty, &values, None), None);
        for importance in [0.0, f32::MIN_POSITIVE, 1.0, f32::MAX] {
            let back = through(ty, &values, Some(&[importance; 256]));
            assert_eq!(rmse(&values, &back, None), plain, "{ty} {importance}");
        }
        // Only one column of a block counts, and the others stay sane.
        let mut one = [0.0; 256];
        one[7] = 1e20;
        assert!(
            through(ty, &values, Some(&one))
                .iter()
                .all(|x| x.abs() < 1.0),
            "{ty}"
        );
    }
}

#[test]
fn any_size_stays_finite_and_near() {
    let mut random = Random(3);
    for ty in writable() {
        let limit = ty.max_magnitude().unwrap();
        for exponent in -45..=38 {
            let size = 10f64.powi(exponent).min(f64::from(limit)) as f32;
            let values: Vec<f32> = (0..256).map(|_| random.float() * size).collect();
            let back = through(ty, &values, None);
            // The smallest step of a format with a half-float scale is 2^-24.
            let room = size.max(1e-6) * 1.3;
            assert!(back.iter().all(|x| x.abs() <= room), "{ty} {size:e}");
        }
        for values in [[0.0; 256], [-0.0; 256]] {
            assert!(through(ty, &values, None).iter().all(|&x| x == 0.0), "{ty}");
        }
        for value in [limit, -limit] {
            let back = through(ty, &[value; 256], None);
            assert!(
                back.iter()
                    .all(|x| x.is_finite() && (x / value - 1.0).abs() < 0.07),
                "{ty} {value:e} {}",
                back[0]
            );
        }
    }
}

#[test]
fn bad_values_are_named() {
    for ty in writable() {
        let mut bytes = vec![0x55; ty.row_bytes(512).unwrap() as usize];
        let untouched = bytes.clone();
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            for index in [0, 100, 511] {
                let mut values = vec![1.0; 512];
                values[index] = bad;
                assert_eq!(
                    quantize(ty, &values, None, &mut bytes),
                    Err(QuantError::NotFinite { index })
                );
            }
        }
        let limit = ty.max_magnitude().unwrap();
        if limit < f32::MAX {
            let mut values = vec![1.0; 512];
            values[300] = -limit.next_up();
            assert_eq!(
                quantize(ty, &values, None, &mut bytes),
                Err(QuantError::TooLarge { ty, index: 300 })
            );
        }
        let mut importance = vec![1.0; 256];
        for bad in [f32::NAN, f32::INFINITY, -1.0] {
            importance[9] = bad;
            assert_eq!(
                quantize(ty, &[1.0; 512], Some(&importance), &mut bytes),
                Err(QuantError::BadImportance { index: 9 }),
            );
        }
        assert_eq!(bytes, untouched, "{ty}");
    }
}

#[test]
fn lengths_must_fit() {
    for ty in writable() {
        let (len, bytes) = (ty.block_len(), ty.block_bytes());
        let mut block = vec![0; 2 * bytes];
        let values = vec![1.0; 2 * len];
        assert_eq!(quantize(ty, &[], None, &mut []), Ok(()));
        assert_eq!(
            quantize(ty, &values, None, &mut block[..bytes]),
            Err(QuantError::ByteLength {
                ty,
                values: 2 * len,
                expected: 2 * bytes,
                actual: bytes
            }),
        );
        if len > 1 {
            assert_eq!(
                quantize(ty, &values[1..], None, &mut block),
                Err(QuantError::PartialBlock {
                    ty,
                    len: 2 * len - 1
                }),
            );
            assert_eq!(
                quantize(ty, &values, Some(&values[1..]), &mut block),
                Err(QuantError::ImportanceLength {
                    ty,
                    len: 2 * len - 1,
                    values: 2 * len
                }),
            );
        }
        assert_eq!(
            quantize(ty, &values, Some(&[]), &mut block),
            Err(QuantError::ImportanceLength {
                ty,
                len: 0,
                values: 2 * len
            }),
        );
        assert_eq!(
            quantize(ty, &values, Some(&values[len..]), &mut block),
            Ok(())
        );
    }
}

#[test]
fn some_types_are_only_read() {
    use GgmlType::*;
    for ty in [
        I8, I16, I32, I64, IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S,
    ] {
        let mut bytes = vec![0; ty.row_bytes(256).unwrap() as usize];
        let error = quantize(ty, &[1.0; 256], None, &mut bytes).unwrap_err();
        assert_eq!(error, QuantError::CannotQuantize { ty });
        assert_eq!(
            error.to_string(),
            format!("{ty} can be read but not written")
        );
    }
    assert_eq!(writable().count(), GgmlType::ALL.len() - 11);
}
