//! x ≈ scale · level.

use super::levels::Levels;
use super::{LANES, bound, inverse, round, sum};
use crate::number::F16;

/// How far from the spanning scale to look, in levels, and in how many steps on either side.
#[derive(Copy, Clone)]
pub(crate) struct Reach {
    pub(crate) levels: f32,
    pub(crate) steps: i32,
}

/// The sums that decide a scale.
#[derive(Copy, Clone, Default)]
struct Moments {
    /// Σ w x l
    xl: f32,
    /// Σ w l²
    ll: f32,
}

impl Moments {
    /// By how much the best scale for these levels lowers the error.
    #[inline(always)]
    fn gain(self) -> f32 {
        if self.ll > 0.0 {
            self.xl * self.xl / self.ll
        } else {
            0.0
        }
    }

    #[inline(always)]
    fn scale(self) -> f32 {
        if self.ll > 0.0 {
            self.xl / self.ll
        } else {
            0.0
        }
    }

    /// The error with this scale, less Σ w x².
    #[inline(always)]
    fn loss(self, scale: f32) -> f32 {
        scale * (scale * self.ll - 2.0 * self.xl)
    }
}

/// The moments of the levels nearest to x · inv.
#[inline(always)]
fn moments<L: Levels, const N: usize>(x: &[f32; N], w: &[f32; N], inv: f32) -> Moments {
    let (mut xl, mut ll) = ([0.0; LANES], [0.0; LANES]);
    let chunks = x
        .as_chunks::<LANES>()
        .0
        .iter()
        .zip(w.as_chunks::<LANES>().0);
    for (x, w) in chunks {
        for i in 0..LANES {
            let level = L::nearest(x[i] * inv);
            let weighted = w[i] * level;
            xl[i] += weighted * x[i];
            ll[i] += weighted * level;
        }
    }
    Moments {
        xl: sum(xl),
        ll: sum(ll),
    }
}

/// The value of greatest magnitude, with its sign.
#[inline(always)]
fn extreme<const N: usize>(x: &[f32; N]) -> f32 {
    let (mut high, mut low) = ([0.0f32; LANES], [0.0f32; LANES]);
    for x in x.as_chunks::<LANES>().0 {
        for i in 0..LANES {
            high[i] = if x[i] > high[i] { x[i] } else { high[i] };
            low[i] = if x[i] < low[i] { x[i] } else { low[i] };
        }
    }
    let high = high.into_iter().fold(0.0, f32::max);
    let low = low.into_iter().fold(0.0, f32::min);
    if high > -low { high } else { low }
}

/// The scale that brings scale · level nearest to `x`.
pub(crate) fn fit_symmetric<L: Levels, const N: usize>(
    x: &[f32; N],
    w: &[f32; N],
    reach: Reach,
) -> f32 {
    let extreme = extreme(x);
    if extreme.abs() < 1e-30 {
        return 0.0;
    }
    let unit = 1.0 / extreme;
    let mut best = Moments::default();
    let step = reach.levels / reach.steps.max(1) as f32;
    for i in -reach.steps..=reach.steps {
        let found = moments::<L, N>(x, w, (L::LOW + i as f32 * step) * unit);
        if found.gain() > best.gain() {
            best = found;
        }
    }
    for _ in 0..2 {
        let found = moments::<L, N>(x, w, inverse(best.scale()));
        if found.gain() <= best.gain() {
            break;
        }
        best = found;
    }
    best.scale()
}

/// The levels nearest to x / scale.
#[inline]
pub(crate) fn nearest_levels<L: Levels, const N: usize>(x: &[f32; N], scale: f32) -> [i8; N] {
    let inv = inverse(scale);
    core::array::from_fn(|i| L::nearest(x[i] * inv) as i8)
}

/// Groups whose integer scales share a half float: x ≈ d · scale · level.
pub(crate) struct SymmetricGroups<const N: usize, const G: usize> {
    pub(crate) d: F16,
    pub(crate) scales: [i8; G],
    pub(crate) levels: [[i8; N]; G],
}

/// Fits each group, then brings the groups' scales to integers from `low` to `−low − 1`.
pub(crate) fn fit_symmetric_groups<L: Levels, const N: usize, const G: usize>(
    x: &[[f32; N]; G],
    w: &[[f32; N]; G],
    low: i8,
    reach: Reach,
) -> SymmetricGroups<N, G> {
    let ideal: [f32; G] = core::array::from_fn(|g| fit_symmetric::<L, N>(&x[g], &w[g], reach));
    let largest = ideal
        .iter()
        .fold(0.0f32, |a, &b| if b.abs() > a.abs() { b } else { a });
    let mut d = F16::from_f32_saturating(largest / f32::from(low));
    let inv = inverse(d.to_f32());
    let high = -1.0 - f32::from(low);
    let mut scales = [0; G];
    let mut total = Moments::default();
    for g in 0..G {
        let middle = ideal[g] * inv;
        let (mut least, mut chosen) = (0.0, Moments::default());
        for shift in [0.0, -1.0, 1.0] {
            let scale = bound(round(middle) + shift, f32::from(low), high);
            let found = moments::<L, N>(&x[g], &w[g], inverse(d.to_f32() * scale));
            let loss = found.loss(d.to_f32() * scale);
            if loss < least {
                (least, chosen, scales[g]) = (loss, found, scale as i8);
            }
        }
        let scale = f32::from(scales[g]);
        total.xl += scale * chosen.xl;
        total.ll += scale * scale * chosen.ll;
    }
    let refined = F16::from_f32_saturating(total.scale());
    if total.loss(refined.to_f32()) < total.loss(d.to_f32()) {
        d = refined;
    }
    let levels =
        core::array::from_fn(|g| nearest_levels::<L, N>(&x[g], d.to_f32() * f32::from(scales[g])));
    SymmetricGroups { d, scales, levels }
}
