//! Plain Rust, one lane after the other: the backend that defines what the operations mean.
//!
//! In a compact program it is the last resort, and what it does with sixteen lanes are functions that are called: written
//! out wherever they are used, they would be a fifth of the image.

use strata_quant::F16;

use crate::lanes::{Dot, Lanes, MAX_PARTS, Op};

/// The token; it needs no proof.
#[derive(Copy, Clone)]
pub(crate) struct Scalar;

type I = [i32; 16];
type F = [f32; 16];

#[cfg_attr(not(feature = "compact"), inline(always))]
#[cfg_attr(feature = "compact", inline(never))]
fn map<A: Copy, R>(a: &[A; 16], f: impl Fn(A) -> R) -> [R; 16] {
    a.map(f)
}

#[cfg_attr(not(feature = "compact"), inline(always))]
#[cfg_attr(feature = "compact", inline(never))]
fn zip<A: Copy, B: Copy, R: Copy + Default>(
    a: &[A; 16],
    b: &[B; 16],
    f: impl Fn(A, B) -> R,
) -> [R; 16] {
    let mut out = [R::default(); 16];
    for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
        *out = f(*a, *b);
    }
    out
}

#[cfg_attr(not(feature = "compact"), inline(always))]
#[cfg_attr(feature = "compact", inline(never))]
fn fma_lanes(a: &F, b: &F, c: &F) -> F {
    let mut out = *c;
    for ((c, a), b) in out.iter_mut().zip(a).zip(b) {
        *c = fma(*a, *b, *c);
    }
    out
}

/// a · b + c with one rounding. The product of two f32 is exact in f64; the sum is then rounded to odd, which loses
/// nothing that the final rounding to f32 could need.
#[inline(always)]
pub(crate) fn fma(a: f32, b: f32, c: f32) -> f32 {
    let (product, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = product + c;
    let of_c = sum - product;
    let error = (product - (sum - of_c)) + (c - of_c);
    let mut bits = sum.to_bits();
    if error != 0.0 && sum.is_finite() && bits & 1 == 0 {
        bits = if (error > 0.0) == (sum > 0.0) {
            bits + 1
        } else {
            bits - 1
        };
    }
    f64::from_bits(bits) as f32
}

/// The 16-bit halves of a lane, as signed numbers.
#[inline(always)]
fn halves(a: i32) -> (i32, i32) {
    (i32::from(a as i16), a >> 16)
}

/// Applies `f` to the 4 bytes of a lane.
#[inline(always)]
fn bytes(a: i32, f: impl Fn(u8) -> u8) -> i32 {
    i32::from_le_bytes(a.to_le_bytes().map(f))
}

impl Lanes for Scalar {
    const PARTS: usize = 1;
    // Code for several tokens at once is most of what this backend takes in an image, where it is the last resort.
    const TILE: usize = if cfg!(feature = "compact") { 1 } else { 4 };
    type I = I;
    type F = F;

    #[inline(always)]
    fn load(self, line: &[u8; 64], _: usize) -> I {
        let mut out = [0; 16];
        for (out, bytes) in out.iter_mut().zip(line.as_chunks::<4>().0) {
            *out = i32::from_le_bytes(*bytes);
        }
        out
    }
    #[inline(always)]
    fn load_u8(self, bytes: &[u8; 16], _: usize) -> I {
        map(bytes, i32::from)
    }
    #[inline(always)]
    fn load_u16(self, words: &[u8; 32], _: usize) -> I {
        let mut out = [0; 16];
        for (out, word) in out.iter_mut().zip(words.as_chunks::<2>().0) {
            *out = i32::from(u16::from_le_bytes(*word));
        }
        out
    }
    #[inline(always)]
    fn load_i8(self, bytes: &[u8; 16], _: usize) -> I {
        map(bytes, |b| i32::from(b as i8))
    }
    #[inline(always)]
    fn store_i8(self, a: I, out: &mut [i8; 16], _: usize) {
        *out = map(&a, |a| a as i8);
    }
    #[inline(always)]
    fn prefetch<T>(self, _: &T, _: usize) {}

    #[inline(always)]
    fn splat(self, a: i32) -> I {
        [a; 16]
    }
    #[inline(always)]
    fn and(self, a: I, b: I) -> I {
        zip(&a, &b, |a, b| a & b)
    }
    #[inline(always)]
    fn or(self, a: I, b: I) -> I {
        zip(&a, &b, |a, b| a | b)
    }
    #[inline(always)]
    fn shl(self, a: I, n: u32) -> I {
        map(&a, |a| a << n)
    }
    #[inline(always)]
    fn shr(self, a: I, n: u32) -> I {
        map(&a, |a| (a as u32 >> n) as i32)
    }
    #[inline(always)]
    fn sar(self, a: I, n: u32) -> I {
        map(&a, |a| a >> n)
    }
    #[inline(always)]
    fn add(self, a: I, b: I) -> I {
        zip(&a, &b, i32::wrapping_add)
    }
    #[inline(always)]
    fn sub(self, a: I, b: I) -> I {
        zip(&a, &b, i32::wrapping_sub)
    }
    #[inline(always)]
    fn mul(self, a: I, b: I) -> I {
        zip(&a, &b, i32::wrapping_mul)
    }
    #[inline(always)]
    fn max_i(self, a: I, b: I) -> I {
        zip(&a, &b, Ord::max)
    }
    #[inline(always)]
    fn sub8(self, a: I, b: I) -> I {
        zip(&a, &b, |a, b| {
            let (mut a, b) = (a.to_le_bytes(), b.to_le_bytes());
            for (a, b) in a.iter_mut().zip(b) {
                *a = a.wrapping_sub(b);
            }
            i32::from_le_bytes(a)
        })
    }
    #[inline(always)]
    fn even_i8(self, a: I) -> I {
        map(&a, |a| (a << 24 >> 24) & 0xffff | (a << 8 >> 24) << 16)
    }
    #[inline(always)]
    fn mul_pairs(self, a: I, by: i16) -> I {
        map(&a, |a| {
            let (a0, a1) = halves(a);
            let by = i32::from(by);
            a0.wrapping_mul(by) & 0xffff | a1.wrapping_mul(by) << 16
        })
    }
    #[inline(always)]
    fn lut(self, table: &[i8; 16], codes: I) -> I {
        map(&codes, |a| {
            bytes(a, |code| table[usize::from(code & 15)] as u8)
        })
    }

    #[inline(always)]
    fn load_f(self, values: &[f32; 16], _: usize) -> F {
        *values
    }
    #[inline(always)]
    fn store_f(self, a: F, out: &mut [f32; 16], _: usize) {
        *out = a;
    }
    #[cfg_attr(not(feature = "compact"), inline(always))]
    #[cfg_attr(feature = "compact", inline(never))]
    fn load_f16(self, halves: &[u8; 32], _: usize) -> F {
        let mut out = [0.0; 16];
        for (out, half) in out.iter_mut().zip(halves.as_chunks::<2>().0) {
            *out = F16(*half).to_f32();
        }
        out
    }
    #[cfg_attr(not(feature = "compact"), inline(always))]
    #[cfg_attr(feature = "compact", inline(never))]
    fn store_f16(self, a: F, out: &mut [u8; 32], _: usize) {
        for (out, a) in out.as_chunks_mut::<2>().0.iter_mut().zip(a) {
            *out = F16::from_f32(a).0;
        }
    }
    #[inline(always)]
    fn splat_f(self, a: f32) -> F {
        [a; 16]
    }
    #[inline(always)]
    fn splat_f16(self, half: [u8; 2]) -> F {
        [F16(half).to_f32(); 16]
    }
    #[inline(always)]
    fn to_f(self, a: I) -> F {
        map(&a, |a| a as f32)
    }
    #[inline(always)]
    fn round(self, a: F) -> I {
        // Next to 1.5 · 2^23 the step of f32 is 1, so the addition rounds for us.
        const MAGIC: f32 = 12_582_912.0;
        map(&a, |a| {
            ((a + MAGIC).to_bits() as i32).wrapping_sub(MAGIC.to_bits() as i32)
        })
    }
    #[inline(always)]
    fn bits(self, a: F) -> I {
        map(&a, |a| a.to_bits() as i32)
    }
    #[inline(always)]
    fn of_bits(self, a: I) -> F {
        map(&a, |a| f32::from_bits(a as u32))
    }
    #[inline(always)]
    fn add_f(self, a: F, b: F) -> F {
        zip(&a, &b, |a, b| a + b)
    }
    #[inline(always)]
    fn sub_f(self, a: F, b: F) -> F {
        zip(&a, &b, |a, b| a - b)
    }
    #[inline(always)]
    fn mul_f(self, a: F, b: F) -> F {
        zip(&a, &b, |a, b| a * b)
    }
    #[inline(always)]
    fn div_f(self, a: F, b: F) -> F {
        zip(&a, &b, |a, b| a / b)
    }
    #[inline(always)]
    fn fma(self, a: F, b: F, c: F) -> F {
        fma_lanes(&a, &b, &c)
    }
    #[inline(always)]
    fn fnma(self, a: F, b: F, c: F) -> F {
        self.fma(map(&a, |a| -a), b, c)
    }
    #[inline(always)]
    fn max_f(self, a: F, b: F) -> F {
        zip(&a, &b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn min_f(self, a: F, b: F) -> F {
        zip(&a, &b, |a, b| if a < b { a } else { b })
    }
    #[cfg_attr(not(feature = "compact"), inline(always))]
    #[cfg_attr(feature = "compact", inline(never))]
    fn select_lt(self, a: F, b: F, yes: F, no: F) -> F {
        let mut out = no;
        for (((out, a), b), yes) in out.iter_mut().zip(a).zip(b).zip(yes) {
            if a < b {
                *out = yes;
            }
        }
        out
    }
    #[cfg_attr(not(feature = "compact"), inline(always))]
    #[cfg_attr(feature = "compact", inline(never))]
    fn sum(self, lanes: &[F; MAX_PARTS]) -> f32 {
        let mut lanes = lanes[0];
        for half in [8, 4, 2, 1] {
            for j in 0..half {
                lanes[j] += lanes[j + half];
            }
        }
        lanes[0]
    }
    #[inline(always)]
    fn sum4(self, lanes: &[[F; MAX_PARTS]; 4]) -> [f32; 4] {
        lanes.map(|lanes| self.sum(&lanes))
    }
}

impl Dot for Scalar {
    const NARROW: bool = false;
    type Sum = I;
    type Signed = I;

    #[inline(always)]
    fn zero(self) -> I {
        [0; 16]
    }
    #[inline(always)]
    fn start(self, minus_sum_x: i32, shift: u32) -> I {
        [minus_sum_x << shift; 16]
    }
    #[inline(always)]
    fn dot(self, sum: I, w: I, x: i32) -> I {
        // Weights of 0 to 127 read the same as signed bytes.
        self.dot_signed(sum, w, x)
    }
    #[inline(always)]
    fn carry(self, sum: I) -> I {
        sum
    }
    #[inline(always)]
    fn finish(self, sum: I) -> I {
        sum
    }
    #[inline(always)]
    fn fold(self, tot: I, sum: I, scale: I) -> I {
        self.add(tot, self.mul(sum, scale))
    }
    #[inline(always)]
    fn fold_small(self, tot: I, sum: I, scale: I) -> I {
        self.fold(tot, sum, scale)
    }
    #[inline(always)]
    fn dot_pairs(self, acc: I, a: I, b: i32) -> I {
        let (b0, b1) = halves(b);
        zip(&acc, &a, |acc, a| {
            let (a0, a1) = halves(a);
            acc.wrapping_add(a0 * b0 + a1 * b1)
        })
    }
    #[inline(always)]
    fn signed(self, w: I) -> I {
        w
    }
    #[inline(always)]
    fn signed_lut(self, table: &[i8; 16], codes: I) -> I {
        self.lut(table, codes)
    }
    #[inline(always)]
    fn start_signed(self, _: i32) -> I {
        [0; 16]
    }
    #[inline(always)]
    fn dot_signed(self, acc: I, w: I, x: i32) -> I {
        zip(&acc, &w, |acc, w| {
            let product = |shift: u32| (w << shift >> 24) * (x << shift >> 24);
            acc.wrapping_add(product(24) + product(16) + product(8) + product(0))
        })
    }
    #[inline(always)]
    fn call<O: Op>(self, op: O) -> O::Out {
        op.run(self)
    }
}
