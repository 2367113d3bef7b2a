//! x ≈ scale · level.

use super::levels::Levels;
use super::{TRIES, around, bound, inverse, round, spread};
use crate::number::F16;

/// The sums that decide a scale, for several tries side by side.
struct Moments<const C: usize> {
    /// Σ w x l
    xl: [f32; C],
    /// Σ w l²
    ll: [f32; C],
}

/// The moments of the levels nearest to x · inv. Each try has its lane, so that there are no sums across lanes; not
/// inlined because the stores of the result are what makes the compiler see the lanes.
#[inline(never)]
fn moments<L: Levels, const N: usize, const C: usize>(
    x: &[f32; N],
    w: &[f32; N],
    inv: &[f32; C],
) -> Moments<C> {
    let (mut xl, mut ll) = ([0.0; C], [0.0; C]);
    for (&x, &w) in x.iter().zip(w) {
        for i in 0..C {
            let level = L::nearest(x * inv[i]);
            let weighted = w * level;
            xl[i] += weighted * x;
            ll[i] += weighted * level;
        }
    }
    Moments { xl, ll }
}

/// The sums of one try.
#[derive(Copy, Clone, Default)]
struct Try {
    xl: f32,
    ll: f32,
}

impl Try {
    /// The scale of least squares.
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

impl<const C: usize> Moments<C> {
    fn get(&self, i: usize) -> Try {
        Try {
            xl: self.xl[i],
            ll: self.ll[i],
        }
    }

    /// Keeps the best of the tries, if it is better than `best`, whose loss is `least`.
    #[inline(always)]
    fn improve(&self, best: &mut f32, least: &mut f32) {
        for i in 0..C {
            let scale = self.get(i).scale();
            let loss = -scale * self.xl[i];
            if loss < *least {
                (*best, *least) = (scale, loss);
            }
        }
    }
}

/// The value of greatest magnitude, with its sign.
#[inline(always)]
fn extreme(x: &[f32]) -> f32 {
    let mut extreme = 0.0f32;
    for &x in x {
        extreme = if x.abs() > extreme.abs() { x } else { extreme };
    }
    extreme
}

/// The scale that brings scale · level nearest to `x`. `reach` is how far from the spanning scale to look, in levels.
pub(crate) fn fit_symmetric<L: Levels, const N: usize>(
    x: &[f32; N],
    w: &[f32; N],
    reach: f32,
) -> f32 {
    let extreme = extreme(x);
    if extreme.abs() < 1e-30 {
        return 0.0;
    }
    let unit = 1.0 / extreme;
    let (mut best, mut least) = (0.0, 0.0);
    let coarse: [f32; TRIES] = spread(L::LOW * unit, reach * unit);
    moments::<L, N, TRIES>(x, w, &coarse).improve(&mut best, &mut least);
    let mirrored: [f32; TRIES] = spread(L::HIGH * unit, reach * unit);
    moments::<L, N, TRIES>(x, w, &mirrored).improve(&mut best, &mut least);
    let fine: [f32; TRIES] = around(inverse(best), reach * unit);
    moments::<L, N, TRIES>(x, w, &fine).improve(&mut best, &mut least);
    best
}

/// The error with each of the scales, less Σ w x².
pub(crate) fn losses<L: Levels, const N: usize, const C: usize>(
    x: &[f32; N],
    w: &[f32; N],
    scales: &[f32; C],
) -> [f32; C] {
    let found = moments::<L, N, C>(x, w, &scales.map(inverse));
    core::array::from_fn(|i| found.get(i).loss(scales[i]))
}

/// The levels nearest to x / scale.
#[inline]
pub(crate) fn nearest_levels<L: Levels, const N: usize>(x: &[f32; N], scale: f32) -> [i8; N] {
    let inv = inverse(scale);
    let mut levels = [0; N];
    for (level, x) in levels.iter_mut().zip(x) {
        *level = L::nearest(x * inv) as i8;
    }
    levels
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
    reach: f32,
) -> SymmetricGroups<N, G> {
    let mut ideal = [0.0; G];
    for g in 0..G {
        ideal[g] = fit_symmetric::<L, N>(&x[g], &w[g], reach);
    }
    let mut d = F16::from_f32_saturating(extreme(&ideal) / f32::from(low));
    let unit = d.to_f32();
    let inv = inverse(unit);
    let mut scales = [0; G];
    let mut total = Try::default();
    for g in 0..G {
        let middle = round(bound(ideal[g] * inv, f32::from(low), f32::from(i8::MAX)));
        let codes = [0.0, -1.0, 1.0, -2.0]
            .map(|shift| bound(middle + shift, f32::from(low), -1.0 - f32::from(low)));
        let found = moments::<L, N, 4>(&x[g], &w[g], &codes.map(|code| inverse(unit * code)));
        let (mut least, mut chosen) = (0.0, Try::default());
        for (i, code) in codes.into_iter().enumerate() {
            let loss = found.get(i).loss(unit * code);
            if loss < least {
                (least, chosen, scales[g]) = (loss, found.get(i), code as i8);
            }
        }
        let scale = f32::from(scales[g]);
        total.xl += scale * chosen.xl;
        total.ll += scale * scale * chosen.ll;
    }
    let refined = F16::from_f32_saturating(total.scale());
    if total.loss(refined.to_f32()) < total.loss(unit) {
        d = refined;
    }
    let mut levels = [[0; N]; G];
    for g in 0..G {
        levels[g] = nearest_levels::<L, N>(&x[g], d.to_f32() * f32::from(scales[g]));
    }
    SymmetricGroups { d, scales, levels }
}
