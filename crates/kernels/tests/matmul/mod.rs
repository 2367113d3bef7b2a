//! Matmul: every instruction set gives the reference's bits, the reference gives the contract's, and those are close to
//! exact arithmetic on dequantized weights.

mod contract;

use crate::support::{Random, assert_same, others, pack, quantize, sane_rows, scalar};
use contract::plain_dot;
use strata_kernels::{ActFormat, ActRows, Kernels, Panels, TileMut, act_format, is_packed};
use strata_quant::*;

fn matmul(
    kernels: &Kernels,
    ty: GgmlType,
    rows: usize,
    cols: usize,
    w: &[u8],
    x: &[u8],
) -> Vec<f32> {
    let x = ActRows::new(act_format(ty), cols, x);
    let mut out = vec![f32::NAN; x.tokens() * rows];
    let tile = TileMut::from_slice(&mut out, x.tokens(), rows);
    kernels.matmul(Panels::new(ty, rows, cols, w), x, tile);
    out
}

/// Types that a matrix can have here: all but integers and the formats of activations.
fn types() -> impl Iterator<Item = GgmlType> {
    let none = [
        GgmlType::I8,
        GgmlType::I16,
        GgmlType::I32,
        GgmlType::I64,
        GgmlType::Q8_1,
        GgmlType::Q8_K,
    ];
    GgmlType::ALL
        .iter()
        .copied()
        .filter(move |ty| !none.contains(ty))
}

/// Columns worth testing: whole blocks, and odd numbers where a block is one column.
fn widths(ty: GgmlType) -> Vec<usize> {
    match ty.block_len() {
        1 => vec![1, 2, 3, 5, 64, 67, 259],
        len => [1, 2, 3, 7].map(|n| n * len).to_vec(),
    }
}

/// Activations with zeros, extremes and one block of nothing.
fn activations(random: &mut Random, tokens: usize, cols: usize) -> Vec<f32> {
    let mut x = random.floats(tokens * cols);
    for (t, row) in x.chunks_exact_mut(cols).enumerate() {
        match t % 5 {
            1 => row.iter_mut().for_each(|x| *x = x.signum()),
            2 => row.iter_mut().step_by(3).for_each(|x| *x = 0.0),
            3 => row.iter_mut().take(300).for_each(|x| *x = 0.0),
            4 => row.iter_mut().for_each(|x| *x *= 1e4),
            _ => {}
        }
    }
    x
}

#[test]
fn every_isa_gives_the_same_bits() {
    let mut random = Random::new(1);
    for ty in types() {
        for cols in widths(ty) {
            for (rows, tokens) in [
                (16, 1),
                (1, 2),
                (48, 3),
                (17, 4),
                (40, 5),
                (16, 8),
                (33, 9),
                (5, 13),
                (20, 35),
            ] {
                let bytes = sane_rows(&mut random, ty, rows, cols);
                let w = pack(ty, rows, cols, &bytes);
                let x = activations(&mut random, tokens, cols);
                let x = quantize(scalar(), act_format(ty), cols, &x);
                let expected = matmul(scalar(), ty, rows, cols, &w, &x);
                for kernels in others() {
                    let got = matmul(kernels, ty, rows, cols, &w, &x);
                    assert_same(
                        &got,
                        &expected,
                        &format!("{ty} {rows}×{cols}, {tokens} tokens, {}", kernels.isa()),
                    );
                }
            }
        }
    }
}

#[test]
fn any_bits_at_all_give_the_same_bits() {
    let mut random = Random::new(2);
    for ty in types() {
        for round in 0..40 {
            let (rows, cols, tokens) = (16, 2 * ty.block_len(), 1 + round % 9);
            let mut bytes = random.bytes(rows * cols / ty.block_len() * ty.block_bytes());
            match round {
                0 => bytes.fill(0),
                1 => bytes.fill(0xff),
                2 => bytes.fill(0x7f),
                3 => bytes.fill(0x80),
                _ => {}
            }
            let w = pack(ty, rows, cols, &bytes);
            let x = activations(&mut random, tokens, cols);
            let x = quantize(scalar(), act_format(ty), cols, &x);
            let expected = matmul(scalar(), ty, rows, cols, &w, &x);
            for kernels in others() {
                let got = matmul(kernels, ty, rows, cols, &w, &x);
                assert_same(
                    &got,
                    &expected,
                    &format!("{ty} round {round}, {}", kernels.isa()),
                );
            }
        }
    }
}

#[test]
fn a_batch_equals_its_tokens_alone() {
    let mut random = Random::new(3);
    for ty in types() {
        let (rows, cols, tokens) = (37, 2 * ty.block_len().max(64), 11);
        let w = pack(ty, rows, cols, &sane_rows(&mut random, ty, rows, cols));
        let x = activations(&mut random, tokens, cols);
        for kernels in others().into_iter().chain([scalar()]) {
            let x = quantize(kernels, act_format(ty), cols, &x);
            let batch = matmul(kernels, ty, rows, cols, &w, &x);
            let size = act_format(ty).row_bytes(cols);
            for (t, x) in x.chunks_exact(size).enumerate() {
                let alone = matmul(kernels, ty, rows, cols, &w, x);
                assert_same(
                    &batch[t * rows..][..rows],
                    &alone,
                    &format!("{ty} token {t}, {}", kernels.isa()),
                );
            }
        }
    }
}

#[test]
fn wide_matrices_carry_their_sums() {
    let mut random = Random::new(11);
    for ty in types() {
        let (rows, cols, tokens) = (35, 17 * 256, 19);
        let w = pack(ty, rows, cols, &sane_rows(&mut random, ty, rows, cols));
        let x = activations(&mut random, tokens, cols);
        let x = quantize(scalar(), act_format(ty), cols, &x);
        // A token alone is one stretch; a batch is taken in several.
        let size = act_format(ty).row_bytes(cols);
        let alone = x.chunks_exact(size);
        let expected: Vec<f32> = alone
            .flat_map(|x| matmul(scalar(), ty, rows, cols, &w, x))
            .collect();
        for kernels in others().into_iter().chain([scalar()]) {
            let got = matmul(kernels, ty, rows, cols, &w, &x);
            assert_same(&got, &expected, &format!("{ty}, {}", kernels.isa()));
        }
    }
}

#[test]
fn a_split_matrix_equals_the_whole() {
    let mut random = Random::new(4);
    for ty in [
        GgmlType::Q4_K,
        GgmlType::Q8_0,
        GgmlType::F16,
        GgmlType::IQ2_XS,
    ] {
        let (rows, cols, tokens) = (75, 512, 6);
        let w = pack(ty, rows, cols, &sane_rows(&mut random, ty, rows, cols));
        let x = activations(&mut random, tokens, cols);
        let kernels = Kernels::detect();
        let x = quantize(kernels, act_format(ty), cols, &x);
        let whole = matmul(kernels, ty, rows, cols, &w, &x);
        let mut parts = vec![0.0; tokens * rows];
        let (first, second) = Panels::new(ty, rows, cols, &w).split_rows(32);
        let (left, right) = TileMut::from_slice(&mut parts, tokens, rows).split_rows(32);
        let x = ActRows::new(act_format(ty), cols, &x);
        kernels.matmul(second, x, right);
        kernels.matmul(first, x, left);
        assert_same(&parts, &whole, ty.name());
    }
}

#[test]
fn close_to_exact_arithmetic() {
    let mut random = Random::new(5);
    for ty in types() {
        let (rows, cols) = (21, 4 * ty.block_len().max(96));
        let bytes = sane_rows(&mut random, ty, rows, cols);
        let mut weights = vec![0.0; rows * cols];
        dequantize(ty, &bytes, &mut weights).expect("whole blocks");
        let x = random.floats(cols);
        let acts = quantize(scalar(), act_format(ty), cols, &x);
        let got = matmul(
            scalar(),
            ty,
            rows,
            cols,
            &pack(ty, rows, cols, &bytes),
            &acts,
        );
        for (r, row) in weights.chunks_exact(cols).enumerate() {
            let exact: f64 = row
                .iter()
                .zip(&x)
                .map(|(&w, &x)| f64::from(w) * f64::from(x))
                .sum();
            let norm: f64 = row
                .iter()
                .map(|&w| f64::from(w).powi(2))
                .sum::<f64>()
                .sqrt();
            // Rounding to 8 bits moves each activation by up to 1/254, at random.
            let tolerance = if act_format(ty) == ActFormat::F32 {
                1e-5
            } else {
                1.5e-2
            } * norm;
            let error = (f64::from(got[r]) - exact).abs();
            assert!(
                error <= tolerance,
                "{ty} row {r}: {} against {exact}, {error} over {tolerance}",
                got[r]
            );
        }
    }
}

#[test]
fn the_reference_keeps_the_contract() {
    let mut random = Random::new(6);
    let integer = types().filter(|&ty| act_format(ty) != ActFormat::F32);
    for ty in integer {
        for round in 0..6 {
            let (rows, cols, tokens) = (18, (1 + round) * ty.block_len(), 3);
            let bytes = sane_rows(&mut random, ty, rows, cols);
            let x = activations(&mut random, tokens, cols);
            let acts = quantize(scalar(), act_format(ty), cols, &x);
            let got = matmul(
                scalar(),
                ty,
                rows,
                cols,
                &pack(ty, rows, cols, &bytes),
                &acts,
            );
            for (t, x) in x.chunks_exact(cols).enumerate() {
                let rows_bytes = bytes.chunks_exact(bytes.len() / rows);
                let expected: Vec<f32> = rows_bytes.map(|row| plain_dot(ty, row, x)).collect();
                assert_same(
                    &got[t * rows..][..rows],
                    &expected,
                    &format!("{ty} {cols} columns, token {t}"),
                );
            }
        }
    }
}

#[test]
fn float_sums_keep_the_contract() {
    let mut random = Random::new(7);
    for ty in types().filter(|&ty| act_format(ty) == ActFormat::F32) {
        for cols in widths(ty) {
            let rows = 19;
            let bytes = sane_rows(&mut random, ty, rows, cols);
            let mut weights = vec![0.0; rows * cols];
            dequantize(ty, &bytes, &mut weights).expect("whole blocks");
            let x = random.floats(cols);
            let acts = quantize(scalar(), ActFormat::F32, cols, &x);
            let got = matmul(
                scalar(),
                ty,
                rows,
                cols,
                &pack(ty, rows, cols, &bytes),
                &acts,
            );
            let expected: Vec<f32> = weights
                .chunks_exact(cols)
                .map(|row| {
                    let mut s = [0f32; 4];
                    for (i, (w, x)) in row.iter().zip(&x).enumerate() {
                        s[i % 4] = w.mul_add(*x, s[i % 4]);
                    }
                    (s[0] + s[1]) + (s[2] + s[3])
                })
                .collect();
            assert_same(&got, &expected, &format!("{ty}, {cols} columns"));
        }
    }
}

#[test]
fn quantized_activations_are_the_same_everywhere() {
    let mut random = Random::new(8);
    for format in [ActFormat::F32, ActFormat::Q8x32, ActFormat::Q8x256] {
        for round in 0..200 {
            let mut x = random.floats(512);
            match round {
                0 => x.fill(0.0),
                1 => x.fill(-0.0),
                2 => x[7] = f32::NAN,
                3 => x[500] = f32::NEG_INFINITY,
                4 => x.iter_mut().for_each(|x| *x *= 1e-42),
                5 => x.iter_mut().for_each(|x| *x *= 3e38),
                6 => x.iter_mut().for_each(|x| *x *= 1e-37),
                // Halfway between two codes.
                7 => x.iter_mut().enumerate().for_each(|(i, x)| {
                    *x = if i % 32 == 0 {
                        127.0
                    } else {
                        (i % 32) as f32 - 16.5
                    }
                }),
                _ => {}
            }
            let expected = quantize(scalar(), format, 512, &x);
            for kernels in others() {
                assert!(
                    quantize(kernels, format, 512, &x) == expected,
                    "{format:?} round {round}, {}",
                    kernels.isa()
                );
            }
        }
    }
}

#[test]
fn what_is_not_finite_shows() {
    for ty in types() {
        let (rows, cols) = (16, ty.block_len().max(4));
        let mut random = Random::new(9);
        let w = pack(ty, rows, cols, &sane_rows(&mut random, ty, rows, cols));
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut x = random.floats(cols);
            x[1] = bad;
            for kernels in others().into_iter().chain([scalar()]) {
                let acts = quantize(kernels, act_format(ty), cols, &x);
                let out = matmul(kernels, ty, rows, cols, &w, &acts);
                assert!(
                    out.iter().all(|y| !y.is_finite()),
                    "{ty} with {bad}, {}",
                    kernels.isa()
                );
            }
        }
    }
}

#[test]
fn rows_can_be_read_back() {
    let mut random = Random::new(10);
    for ty in types() {
        let (rows, cols) = (35, 2 * ty.block_len());
        let bytes = sane_rows(&mut random, ty, rows, cols);
        let packed = pack(ty, rows, cols, &bytes);
        assert!(is_packed(ty) || packed == bytes);
        let w = Panels::new(ty, rows, cols, &packed);
        for (r, row) in bytes.chunks_exact(bytes.len() / rows).enumerate() {
            let mut out = vec![0; row.len()];
            w.read_row(r, &mut out);
            assert_eq!(out, row, "{ty} row {r}");
        }
    }
}
