//! Rotary position embedding: pairs of a head's values are turned by angles that depend on the position.

use crate::lanes::{Dot, Op};

/// Which values are a pair.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum RopeKind {
    /// i and i + n/2 (NeoX).
    HalfSplit,
    /// 2i and 2i + 1 (GPT-J; llama's GGUF files).
    Interleaved,
}

/// Sine and cosine of an angle in radians, however large, each the f32 nearest to within 1e-7.
pub fn sin_cos(angle: f64) -> (f32, f32) {
    let (sin, cos) = libm::sincos(angle);
    (sin as f32, cos as f32)
}

/// x^y. The same bits on every platform, unlike the C library's.
pub fn pow(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}

/// The natural logarithm, likewise.
pub fn ln(x: f64) -> f64 {
    libm::log(x)
}

/// Turns the pairs of one head.
pub(crate) struct Rotate<'a> {
    pub(crate) x: &'a mut [f32],
    pub(crate) cos: &'a [f32],
    pub(crate) sin: &'a [f32],
    pub(crate) kind: RopeKind,
}

/// One pair. Each product is rounded, then the sum: no fused operation, so that plain code is the same everywhere.
#[inline(always)]
fn turn(a: &mut f32, b: &mut f32, cos: f32, sin: f32) {
    (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
}

impl Op for Rotate<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Dot>(self, _: L) {
        let angles = self.cos.iter().zip(self.sin);
        match self.kind {
            RopeKind::HalfSplit => {
                let (a, b) = self.x.split_at_mut(self.x.len() / 2);
                for ((a, b), (&cos, &sin)) in a.iter_mut().zip(b).zip(angles) {
                    turn(a, b, cos, sin);
                }
            }
            RopeKind::Interleaved => {
                for ([a, b], (&cos, &sin)) in self.x.as_chunks_mut().0.iter_mut().zip(angles) {
                    turn(a, b, cos, sin);
                }
            }
        }
    }
}
