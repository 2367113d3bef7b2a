//! The book's arithmetic against the product's kernels: the same bits.

use strata_kernels::{ActFormat, ActRows, Activation, Isa, Kernels, Panels, RopeKind, TileMut};
use strata_kernels::{pack_panel, packed_bytes, sin_cos};
use strata_learn::blocks::{dequantize_q4_0, dequantize_q4_k, quantize_q4_0, quantize_q4_k};
use strata_learn::demos::numbers;
use strata_learn::half::{f16_to_f32, f32_to_f16};
use strata_learn::lanes::{dot_lanes, dot_q4_0, quantize_act};
use strata_learn::narrow::{dot_narrow, dot_wide, multiply_pairs};
use strata_quant::{F16, GgmlType, dequantize, quantize};

/// Every backend of this processor.
fn backends() -> impl Iterator<Item = &'static Kernels> {
    let all = [
        Isa::Scalar,
        Isa::Avx2,
        Isa::AvxVnni,
        Isa::Avx512,
        Isa::Avx512Vnni,
        Isa::Neon,
        Isa::NeonDot,
    ];
    all.into_iter().filter_map(Kernels::for_isa)
}

#[test]
fn half_floats_are_the_products() {
    for bits in 0..=u16::MAX {
        let (ours, theirs) = (f16_to_f32(bits), F16::from_bits(bits).to_f32());
        assert!(ours == theirs || ours.is_nan() && theirs.is_nan(), "{bits}");
        assert_eq!(ours.is_sign_negative(), theirs.is_sign_negative(), "{bits}");
        if !ours.is_nan() {
            assert_eq!(f32_to_f16(ours), bits);
        }
    }
    // Steps through all exponents, with fractions that round up, down and to even.
    for bits in (0..=u32::MAX).step_by(4093) {
        let x = f32::from_bits(bits);
        if !x.is_nan() {
            assert_eq!(f32_to_f16(x), F16::from_f32(x).to_bits(), "{x}");
        }
    }
}

#[test]
fn dot_products_in_lanes_have_the_kernels_bits() {
    for len in [0, 1, 15, 16, 17, 512, 1000] {
        let (a, b) = (numbers(len, 1), numbers(len, 2));
        for kernels in backends() {
            let theirs = kernels.dot(&a, &b);
            assert_eq!(dot_lanes(&a, &b).to_bits(), theirs.to_bits(), "{len}");
        }
    }
}

#[test]
fn a_norm_over_lanes_has_the_kernels_bits() {
    let (x, weight) = (numbers(512, 1), numbers(512, 2));
    let scale = 1.0 / (dot_lanes(&x, &x) / 512.0 + 1e-5).sqrt();
    for kernels in backends() {
        let mut theirs = vec![0.0; 512];
        kernels.rms_norm(&x, Some(&weight), 1e-5, &mut theirs);
        for i in 0..512 {
            assert_eq!((x[i] * scale * weight[i]).to_bits(), theirs[i].to_bits());
        }
    }
}

#[test]
fn quantized_rows_have_the_kernels_bits() {
    const COLS: usize = 256;
    let weights = numbers(16 * COLS, 1);
    let x = numbers(COLS, 2);
    let rows: Vec<u8> = weights
        .as_chunks()
        .0
        .iter()
        .flat_map(quantize_q4_0)
        .collect();
    let act: Vec<_> = x.as_chunks().0.iter().map(quantize_act).collect();
    let row_bytes = rows.len() / 16;
    let ours: Vec<f32> = rows
        .chunks_exact(row_bytes)
        .map(|row| dot_q4_0(row, &act))
        .collect();
    let mut panel = vec![0; packed_bytes(GgmlType::Q4_0, 16, COLS)];
    pack_panel(GgmlType::Q4_0, COLS, &rows, &mut panel);
    for kernels in backends() {
        let mut bytes = vec![0; ActFormat::Q8x32.row_bytes(COLS)];
        kernels.quantize_act(ActFormat::Q8x32, &x, &mut bytes);
        let mut theirs = vec![0.0f32; 16];
        kernels.matmul(
            Panels::new(GgmlType::Q4_0, 16, COLS, &panel),
            ActRows::new(ActFormat::Q8x32, COLS, &bytes),
            TileMut::from_slice(&mut theirs, 1, 16),
        );
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours.to_bits(), theirs.to_bits(), "{:?}", kernels.isa());
        }
    }
}

/// The root mean square of the difference.
fn error(x: &[f32], y: &[f32]) -> f64 {
    let squares = x.iter().zip(y).map(|(x, y)| f64::from(x - y).powi(2));
    (squares.sum::<f64>() / x.len() as f64).sqrt()
}

#[test]
fn blocks_are_the_products_and_nearly_as_good() {
    for seed in 0..20 {
        let x: Vec<f32> = numbers(256, seed).iter().map(|x| x * x * x).collect();
        let q4_0: Vec<u8> = x.as_chunks().0.iter().flat_map(quantize_q4_0).collect();
        let q4_k = quantize_q4_k(x.as_array().expect("256 numbers")).to_vec();
        type Dequantize = fn(&[u8], &mut [f32]);
        let kinds: [(_, _, Dequantize, _); 2] = [
            (GgmlType::Q4_0, q4_0, dequantize_q4_0, 18),
            (GgmlType::Q4_K, q4_k, dequantize_q4_k, 144),
        ];
        for (ty, bytes, ours, len) in kinds {
            let (mut read, mut theirs) = (vec![0.0; 256], vec![0.0; 256]);
            let count = 256 * len / bytes.len();
            for (block, out) in bytes.chunks(len).zip(read.chunks_mut(count)) {
                ours(block, out);
            }
            dequantize(ty, &bytes, &mut theirs).expect("whole blocks");
            assert_eq!(read, theirs, "{ty:?}");
            // The product searches for better scales.
            let mut best = vec![0; bytes.len()];
            quantize(ty, &x, None, &mut best).expect("whole blocks");
            dequantize(ty, &best, &mut theirs).expect("whole blocks");
            let (mine, best) = (error(&x, &read), error(&x, &theirs));
            assert!(best <= mine && mine < 1.5 * best, "{ty:?}: {mine} {best}");
        }
    }
}

#[test]
fn rotation_and_gate_are_the_products() {
    let mut head = numbers(64, 5);
    let angles: Vec<(f32, f32)> = (0..32)
        .map(|i| sin_cos(7.0 * 10_000f64.powf(-f64::from(i) / 32.0)))
        .collect();
    let (sin, cos): (Vec<f32>, Vec<f32>) = angles.into_iter().unzip();
    let mut turned = head.clone();
    for (i, pair) in turned.chunks_exact_mut(2).enumerate() {
        (pair[0], pair[1]) = (
            pair[0] * cos[i] - pair[1] * sin[i],
            pair[0] * sin[i] + pair[1] * cos[i],
        );
    }
    Kernels::detect().rope(&mut head, &cos, &sin, RopeKind::Interleaved);
    assert_eq!(head, turned);

    let (mut gate, up) = (numbers(64, 6), numbers(64, 7));
    let ours: Vec<f32> = gate
        .iter()
        .zip(&up)
        .map(|(gate, up)| gate / (1.0 + (-gate).exp()) * up)
        .collect();
    Kernels::detect().activate_mul(Activation::Silu, &mut gate, &up);
    for (ours, theirs) in ours.iter().zip(&gate) {
        assert!((ours - theirs).abs() < 1e-6);
    }
}

#[test]
fn narrow_sums_are_exact_for_small_quants() {
    for seed in 0..100 {
        let random = numbers(64, seed);
        let a: [u8; 32] = std::array::from_fn(|i| ((random[i] + 1.0) * 7.99) as u8);
        let b: [i8; 32] = std::array::from_fn(|i| (random[i + 32] * 127.0) as i8);
        let exact: i32 = a
            .iter()
            .zip(&b)
            .map(|(a, b)| i32::from(*a) * i32::from(*b))
            .sum();
        assert_eq!((dot_narrow(&a, &b), dot_wide(&a, &b)), (exact, exact));
    }
    // The extremes of 4 bits just fit; those of 8 bits do not.
    assert_eq!(dot_narrow(&[15; 32], &[-127; 32]), 32 * 15 * -127);
    assert_eq!(multiply_pairs([255; 4], [127; 4]), [32767; 2]);
    assert_eq!(dot_wide(&[255; 32], &[127; 32]), 32 * 255 * 127);
}
