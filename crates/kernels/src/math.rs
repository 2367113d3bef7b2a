//! Elementary functions, written once over the lanes, so that every ISA rounds in the same places.
//!
//! The polynomials were fitted to the functions with weighted least squares on Chebyshev nodes, close to minimax.

use crate::lanes::Lanes;

/// c0 + c1 · x + c2 · x² …
#[inline(always)]
fn polynomial<L: Lanes, const N: usize>(l: L, x: L::F, c: [f32; N]) -> L::F {
    let mut sum = l.splat_f(c[N - 1]);
    for i in (0..N - 1).rev() {
        sum = l.fma(sum, x, l.splat_f(c[i]));
    }
    sum
}

/// e^x, within 1.1 units of the last place; 0 below, infinity above, NaN for NaN.
#[inline(always)]
pub(crate) fn exp<L: Lanes>(l: L, x: L::F) -> L::F {
    // Next to this number the step of f32 is 1, so adding it rounds, and leaves the integer in the lower bits.
    const ROUND: f32 = 12_582_912.0;
    const LN_2: f32 = core::f32::consts::LN_2;
    const LN_2_REST: f32 = -1.904_654_3e-9;
    // Past these the result is 0 or infinite all the same. NaN goes through.
    let x = l.max_f(l.splat_f(-104.0), l.min_f(l.splat_f(89.0), x));
    let rounded = l.fma(x, l.splat_f(core::f32::consts::LOG2_E), l.splat_f(ROUND));
    let n = l.sub_f(rounded, l.splat_f(ROUND));
    let r = l.fnma(n, l.splat_f(LN_2), x);
    let r = l.fnma(n, l.splat_f(LN_2_REST), r);
    let tail = polynomial(
        l,
        r,
        [
            0.5,
            0.166_665_12,
            0.041_666_187,
            0.008_369_599,
            0.001_395_171_7,
        ],
    );
    let y = l.add_f(l.fma(tail, l.mul_f(r, r), r), l.splat_f(1.0));
    // 2^n in two factors, so that subnormal results and the largest ones are rounded once.
    let n = l.sub(l.bits(rounded), l.splat(ROUND.to_bits() as i32));
    let half = l.sar(n, 1);
    l.mul_f(
        l.mul_f(y, power_of_2(l, half)),
        power_of_2(l, l.sub(n, half)),
    )
}

/// 2^n for n within the normal exponents.
#[inline(always)]
fn power_of_2<L: Lanes>(l: L, n: L::I) -> L::F {
    l.of_bits(l.shl(l.add(n, l.splat(127)), 23))
}

/// |x|.
#[inline(always)]
fn magnitude<L: Lanes>(l: L, x: L::F) -> L::F {
    l.of_bits(l.and(l.bits(x), l.splat(i32::MAX)))
}

/// The magnitude `a` with the sign of `x`.
#[inline(always)]
fn with_sign<L: Lanes>(l: L, a: L::F, x: L::F) -> L::F {
    l.of_bits(l.or(l.bits(a), l.and(l.bits(x), l.splat(i32::MIN))))
}

/// The hyperbolic tangent, within 2 units of the last place.
#[inline(always)]
pub(crate) fn tanh<L: Lanes>(l: L, x: L::F) -> L::F {
    let a = magnitude(l, x);
    // Near zero 1 − 2 / (e^2a + 1) cancels.
    let z = l.mul_f(x, x);
    let tail = polynomial(
        l,
        z,
        [
            -0.333_333_3,
            0.133_331_8,
            -0.053_943_4,
            0.021_681_642,
            -0.008_128_997,
            0.002_097_718_2,
        ],
    );
    let near = l.fma(l.mul_f(tail, z), x, x);
    let one = l.splat_f(1.0);
    let e = exp(l, l.add_f(a, a));
    let far = l.sub_f(one, l.div_f(l.splat_f(2.0), l.add_f(e, one)));
    l.select_lt(a, l.splat_f(0.625), near, with_sign(l, far, x))
}

/// The error function, within 2e-7.
#[inline(always)]
pub(crate) fn erf<L: Lanes>(l: L, x: L::F) -> L::F {
    let a = magnitude(l, x);
    let z = l.mul_f(x, x);
    let tail = polynomial(
        l,
        z,
        [
            0.128_379_17,
            -0.376_126_26,
            0.112_836,
            -0.026_854_444,
            0.005_189_535,
            -0.000_802_084_1,
            7.889_119e-5,
        ],
    );
    let near = l.fma(tail, x, x);
    // The logarithm of 1 − erf; past 4 that is less than half a unit of the last place of 1. NaN goes through.
    let b = l.min_f(l.splat_f(4.0), a);
    let log = polynomial(
        l,
        b,
        [
            -0.000_353_708_92,
            -1.127_04,
            -0.638_225_6,
            -0.103_037_44,
            0.021_805_352,
            -0.002_939_615_9,
            0.000_185_574_9,
        ],
    );
    let far = l.sub_f(l.splat_f(1.0), exp(l, log));
    l.select_lt(a, l.splat_f(1.0), near, with_sign(l, far, x))
}

/// 1 / (1 + e^−x).
#[inline(always)]
pub(crate) fn sigmoid<L: Lanes>(l: L, x: L::F) -> L::F {
    let one = l.splat_f(1.0);
    l.div_f(one, l.add_f(one, exp(l, l.sub_f(l.splat_f(-0.0), x))))
}
