//! One token of a short depthwise convolution over positions: state spaces', and gated LFM2's mixer.
//!
//! out\[c\] = gate\[c\] · Σ taps\[k\]\[c\] · columns\[k\]\[c\]. A channel is a lane; its sum begins at 0 and runs over the taps in
//! order, the oldest position first, with a fused multiply-add each.

use crate::lanes::{Dot, Op};
use crate::vector::padded;

/// One token's convolution.
pub(crate) struct ShortConv<'a> {
    /// Of each position, the oldest first.
    pub(crate) taps: &'a [&'a [f32]],
    /// The channels at each position.
    pub(crate) columns: &'a [&'a [f32]],
    pub(crate) gate: Option<&'a [f32]>,
    pub(crate) out: &'a mut [f32],
}

impl ShortConv<'_> {
    /// 16 channels, of which `load` gives those of a slice.
    #[inline(always)]
    fn chunk<L: Dot>(&self, l: L, load: impl Fn(&[f32]) -> [f32; 16]) -> [f32; 16] {
        let mut out = [0.0; 16];
        for part in 0..L::PARTS {
            let mut sum = l.splat_f(0.0);
            for (tap, column) in self.taps.iter().zip(self.columns) {
                let (tap, column) = (load(tap), load(column));
                sum = l.fma(l.load_f(&tap, part), l.load_f(&column, part), sum);
            }
            if let Some(gate) = self.gate {
                sum = l.mul_f(l.load_f(&load(gate), part), sum);
            }
            l.store_f(sum, &mut out, part);
        }
        out
    }
}

impl Op for ShortConv<'_> {
    type Out = ();

    #[inline(always)]
    fn run<L: Dot>(self, l: L) {
        let whole = self.out.len() / 16 * 16;
        for start in (0..whole).step_by(16) {
            let at = |x: &[f32]| -> [f32; 16] { x[start..][..16].try_into().expect("16 floats") };
            let chunk = self.chunk(l, at);
            self.out[start..][..16].copy_from_slice(&chunk);
        }
        if whole < self.out.len() {
            let chunk = self.chunk(l, |x| padded(&x[whole..], 0.0));
            let rest = &mut self.out[whole..];
            rest.copy_from_slice(&chunk[..rest.len()]);
        }
    }
}
