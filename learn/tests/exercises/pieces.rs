//! Checks of the exercises of parts 3 and 4.

use strata_kernels::{Activation, Kernels, RopeKind, sin_cos};
use strata_learn::demos::numbers;
use strata_learn::sampling::{Candidate, candidates};

use crate::sampling::{assert_kept, cases};

fn assert_near(ours: &[f32], expected: &[f32]) {
    assert_eq!(ours.len(), expected.len());
    for (ours, expected) in ours.iter().zip(expected) {
        assert!(
            (ours - expected).abs() < 1e-5,
            "{ours} instead of {expected}"
        );
    }
}

type LayerNorm = fn(&[f32], &[f32], &[f32], f32) -> Vec<f32>;

pub(super) fn layer_norm(layer_norm: LayerNorm) {
    let (x, weight, bias) = (numbers(96, 1), numbers(96, 2), numbers(96, 3));
    let mut expected = vec![0.0; 96];
    Kernels::detect().layer_norm(&x, Some(&weight), Some(&bias), 1e-5, &mut expected);
    assert_near(&layer_norm(&x, &weight, &bias, 1e-5), &expected);
}

pub(super) fn half_split(rope: fn(&mut [f32], &[(f32, f32)])) {
    let mut head = numbers(64, 4);
    let mut expected = head.clone();
    let angles: Vec<_> = (0..32).map(|i| sin_cos(0.1 * f64::from(i))).collect();
    let (sin, cos): (Vec<f32>, Vec<f32>) = angles.iter().copied().unzip();
    Kernels::detect().rope(&mut expected, &cos, &sin, RopeKind::HalfSplit);
    rope(&mut head, &angles);
    assert_eq!(head, expected);
}

pub(super) fn gelu(gelu: fn(f32) -> f32) {
    let mut expected: Vec<f32> = (-40..40).map(|x| x as f32 / 8.0).collect();
    let ours: Vec<f32> = expected.iter().map(|x| gelu(*x)).collect();
    Kernels::detect().activate(Activation::GeluTanh, &mut expected);
    assert_near(&ours, &expected);
}

pub(super) fn top_n_sigma(top_n_sigma: fn(&mut Vec<Candidate>, f64)) {
    let mut checked = 0;
    for case in cases().iter().filter(|case| case.sampler == "top_n_sigma") {
        let mut list = candidates(&case.logits);
        top_n_sigma(&mut list, case.value);
        assert_kept(&list, case);
        checked += 1;
    }
    assert!(checked >= 4, "{checked} vectors");
}

type Attend = fn(&[f32], &[Vec<f32>], &[Vec<f32>], usize) -> Vec<f32>;

pub(super) fn window(attend: Attend) {
    let rows = |seed: u64| (0..9).map(|i| numbers(8, seed + i)).collect::<Vec<_>>();
    let (q, keys, values) = (numbers(8, 1), rows(10), rows(30));
    // Weights in f64, over the last four positions.
    let weight = |key: &[f32]| {
        let dot = key.iter().zip(&q).map(|(k, q)| f64::from(k * q));
        (dot.sum::<f64>() / 8f64.sqrt()).exp()
    };
    let weights: Vec<f64> = keys[5..].iter().map(|key| weight(key)).collect();
    let sum: f64 = weights.iter().sum();
    let expected: Vec<f32> = (0..8)
        .map(|i| {
            let parts = weights.iter().zip(&values[5..]);
            parts.map(|(w, v)| w / sum * f64::from(v[i])).sum::<f64>() as f32
        })
        .collect();
    assert_near(&attend(&q, &keys, &values, 4), &expected);
    // One position is its value; a window beyond the start is all there is.
    assert_near(&attend(&q, &keys, &values, 1), &values[8]);
    assert_eq!(
        attend(&q, &keys, &values, 9),
        attend(&q, &keys, &values, 99)
    );
}

pub(super) fn surprise(surprise: fn(&[f32], u32) -> f32) {
    assert!((surprise(&[0.0; 4], 2) - 4f32.ln()).abs() < 1e-6);
    let logits = [1000.0, 999.0, -1000.0];
    let expected = (1.0 + (-1f32).exp()).ln();
    assert!((surprise(&logits, 0) - expected).abs() < 1e-4);
    assert!((surprise(&logits, 1) - expected - 1.0).abs() < 1e-4);
}
