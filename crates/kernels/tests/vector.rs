//! Vector operations: the same bits everywhere, and close to the formulas in f64.

use crate::support::{Random, assert_same, others, same, scalar};
use strata_kernels::{Activation, Kernels, RopeKind, ln, pow, sin_cos};

const LENGTHS: [usize; 9] = [1, 2, 15, 16, 17, 31, 64, 100, 1027];

const ACTIVATIONS: [Activation; 10] = [
    Activation::Silu,
    Activation::GeluTanh,
    Activation::GeluErf,
    Activation::GeluQuick,
    Activation::Relu,
    Activation::ReluSquared,
    Activation::Sigmoid,
    Activation::Tanh,
    Activation::GeluQuickClamped,
    Activation::Xielu {
        positive: 0.8,
        negative: 1.3,
        slope: 0.5,
    },
];

/// Numbers of all sizes, with every kind that is not ordinary.
fn mixed(random: &mut Random, n: usize) -> Vec<f32> {
    let odd = [
        0.0,
        -0.0,
        1e-45,
        -1e-40,
        f32::MIN_POSITIVE,
        3e38,
        -3e38,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
    ];
    (0..n)
        .map(|_| match random.below(12) {
            0 => odd[random.below(odd.len())],
            1 => f32::from_bits(random.next() as u32),
            _ => random.unit() * 10f32.powi(random.below(5) as i32 - 2),
        })
        .collect()
}

/// Runs `f` on every instruction set and compares what it leaves in a copy of `x`.
fn everywhere(what: &str, x: &[f32], f: impl Fn(&Kernels, &mut [f32])) {
    let mut expected = x.to_vec();
    f(scalar(), &mut expected);
    for kernels in others() {
        let mut got = x.to_vec();
        f(kernels, &mut got);
        assert_same(
            &got,
            &expected,
            &format!("{what} of {}, {}", x.len(), kernels.isa()),
        );
    }
}

#[test]
fn the_same_bits_everywhere() {
    let mut random = Random::new(20);
    for n in LENGTHS {
        for finite in [true, false] {
            let (x, y) = if finite {
                (random.floats(n), random.floats(n))
            } else {
                (mixed(&mut random, n), mixed(&mut random, n))
            };
            everywhere("rms_norm", &x, |k, x| {
                k.rms_norm_in_place(x, Some(&y), 1e-5);
            });
            everywhere("rms_norm without weight", &x, |k, x| {
                k.rms_norm_in_place(x, None, 1e-6);
            });
            everywhere("layer_norm", &x, |k, x| {
                k.layer_norm_in_place(x, Some(&y), Some(&y), 1e-5);
            });
            everywhere("add", &x, |k, x| k.add(x, &y));
            everywhere("add_scaled", &x, |k, x| k.add_scaled(x, &y, 0.3));
            everywhere("mul", &x, |k, x| k.mul(x, &y));
            everywhere("scale", &x, |k, x| k.scale(x, 1.7));
            everywhere("clamp", &x, |k, x| k.clamp(x, 0.7));
            everywhere("soft_cap", &x, |k, x| k.soft_cap(x, 30.0));
            everywhere("softmax", &x, |k, x| k.softmax(x));
            everywhere("exp_sub", &x, |k, x| x[0] = k.exp_sub(&mut x.to_vec(), 0.5));
            everywhere("dot", &x, |k, x| x[0] = k.dot(x, &y));
            everywhere("max", &x, |k, x| x[0] = k.max(x));
            everywhere("argmax", &x, |k, x| x[0] = k.argmax(x) as f32);
            for kind in ACTIVATIONS {
                everywhere(&format!("{kind:?}"), &x, |k, x| k.activate(kind, x));
                everywhere(&format!("{kind:?} · up"), &x, |k, x| {
                    k.activate_mul(kind, x, &y);
                });
            }
            for positions in 1..5 {
                let numbers = if finite { Random::floats } else { mixed };
                let taps = numbers(&mut random, positions * n);
                let columns: Vec<_> = (0..positions).map(|_| numbers(&mut random, n)).collect();
                let columns: Vec<&[f32]> = columns.iter().map(|column| &column[..]).collect();
                let taps: Vec<&[f32]> = taps.chunks_exact(n).collect();
                for gate in [Some(&y[..]), None] {
                    everywhere("short_conv", &x, |k, x| {
                        k.short_conv(&taps, &columns, gate, x);
                    });
                }
            }
            let pairs = n / 2;
            for kind in [RopeKind::HalfSplit, RopeKind::Interleaved] {
                everywhere("rope", &x[..2 * pairs], |k, x| {
                    k.rope(x, &y[..pairs], &y[n - pairs..], kind);
                });
            }
        }
    }
}

#[test]
fn a_short_convolution_sums_its_taps_in_order() {
    let mut random = Random::new(21);
    let (n, positions) = (37, 3);
    let (taps, gate) = (random.floats(positions * n), random.floats(n));
    let columns = [random.floats(n), random.floats(n), random.floats(n)];
    let mut out = vec![0.0; n];
    let slices = [&columns[0][..], &columns[1], &columns[2]];
    let taps: Vec<&[f32]> = taps.chunks_exact(n).collect();
    let sums = (0..n).map(|c| {
        let add = |sum: f32, k: usize| taps[k][c].mul_add(columns[k][c], sum);
        (0..positions).fold(0.0, add)
    });
    let sums: Vec<f32> = sums.collect();
    scalar().short_conv(&taps, &slices, Some(&gate), &mut out);
    for c in 0..n {
        assert_eq!(
            out[c].to_bits(),
            (gate[c] * sums[c]).to_bits(),
            "channel {c}"
        );
    }
    scalar().short_conv(&taps, &slices, None, &mut out);
    assert_eq!(out, sums);
}

/// The unit of the last place at `x`.
fn ulp(x: f64) -> f64 {
    let x = (x.abs() as f32).max(f32::MIN_POSITIVE);
    f64::from(f32::from_bits(x.to_bits() + 1)) - f64::from(x)
}

/// The greatest error of `f` against `exact`, in units of the last place, over a sweep.
fn worst(from: f64, to: f64, f: impl Fn(&mut [f32]), exact: impl Fn(f64) -> f64) -> f64 {
    let n = 400_000;
    let x: Vec<f32> = (0..n)
        .map(|i| (from + (to - from) * f64::from(i) / f64::from(n)) as f32)
        .collect();
    let mut y = x.clone();
    f(&mut y);
    let errors = x.iter().zip(&y).map(|(&x, &y)| {
        let exact = exact(f64::from(x));
        (f64::from(y) - exact).abs() / ulp(exact)
    });
    errors.fold(0.0, f64::max)
}

#[test]
fn exp_is_accurate() {
    let k = scalar();
    let exp = |x: &mut [f32]| {
        k.exp_sub(x, 0.0);
    };
    for (from, to) in [(-87.3, 88.72), (-1.0, 1.0), (-103.0, -87.0)] {
        let error = worst(from, to, exp, f64::exp);
        assert!(error <= 1.1, "e^x on {from}..{to} is off by {error} units");
    }
    let mut x = [
        f32::NEG_INFINITY,
        -104.0,
        -1e30,
        0.0,
        88.8,
        f32::INFINITY,
        1e30,
        f32::NAN,
    ];
    k.exp_sub(&mut x, 0.0);
    assert_eq!(
        x[..7],
        [
            0.0,
            0.0,
            0.0,
            1.0,
            f32::INFINITY,
            f32::INFINITY,
            f32::INFINITY
        ]
    );
    assert!(x[7].is_nan());
}

#[test]
fn activations_are_accurate() {
    let k = scalar();
    let tanh = worst(-10.0, 10.0, |x| k.activate(Activation::Tanh, x), f64::tanh);
    assert!(tanh <= 2.0, "tanh is off by {tanh} units");
    let sigmoid = worst(
        -80.0,
        80.0,
        |x| k.activate(Activation::Sigmoid, x),
        |x| 1.0 / (1.0 + (-x).exp()),
    );
    assert!(sigmoid <= 3.0, "sigmoid is off by {sigmoid} units");
    let silu = worst(
        -80.0,
        80.0,
        |x| k.activate(Activation::Silu, x),
        |x| x / (1.0 + (-x).exp()),
    );
    assert!(silu <= 4.0, "silu is off by {silu} units");
    let mut edge = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -0.0, 1e-30];
    k.activate(Activation::Tanh, &mut edge);
    assert!(edge[0] == 1.0 && edge[1] == -1.0 && edge[2].is_nan() && edge[4] == 1e-30);
    assert_eq!(edge[3], 0.0);
    let mut nan = [f32::NAN];
    k.activate(Activation::Relu, &mut nan);
    assert!(nan[0].is_nan(), "NaN is not hidden");
}

/// erf by its series and by the continued fraction of erfc.
fn erf(x: f64) -> f64 {
    if x.abs() < 3.0 {
        let (mut term, mut sum) = (x, x);
        for n in 1..100 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    } else {
        let a = x.abs();
        let fraction = (1..60).rev().fold(a, |f, n| a + f64::from(n) / 2.0 / f);
        (1.0 - (-a * a).exp() / fraction / std::f64::consts::PI.sqrt()).copysign(x)
    }
}

#[test]
fn gelu_is_accurate() {
    let k = scalar();
    let n = 200_000;
    for i in 0..n {
        let x = (f64::from(i) / f64::from(n) * 24.0 - 12.0) as f32;
        let mut y = [x, x, x];
        let [a, b, c] = &mut y;
        k.activate(Activation::GeluErf, std::slice::from_mut(a));
        k.activate(Activation::GeluTanh, std::slice::from_mut(b));
        k.activate(Activation::GeluQuick, std::slice::from_mut(c));
        let x = f64::from(x);
        let exact = [
            0.5 * x * (1.0 + erf(x * std::f64::consts::FRAC_1_SQRT_2)),
            0.5 * x
                * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh()),
            x / (1.0 + (-1.702 * x).exp()),
        ];
        for (y, exact) in y.iter().zip(exact) {
            let error = (f64::from(*y) - exact).abs();
            assert!(error <= 3e-7 * x.abs().max(1.0), "{x}: {y} against {exact}");
        }
    }
}

#[test]
fn angles_are_accurate_however_large() {
    let mut random = Random::new(21);
    for _ in 0..20_000 {
        let angle = f64::from(random.unit()) * 10f64.powi(random.below(9) as i32 - 1);
        let (sin, cos) = sin_cos(angle);
        assert!((f64::from(sin) - angle.sin()).abs() < 1e-7, "sin {angle}");
        assert!((f64::from(cos) - angle.cos()).abs() < 1e-7, "cos {angle}");
    }
    assert!((pow(10000.0, -0.25) - 0.1).abs() < 1e-15);
    assert!((ln(pow(2.0, 40.0)) - 40.0 * std::f64::consts::LN_2).abs() < 1e-13);
}

#[test]
fn norms_follow_their_formulas() {
    let mut random = Random::new(22);
    let k = Kernels::detect();
    for n in LENGTHS {
        let (x, w, b) = (random.floats(n), random.floats(n), random.floats(n));
        let exact: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
        let mut out = vec![0.0; n];
        k.rms_norm(&x, Some(&w), 1e-5, &mut out);
        let mean = exact.iter().map(|x| x * x).sum::<f64>() / n as f64;
        for i in 0..n {
            let expected = exact[i] / (mean + 1e-5).sqrt() * f64::from(w[i]);
            assert!(
                (f64::from(out[i]) - expected).abs() < 1e-6,
                "rms_norm of {n}"
            );
        }
        k.layer_norm(&x, Some(&w), Some(&b), 1e-5, &mut out);
        let mean = exact.iter().sum::<f64>() / n as f64;
        let variance = exact.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n as f64;
        for i in 0..n {
            let expected =
                (exact[i] - mean) / (variance + 1e-5).sqrt() * f64::from(w[i]) + f64::from(b[i]);
            assert!(
                (f64::from(out[i]) - expected).abs() < 3e-6,
                "layer_norm of {n}"
            );
        }
    }
}

#[test]
fn sums_keep_the_contract() {
    let mut random = Random::new(23);
    for n in LENGTHS {
        let (a, b) = (random.floats(n), random.floats(n));
        let mut lanes = [0f32; 16];
        for i in 0..n {
            lanes[i % 16] = a[i].mul_add(b[i], lanes[i % 16]);
        }
        for half in [8, 4, 2, 1] {
            for j in 0..half {
                lanes[j] += lanes[j + half];
            }
        }
        for kernels in others().into_iter().chain([scalar()]) {
            assert!(
                same(kernels.dot(&a, &b), lanes[0]),
                "{n}, {}",
                kernels.isa()
            );
        }
    }
}

#[test]
fn softmax_sums_to_one() {
    let mut random = Random::new(24);
    for n in LENGTHS {
        let mut x: Vec<f32> = random.floats(n).iter().map(|x| x * 60.0).collect();
        let exact: Vec<f64> = x.iter().map(|&x| f64::from(x).exp()).collect();
        let sum: f64 = exact.iter().sum();
        Kernels::detect().softmax(&mut x);
        for (x, exact) in x.iter().zip(&exact) {
            assert!((f64::from(*x) - exact / sum).abs() < 1e-6);
        }
        assert!((x.iter().sum::<f32>() - 1.0).abs() < 1e-5);
    }
    let mut masked = [f32::NEG_INFINITY, 3.0, f32::NEG_INFINITY];
    Kernels::detect().softmax(&mut masked);
    assert_eq!(masked, [0.0, 1.0, 0.0]);
}

#[test]
fn the_first_of_equals() {
    for kernels in others().into_iter().chain([scalar()]) {
        let mut x = vec![1.0; 50];
        assert_eq!(kernels.argmax(&x), 0);
        x[33] = 2.0;
        x[34] = 2.0;
        assert_eq!(kernels.argmax(&x), 33);
        x[3] = f32::NAN;
        assert_eq!(kernels.argmax(&x), 33);
        assert_eq!(kernels.argmax(&[f32::NAN; 20]), 0);
        assert_eq!(kernels.argmax(&[f32::NEG_INFINITY; 20]), 0);
        assert_eq!(kernels.argmax(&[]), 0);
        assert_eq!(kernels.max(&[-3.0, f32::NAN, -2.0]), -2.0);
    }
}

#[test]
fn rope_turns_pairs() {
    let (sin, cos) = sin_cos(std::f64::consts::FRAC_PI_2);
    let mut x = [1.0, 2.0, 3.0, 4.0];
    Kernels::detect().rope(&mut x, &[cos, 1.0], &[sin, 0.0], RopeKind::HalfSplit);
    assert!((x[0] + 3.0).abs() < 1e-6 && (x[2] - 1.0).abs() < 1e-6);
    assert_eq!((x[1], x[3]), (2.0, 4.0));
    let mut x = [1.0, 2.0, 3.0, 4.0];
    Kernels::detect().rope(&mut x, &[cos, 1.0], &[sin, 0.0], RopeKind::Interleaved);
    assert!((x[0] + 2.0).abs() < 1e-6 && (x[1] - 1.0).abs() < 1e-6);
    assert_eq!((x[2], x[3]), (3.0, 4.0));
}
