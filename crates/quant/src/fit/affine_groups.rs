//! Groups whose integer scales and minima share two half floats: x ≈ d · scale · q − dmin · min.

use super::affine::{Affine, Fixed, Moments, Offset, fit_affine, fixed, moments, nearest_quants};
use super::{bound, inverse, round};
use crate::number::F16;

/// What a block of such groups holds.
pub(crate) struct AffineGroups<const N: usize, const G: usize> {
    pub(crate) d: F16,
    pub(crate) dmin: F16,
    pub(crate) scales: [u8; G],
    pub(crate) mins: [u8; G],
    pub(crate) quants: [[u8; N]; G],
}

/// What quants and codes may be at most, and what a code is worth.
#[derive(Copy, Clone)]
struct Units {
    top: f32,
    scale_top: f32,
    d: f32,
    dmin: f32,
}

/// A group's scale and minimum as codes, and the moments of its quants with them.
#[derive(Default)]
struct Coded {
    scale: f32,
    min: f32,
    moments: Moments,
}

/// The codes near the ideal scale and minimum that serve the group best. Rounding the scale moves the best minimum, so
/// that one is found anew for each scale.
fn best_codes<const N: usize>(
    x: &[f32; N],
    w: &[f32; N],
    fixed: &Fixed,
    ideal: Affine,
    units: Units,
) -> Coded {
    let middle = round(bound(ideal.scale * inverse(units.d), 0.0, units.scale_top));
    let scales = [0.0, -1.0, 1.0, -2.0].map(|step| bound(middle + step, 0.0, units.scale_top));
    let inv = scales.map(|code| inverse(units.d * code));
    let found = moments(x, w, &inv, &inv.map(|inv| ideal.min * inv), units.top);
    let mins: [f32; 4] = core::array::from_fn(|i| {
        let min = (units.d * scales[i] * found.get(i).q - fixed.x) / fixed.w;
        round(bound(min * inverse(units.dmin), 0.0, units.scale_top))
    });
    let shifts = core::array::from_fn(|i| units.dmin * mins[i] * inv[i]);
    let found = moments(x, w, &inv, &shifts, units.top);
    let (mut best, mut least) = (Coded::default(), f32::INFINITY);
    for i in 0..4 {
        let fit = Affine {
            scale: units.d * scales[i],
            min: units.dmin * mins[i],
        };
        let loss = found.get(i).loss(fixed, fit);
        if loss < least {
            least = loss;
            best = Coded {
                scale: scales[i],
                min: mins[i],
                moments: found.get(i),
            };
        }
    }
    best
}

/// The sums that decide d and dmin together.
#[derive(Default)]
struct Shared {
    /// Σ w (scale q)²
    dd: f32,
    /// Σ w (scale q) min
    dm: f32,
    /// Σ w min²
    mm: f32,
    /// Σ w x (scale q)
    xd: f32,
    /// Σ w x min
    xm: f32,
}

impl Shared {
    fn add(&mut self, group: &Coded, fixed: &Fixed) {
        let Coded { scale, min, .. } = *group;
        self.dd += scale * scale * group.moments.qq;
        self.dm += scale * min * group.moments.q;
        self.mm += min * min * fixed.w;
        self.xd += scale * group.moments.xq;
        self.xm += min * fixed.x;
    }

    /// The error with these units, less Σ w x².
    fn loss(&self, d: f32, dmin: f32) -> f32 {
        d * (d * self.dd - 2.0 * self.xd)
            + dmin * (dmin * self.mm + 2.0 * self.xm - 2.0 * d * self.dm)
    }

    /// The units of least squares where they are better than the given ones, which they may not be as half floats.
    fn refine(&self, d: F16, dmin: F16) -> (F16, F16) {
        let spread = self.dd * self.mm - self.dm * self.dm;
        if spread <= 0.0 {
            return (d, dmin);
        }
        let new_d = F16::from_f32_saturating((self.xd * self.mm - self.dm * self.xm) / spread);
        let new_dmin = F16::from_f32_saturating((self.dm * self.xd - self.dd * self.xm) / spread);
        let better =
            self.loss(new_d.to_f32(), new_dmin.to_f32()) < self.loss(d.to_f32(), dmin.to_f32());
        if better { (new_d, new_dmin) } else { (d, dmin) }
    }
}

/// Fits each group, then brings the groups' scales and minima to integers from 0 to `scale_top`.
pub(crate) fn fit_affine_groups<const N: usize, const G: usize>(
    x: &[[f32; N]; G],
    w: &[[f32; N]; G],
    top: f32,
    scale_top: f32,
    reach: f32,
) -> AffineGroups<N, G> {
    let mut ideal = [Affine::default(); G];
    for g in 0..G {
        ideal[g] = fit_affine(&x[g], &w[g], top, Offset::NotNegative, reach);
    }
    let largest = |part: fn(&Affine) -> f32| ideal.iter().map(part).fold(0.0, f32::max);
    let d = F16::from_f32_saturating(largest(|fit| fit.scale) / scale_top);
    let dmin = F16::from_f32_saturating(largest(|fit| fit.min) / scale_top);
    let units = Units {
        top,
        scale_top,
        d: d.to_f32(),
        dmin: dmin.to_f32(),
    };
    let (mut scales, mut mins) = ([0; G], [0; G]);
    let mut shared = Shared::default();
    for g in 0..G {
        let fixed = fixed(&x[g], &w[g]);
        let group = best_codes(&x[g], &w[g], &fixed, ideal[g], units);
        (scales[g], mins[g]) = (group.scale as u8, group.min as u8);
        shared.add(&group, &fixed);
    }
    let (d, dmin) = shared.refine(d, dmin);
    let mut quants = [[0; N]; G];
    for g in 0..G {
        let scale = d.to_f32() * f32::from(scales[g]);
        let min = dmin.to_f32() * f32::from(mins[g]);
        quants[g] = nearest_quants(&x[g], Affine { scale, min }, top);
    }
    AffineGroups {
        d,
        dmin,
        scales,
        mins,
        quants,
    }
}
