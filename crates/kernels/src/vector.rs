//! Operations on vectors of f32: norms, activation functions, softmax and plain arithmetic.
//!
//! A sum over a vector runs in 16 lanes: element i goes to lane i modulo 16, in order, and the lanes are then added as
//! [`Lanes::sum`] says. What is computed element by element needs no such care.

use crate::lanes::{Dot, Lanes, MAX_PARTS, Op};
use crate::math;

/// The function between the two matrices of a feed-forward layer.
#[derive(Copy, Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Activation {
    /// x · sigmoid(x).
    Silu,
    /// GELU by its approximation with tanh.
    GeluTanh,
    /// GELU by the error function.
    GeluErf,
    /// x · sigmoid(1.702 x).
    GeluQuick,
    /// max(x, 0).
    Relu,
    /// max(x, 0)².
    ReluSquared,
    /// 1 / (1 + e^−x).
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
    /// gpt-oss: x · sigmoid(1.702 x) of min(x, 7). What it gates is clamped to ±7 and raised by 1.
    GeluQuickClamped,
    /// xIELU (<https://arxiv.org/abs/2411.13010>): αp x² + βx above 0, αn (eˣ − 1 − x) + βx below.
    Xielu {
        /// αp.
        positive: f32,
        /// αn.
        negative: f32,
        /// β.
        slope: f32,
    },
}

/// What gpt-oss limits gates and what they gate to.
const CLAMP: f32 = 7.0;

/// A function of one number.
trait Unary: Copy {
    /// Must be `#[inline(always)]`.
    fn apply<L: Lanes>(self, l: L, x: L::F) -> L::F;
}

/// Declares functions of one number.
macro_rules! unary {
    ($($name:ident: |$l:ident, $x:ident| $body:expr;)*) => {$(
        #[derive(Copy, Clone)]
        struct $name;
        impl Unary for $name {
            #[inline(always)]
            fn apply<L: Lanes>(self, $l: L, $x: L::F) -> L::F {
                $body
            }
        }
    )*};
}

unary! {
    Silu: |l, x| l.mul_f(x, math::sigmoid(l, x));
    GeluTanh: |l, x| {
        const SQRT_2_OVER_PI: f32 = 0.797_884_6;
        let inner = l.fma(l.splat_f(0.044_715), l.mul_f(x, x), l.splat_f(1.0));
        let inner = l.mul_f(l.mul_f(l.splat_f(SQRT_2_OVER_PI), x), inner);
        half_times_one_plus(l, x, math::tanh(l, inner))
    };
    GeluErf: |l, x| {
        let inner = l.mul_f(x, l.splat_f(core::f32::consts::FRAC_1_SQRT_2));
        half_times_one_plus(l, x, math::erf(l, inner))
    };
    GeluQuick: |l, x| l.mul_f(x, math::sigmoid(l, l.mul_f(x, l.splat_f(1.702))));
    GeluQuickClamped: |l, x| GeluQuick.apply(l, l.min_f(l.splat_f(CLAMP), x));
    Relu: |l, x| l.max_f(l.splat_f(0.0), x);
    ReluSquared: |l, x| {
        let positive = l.max_f(l.splat_f(0.0), x);
        l.mul_f(positive, positive)
    };
    Sigmoid: |l, x| math::sigmoid(l, x);
    Tanh: |l, x| math::tanh(l, x);
}

/// [`Activation::Xielu`].
#[derive(Copy, Clone)]
struct Xielu {
    positive: f32,
    negative: f32,
    slope: f32,
}

impl Unary for Xielu {
    #[inline(always)]
    fn apply<L: Lanes>(self, l: L, x: L::F) -> L::F {
        let zero = l.splat_f(0.0);
        let (above, below) = (l.max_f(zero, x), l.min_f(zero, x));
        let bent = l.sub_f(l.sub_f(math::exp(l, below), l.splat_f(1.0)), below);
        let line = l.mul_f(l.splat_f(self.slope), x);
        let line = l.fma(l.splat_f(self.negative), bent, line);
        l.fma(l.mul_f(l.splat_f(self.positive), above), above, line)
    }
}

/// x / 2 · (1 + y).
#[inline(always)]
fn half_times_one_plus<L: Lanes>(l: L, x: L::F, y: L::F) -> L::F {
    l.mul_f(l.mul_f(l.splat_f(0.5), x), l.add_f(l.splat_f(1.0), y))
}

/// cap · tanh(x / cap).
#[derive(Copy, Clone)]
struct Cap {
    cap: f32,
    inverse: f32,
}

impl Unary for Cap {
    #[inline(always)]
    fn apply<L: Lanes>(self, l: L, x: L::F) -> L::F {
        l.mul_f(
            l.splat_f(self.cap),
            math::tanh(l, l.mul_f(x, l.splat_f(self.inverse))),
        )
    }
}

/// x = f(x).
#[inline(always)]
fn map<L: Lanes, U: Unary>(l: L, f: U, x: &mut [f32]) {
    let (chunks, rest) = x.as_chunks_mut::<16>();
    for x in chunks {
        for part in 0..L::PARTS {
            l.store_f(f.apply(l, l.load_f(x, part)), x, part);
        }
    }
    if !rest.is_empty() {
        let mut x = padded(rest, 0.0);
        for part in 0..L::PARTS {
            l.store_f(f.apply(l, l.load_f(&x, part)), &mut x, part);
        }
        rest.copy_from_slice(&x[..rest.len()]);
    }
}

/// Fewer than 16 floats, filled up.
#[inline(always)]
pub(crate) fn padded(rest: &[f32], fill: f32) -> [f32; 16] {
    let mut chunk = [fill; 16];
    chunk[..rest.len()].copy_from_slice(rest);
    chunk
}

/// x = f(x).
pub(crate) struct Activate<'a> {
    pub(crate) kind: Activation,
    pub(crate) x: &'a mut [f32],
}

impl Op for Activate<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Dot>(self, l: L) {
        match self.kind {
            Activation::Silu => map(l, Silu, self.x),
            Activation::GeluTanh => map(l, GeluTanh, self.x),
            Activation::GeluErf => map(l, GeluErf, self.x),
            Activation::GeluQuick => map(l, GeluQuick, self.x),
            Activation::Relu => map(l, Relu, self.x),
            Activation::ReluSquared => map(l, ReluSquared, self.x),
            Activation::Sigmoid => map(l, Sigmoid, self.x),
            Activation::Tanh => map(l, Tanh, self.x),
            Activation::GeluQuickClamped => map(l, GeluQuickClamped, self.x),
            Activation::Xielu {
                positive,
                negative,
                slope,
            } => {
                let xielu = Xielu {
                    positive,
                    negative,
                    slope,
                };
                map(l, xielu, self.x);
            }
        }
    }
}

/// x = cap · tanh(x / cap).
pub(crate) struct SoftCap<'a> {
    pub(crate) x: &'a mut [f32],
    pub(crate) cap: f32,
}

impl Op for SoftCap<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Dot>(self, l: L) {
        map(
            l,
            Cap {
                cap: self.cap,
                inverse: 1.0 / self.cap,
            },
            self.x,
        );
    }
}

/// Plain arithmetic, element by element.
pub(crate) enum Arithmetic<'a> {
    /// x += y.
    Add(&'a mut [f32], &'a [f32]),
    /// x += s · y, the product rounded first.
    AddScaled(&'a mut [f32], &'a [f32], f32),
    /// x *= y.
    Mul(&'a mut [f32], &'a [f32]),
    /// x *= y + 1, where y is clamped to ±[`CLAMP`].
    MulClamped(&'a mut [f32], &'a [f32]),
    /// x *= s.
    Scale(&'a mut [f32], f32),
    /// x = x clamped to ±s.
    Clamp(&'a mut [f32], f32),
}

impl Op for Arithmetic<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Dot>(self, _: L) {
        match self {
            Self::Add(x, y) => x.iter_mut().zip(y).for_each(|(x, y)| *x += y),
            Self::AddScaled(x, y, s) => x.iter_mut().zip(y).for_each(|(x, y)| *x += s * y),
            Self::Mul(x, y) => x.iter_mut().zip(y).for_each(|(x, y)| *x *= y),
            Self::MulClamped(x, y) => {
                let pairs = x.iter_mut().zip(y);
                pairs.for_each(|(x, y)| *x *= y.clamp(-CLAMP, CLAMP) + 1.0);
            }
            Self::Scale(x, s) => x.iter_mut().for_each(|x| *x *= s),
            Self::Clamp(x, s) => x.iter_mut().for_each(|x| *x = x.clamp(-s, s)),
        }
    }
}

/// a · b.
pub(crate) struct DotProduct<'a>(pub(crate) &'a [f32], pub(crate) &'a [f32]);

// ANCHOR: dot_product
impl Op for DotProduct<'_> {
    type Out = f32;

    #[inline(always)]
    fn run<L: Dot>(self, l: L) -> f32 {
        let mut lanes = [l.splat_f(0.0); MAX_PARTS];
        let ((a, a_rest), (b, b_rest)) = (self.0.as_chunks(), self.1.as_chunks());
        for (a, b) in a.iter().zip(b) {
            for part in 0..L::PARTS {
                lanes[part] = l.fma(l.load_f(a, part), l.load_f(b, part), lanes[part]);
            }
        }
        if !a_rest.is_empty() {
            let (a, b) = (padded(a_rest, 0.0), padded(b_rest, 0.0));
            for part in 0..L::PARTS {
                lanes[part] = l.fma(l.load_f(&a, part), l.load_f(&b, part), lanes[part]);
            }
        }
        l.sum(&lanes)
    }
}
// ANCHOR_END: dot_product

/// Σ x.
#[inline(always)]
fn sum<L: Lanes>(l: L, x: &[f32]) -> f32 {
    let mut lanes = [l.splat_f(0.0); MAX_PARTS];
    let (chunks, rest) = x.as_chunks();
    for x in chunks {
        for part in 0..L::PARTS {
            lanes[part] = l.add_f(lanes[part], l.load_f(x, part));
        }
    }
    if !rest.is_empty() {
        let x = padded(rest, 0.0);
        for part in 0..L::PARTS {
            lanes[part] = l.add_f(lanes[part], l.load_f(&x, part));
        }
    }
    l.sum(&lanes)
}

/// Σ (x − center)².
#[inline(always)]
fn sum_of_squares<L: Lanes>(l: L, x: &[f32], center: f32) -> f32 {
    let around = l.splat_f(center);
    let mut lanes = [l.splat_f(0.0); MAX_PARTS];
    let (chunks, rest) = x.as_chunks();
    for x in chunks {
        for part in 0..L::PARTS {
            let x = l.sub_f(l.load_f(x, part), around);
            lanes[part] = l.fma(x, x, lanes[part]);
        }
    }
    if !rest.is_empty() {
        let x = padded(rest, center);
        for part in 0..L::PARTS {
            let x = l.sub_f(l.load_f(&x, part), around);
            lanes[part] = l.fma(x, x, lanes[part]);
        }
    }
    l.sum(&lanes)
}

/// x / √(mean of x² + eps) · weight.
pub(crate) struct RmsNorm<'a> {
    pub(crate) x: &'a mut [f32],
    pub(crate) weight: Option<&'a [f32]>,
    pub(crate) eps: f32,
}

impl Op for RmsNorm<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Dot>(self, l: L) {
        let mean = sum_of_squares(l, self.x, 0.0) / self.x.len() as f32;
        let inverse = 1.0 / libm::sqrtf(mean + self.eps);
        match self.weight {
            Some(weight) => self
                .x
                .iter_mut()
                .zip(weight)
                .for_each(|(x, w)| *x = *x * inverse * w),
            None => self.x.iter_mut().for_each(|x| *x *= inverse),
        }
    }
}

/// (x − mean) / √(variance + eps) · weight + bias.
pub(crate) struct LayerNorm<'a> {
    pub(crate) x: &'a mut [f32],
    pub(crate) weight: Option<&'a [f32]>,
    pub(crate) bias: Option<&'a [f32]>,
    pub(crate) eps: f32,
}

impl Op for LayerNorm<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Dot>(self, l: L) {
        let n = self.x.len() as f32;
        let mean = sum(l, self.x) / n;
        let variance = sum_of_squares(l, self.x, mean) / n;
        let inverse = 1.0 / libm::sqrtf(variance + self.eps);
        self.x.iter_mut().for_each(|x| *x = (*x - mean) * inverse);
        if let Some(weight) = self.weight {
            self.x.iter_mut().zip(weight).for_each(|(x, w)| *x *= w);
        }
        if let Some(bias) = self.bias {
            self.x.iter_mut().zip(bias).for_each(|(x, b)| *x += b);
        }
    }
}

/// The greatest number; NaN never is.
pub(crate) struct Max<'a>(pub(crate) &'a [f32]);

impl Op for Max<'_> {
    type Out = f32;

    #[inline(always)]
    fn run<L: Dot>(self, l: L) -> f32 {
        greatest(l, self.0)
    }
}

/// The greatest number; NaN never is. −∞ for none.
#[inline(always)]
pub(crate) fn greatest<L: Lanes>(l: L, x: &[f32]) -> f32 {
    let mut lanes = [l.splat_f(f32::NEG_INFINITY); MAX_PARTS];
    let (chunks, rest) = x.as_chunks();
    for x in chunks {
        for part in 0..L::PARTS {
            lanes[part] = l.max_f(l.load_f(x, part), lanes[part]);
        }
    }
    let mut out = [0.0; 16];
    for part in 0..L::PARTS {
        l.store_f(lanes[part], &mut out, part);
    }
    let all = out.iter().chain(rest);
    all.fold(f32::NEG_INFINITY, |max, &x| if x > max { x } else { max })
}

/// x = e^(x − max); returns the sum.
pub(crate) struct ExpSub<'a> {
    pub(crate) x: &'a mut [f32],
    pub(crate) max: f32,
}

impl Op for ExpSub<'_> {
    type Out = f32;

    #[inline(always)]
    fn run<L: Dot>(self, l: L) -> f32 {
        exp_sub(l, self.x, self.max)
    }
}

/// x = e^(x − max); returns the sum.
#[inline(always)]
pub(crate) fn exp_sub<L: Lanes>(l: L, x: &mut [f32], max: f32) -> f32 {
    let max = l.splat_f(max);
    let mut lanes = [l.splat_f(0.0); MAX_PARTS];
    let (chunks, rest) = x.as_chunks_mut::<16>();
    for x in chunks {
        for part in 0..L::PARTS {
            let y = math::exp(l, l.sub_f(l.load_f(x, part), max));
            l.store_f(y, x, part);
            lanes[part] = l.add_f(lanes[part], y);
        }
    }
    if !rest.is_empty() {
        // What fills up becomes 0.
        let mut x = padded(rest, f32::NEG_INFINITY);
        for part in 0..L::PARTS {
            let y = math::exp(l, l.sub_f(l.load_f(&x, part), max));
            l.store_f(y, &mut x, part);
            lanes[part] = l.add_f(lanes[part], y);
        }
        rest.copy_from_slice(&x[..rest.len()]);
    }
    l.sum(&lanes)
}
