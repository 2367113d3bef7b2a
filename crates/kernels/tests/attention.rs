//! Stored keys and values: the same bits everywhere, the contract written out, and small errors.

use crate::support::{Random, assert_same, others, same, scalar};
use strata_kernels::{Kernels, KvRows, KvType, Partial};
use strata_quant::{F16, GgmlType, dequantize};

const KINDS: [KvType; 3] = [KvType::F32, KvType::F16, KvType::Q8_0];

/// Head sizes that the format takes.
fn head_dims(kind: KvType) -> &'static [usize] {
    if kind == KvType::Q8_0 {
        &[32, 64, 96, 128, 256]
    } else {
        &[1, 15, 16, 24, 64, 80, 96, 100, 128, 256]
    }
}

fn store(kernels: &Kernels, kind: KvType, dim: usize, x: &[f32]) -> Vec<u8> {
    let size = kind.row_bytes(dim);
    let mut out = vec![0; x.len() / dim * size];
    for (x, out) in x.chunks_exact(dim).zip(out.chunks_exact_mut(size)) {
        kernels.kv_store(kind, x, out);
    }
    out
}

/// What stored rows mean.
fn read(kind: KvType, bytes: &[u8], n: usize) -> Vec<f32> {
    let ty = match kind {
        KvType::F32 => GgmlType::F32,
        KvType::F16 => GgmlType::F16,
        KvType::Q8_0 => GgmlType::Q8_0,
    };
    let mut out = vec![0.0; n];
    dequantize(ty, bytes, &mut out).expect("whole blocks");
    out
}

#[test]
fn every_isa_gives_the_bits_of_the_contract() {
    let mut random = Random::new(30);
    for kind in KINDS {
        for &dim in head_dims(kind) {
            for (heads, n) in [(1, 1), (2, 7), (3, 16), (4, 33), (7, 5), (8, 64)] {
                let rows = random.floats(n * dim);
                let stored = store(scalar(), kind, dim, &rows);
                let values = read(kind, &stored, n * dim);
                let (q, p) = (random.floats(heads * dim), random.floats(heads * n));
                let start = random.floats(heads * dim);
                let what = format!("{kind:?} {heads} heads of {dim}, {n} rows");

                let mut scores = vec![0.0; heads * n];
                let mut acc = start.clone();
                for h in 0..heads {
                    for j in 0..n {
                        scores[h * n + j] =
                            0.125 * lane_dot(&q[h * dim..][..dim], &values[j * dim..][..dim]);
                        for d in 0..dim {
                            acc[h * dim + d] =
                                p[h * n + j].mul_add(values[j * dim + d], acc[h * dim + d]);
                        }
                    }
                }
                for kernels in others().into_iter().chain([scalar()]) {
                    assert!(
                        store(kernels, kind, dim, &rows) == stored,
                        "{what}, {}",
                        kernels.isa()
                    );
                    let mut out = vec![f32::NAN; heads * n];
                    kernels.kv_scores(&q, KvRows::new(kind, dim, &stored), 0.125, &mut out, n);
                    assert_same(&out, &scores, &format!("scores, {what}, {}", kernels.isa()));
                    let mut out = start.clone();
                    kernels.kv_accumulate(&p, n, KvRows::new(kind, dim, &stored), &mut out);
                    assert_same(&out, &acc, &format!("values, {what}, {}", kernels.isa()));
                }
            }
        }
    }
}

/// A sum in 16 lanes, joined as a tree.
fn lane_dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0f32; 16];
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        lanes[i % 16] = a.mul_add(*b, lanes[i % 16]);
    }
    for half in [8, 4, 2, 1] {
        for j in 0..half {
            lanes[j] += lanes[j + half];
        }
    }
    lanes[0]
}

#[test]
fn stored_numbers_are_the_nearest() {
    let mut random = Random::new(31);
    for round in 0..300 {
        let scale = 10f32.powi(round % 13 - 8);
        let x: Vec<f32> = random.floats(64).iter().map(|x| x * scale).collect();
        for kernels in others().into_iter().chain([scalar()]) {
            let half = store(kernels, KvType::F16, 64, &x);
            for (x, half) in x.iter().zip(half.chunks_exact(2)) {
                assert_eq!(half, F16::from_f32(*x).0, "{x}");
            }
            let stored = store(kernels, KvType::Q8_0, 64, &x);
            for (x, y) in x
                .chunks_exact(32)
                .zip(read(KvType::Q8_0, &stored, 64).chunks_exact(32))
            {
                let amax = x.iter().fold(0f32, |max, x| max.max(x.abs()));
                // Half a step, a little more for the scale's own rounding; below f16's range nothing can be kept.
                let tolerance = amax / 127.0 * 0.51 + 127.0 * 6e-8;
                assert!(
                    x.iter().zip(y).all(|(x, y)| (x - y).abs() <= tolerance),
                    "{amax}"
                );
            }
        }
    }
}

#[test]
fn extremes_are_stored_the_same_everywhere() {
    let mut random = Random::new(32);
    let odd = [
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        3e38,
        -3e38,
        1e-45,
        65504.0,
        65520.0,
        1e7,
        -0.0,
    ];
    for kind in KINDS {
        for &value in &odd {
            let mut x = random.floats(128);
            x[37] = value;
            let expected = store(scalar(), kind, 128, &x);
            for kernels in others() {
                assert!(
                    store(kernels, kind, 128, &x) == expected,
                    "{kind:?} {value}, {}",
                    kernels.isa()
                );
            }
            if value.is_nan() {
                assert!(read(kind, &expected, 128)[37].is_nan(), "NaN is not hidden");
            }
            let mut scores = [0.0];
            let rows = KvRows::new(kind, 128, &expected);
            scalar().kv_scores(&x, rows, 1.0, &mut scores, 1);
            for kernels in others() {
                let mut got = [0.0];
                kernels.kv_scores(&x, rows, 1.0, &mut got, 1);
                assert!(
                    same(got[0], scores[0]),
                    "{kind:?} {value}, {}",
                    kernels.isa()
                );
            }
        }
    }
}

#[test]
fn no_rows_change_nothing() {
    let mut acc = [1.0, 2.0];
    let rows = KvRows::new(KvType::F16, 1, &[]);
    Kernels::detect().kv_accumulate(&[0.0; 2], 1, rows, &mut acc);
    let mut scores = [3.0; 2];
    Kernels::detect().kv_scores(&acc, rows, 1.0, &mut scores, 1);
    assert_eq!(scores, [3.0; 2]);
    assert_eq!(acc, [1.0, 2.0]);
}

/// Attention of several heads over `n` rows, in runs of `run` positions.
fn attend(
    kernels: &Kernels,
    (q, k, v): (&[f32], &[f32], &[f32]),
    dim: usize,
    run: usize,
    sinks: Option<&[f32]>,
) -> Vec<f32> {
    let heads = q.len() / dim;
    let mut total: Option<[Vec<f32>; 3]> = None;
    for (k, v) in k.chunks(run * dim).zip(v.chunks(run * dim)) {
        let n = k.len() / dim;
        // Scores further apart than they need be, with something between them that must not be touched.
        let stride = n + 3;
        let mut p = vec![7.0; heads * stride];
        let (mut maxima, mut sums) = (vec![0.0; heads], vec![0.0; heads]);
        let mut acc = vec![0.0; heads * dim];
        let keys = store(kernels, KvType::F32, dim, k);
        let values = store(kernels, KvType::F32, dim, v);
        let keys = KvRows::new(KvType::F32, dim, &keys);
        kernels.kv_scores(q, keys, 0.125, &mut p, stride);
        for (h, p) in p.chunks_exact_mut(stride).enumerate() {
            assert_eq!(p[n..], [7.0; 3]);
            maxima[h] = kernels.max(&p[..n]);
            sums[h] = kernels.exp_sub(&mut p[..n], maxima[h]);
        }
        let values = KvRows::new(KvType::F32, dim, &values);
        kernels.kv_accumulate(&p, stride, values, &mut acc);
        let mut next = [maxima, sums, acc];
        total = Some(match total {
            None => next,
            Some(mut total) => {
                partial(&mut total).join(kernels, &partial(&mut next));
                total
            }
        });
    }
    let mut total = total.expect("at least one row");
    partial(&mut total).finish(kernels, sinks);
    total[2].clone()
}

fn partial([maxima, sums, acc]: &mut [Vec<f32>; 3]) -> Partial<'_> {
    Partial { maxima, sums, acc }
}

#[test]
fn a_softmax_in_parts_with_sinks_is_the_softmax() {
    let mut random = Random::new(33);
    let (heads, dim, n) = (3, 24, 100);
    // Scores up to hundreds: a maximum that is missed overflows.
    let q: Vec<f32> = random
        .floats(heads * dim)
        .iter()
        .map(|q| q * 40.0)
        .collect();
    let (k, v) = (random.floats(n * dim), random.floats(n * dim));
    for sinks in [None, Some([0.5, -300.0, 900.0])] {
        let mut expected = vec![0.0; heads * dim];
        for h in 0..heads {
            let score = |j: usize| {
                let products = q[h * dim..][..dim].iter().zip(&k[j * dim..][..dim]);
                0.125 * products.map(|(q, k)| f64::from(q * k)).sum::<f64>()
            };
            let sink = sinks.map_or(f64::NEG_INFINITY, |sinks| f64::from(sinks[h]));
            let maximum = (0..n).map(score).fold(sink, f64::max);
            let sum: f64 =
                (sink - maximum).exp() + (0..n).map(|j| (score(j) - maximum).exp()).sum::<f64>();
            for d in 0..dim {
                let weighted = |j: usize| (score(j) - maximum).exp() * f64::from(v[j * dim + d]);
                expected[h * dim + d] = (0..n).map(weighted).sum::<f64>() / sum;
            }
        }
        for run in [100, 64, 1] {
            let sinks = sinks.as_ref().map(|sinks| &sinks[..]);
            let got = attend(scalar(), (&q, &k, &v), dim, run, sinks);
            for (got, expected) in got.iter().zip(&expected) {
                let error = (f64::from(*got) - expected).abs();
                assert!(
                    error < 2e-5,
                    "{got} for {expected}, runs of {run}, {sinks:?}"
                );
            }
            for kernels in others() {
                let other = attend(kernels, (&q, &k, &v), dim, run, sinks);
                assert_same(&other, &got, &format!("runs of {run}, {}", kernels.isa()));
            }
        }
    }
}
