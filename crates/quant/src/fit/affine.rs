//! x ≈ scale · q − min, with q from 0 to a top.

use super::{TRIES, around, bound, inverse, round, spread};
use crate::number::F16;

/// What the minimum may be.
#[derive(Copy, Clone, PartialEq, Eq)]
pub(crate) enum Offset {
    /// Any number.
    Free,
    /// At least zero: what an unsigned code with a positive unit can hold.
    NotNegative,
}

/// A scale and a minimum.
#[derive(Copy, Clone, Default)]
pub(crate) struct Affine {
    pub(crate) scale: f32,
    pub(crate) min: f32,
}

/// The sums over a group that do not depend on the levels.
struct Fixed {
    /// Σ w
    w: f32,
    /// Σ w x
    x: f32,
}

/// The sums that do.
#[derive(Copy, Clone, Default)]
struct Moments {
    /// Σ w q
    q: f32,
    /// Σ w q²
    qq: f32,
    /// Σ w x q
    xq: f32,
}

/// The moments of several tries side by side.
struct Tries<const C: usize> {
    q: [f32; C],
    qq: [f32; C],
    xq: [f32; C],
}

impl<const C: usize> Tries<C> {
    fn get(&self, i: usize) -> Moments {
        Moments {
            q: self.q[i],
            qq: self.qq[i],
            xq: self.xq[i],
        }
    }
}

/// The moments of the levels nearest to x · inv + shift. Each try has its lane, so that there are no sums across
/// lanes; not inlined because the stores of the result are what makes the compiler see the lanes.
#[inline(never)]
fn moments<const N: usize, const C: usize>(
    x: &[f32; N],
    w: &[f32; N],
    inv: &[f32; C],
    shift: &[f32; C],
    top: f32,
) -> Tries<C> {
    let (mut q, mut qq, mut xq) = ([0.0; C], [0.0; C], [0.0; C]);
    for (&x, &w) in x.iter().zip(w) {
        for i in 0..C {
            let level = round(bound(x * inv[i] + shift[i], 0.0, top));
            let weighted = w * level;
            q[i] += weighted;
            qq[i] += weighted * level;
            xq[i] += weighted * x;
        }
    }
    Tries { q, qq, xq }
}

impl Moments {
    /// The scale and minimum of least squares for these levels, and the error, less Σ w x². The minimum is at least
    /// `floor`.
    #[inline(always)]
    fn solve(self, fixed: &Fixed, floor: f32) -> (Affine, f32) {
        let spread = fixed.w * self.qq - self.q * self.q;
        if spread > 0.0 {
            let scale = (fixed.w * self.xq - fixed.x * self.q) / spread;
            let min = (scale * self.q - fixed.x) / fixed.w;
            if min >= floor {
                return (Affine { scale, min }, min * fixed.x - scale * self.xq);
            }
        }
        let fit = if self.qq > 0.0 && floor > f32::MIN {
            let scale = (self.xq + floor * self.q) / self.qq;
            Affine { scale, min: floor }
        } else {
            let min = -fixed.x / fixed.w;
            Affine {
                scale: 0.0,
                min: min.max(floor),
            }
        };
        (fit, self.loss(fixed, fit))
    }

    /// The error with this scale and minimum, less Σ w x².
    #[inline(always)]
    fn loss(self, fixed: &Fixed, Affine { scale, min }: Affine) -> f32 {
        scale * (scale * self.qq - 2.0 * self.xq)
            + min * (min * fixed.w + 2.0 * (fixed.x - scale * self.q))
    }
}

fn fixed<const N: usize>(x: &[f32; N], w: &[f32; N]) -> Fixed {
    let mut fixed = Fixed { w: 0.0, x: 0.0 };
    for (x, w) in x.iter().zip(w) {
        fixed.w += w;
        fixed.x += w * x;
    }
    fixed
}

/// The least and the greatest value.
fn range<const N: usize>(x: &[f32; N]) -> (f32, f32) {
    let (mut low, mut high) = (x[0], x[0]);
    for &x in x {
        low = if x < low { x } else { low };
        high = if x > high { x } else { high };
    }
    (low, high)
}

/// The scale and minimum that bring scale · q − min nearest to `x`.
pub(crate) fn fit_affine<const N: usize>(
    x: &[f32; N],
    w: &[f32; N],
    top: f32,
    offset: Offset,
    reach: f32,
) -> Affine {
    let (mut low, high) = range(x);
    if offset == Offset::NotNegative {
        low = low.min(0.0);
    }
    if high - low < 1e-30 {
        return Affine {
            scale: 0.0,
            min: -low,
        };
    }
    // From their lowest the values need no minimum at first, and a common offset costs no precision.
    let lifted: [f32; N] = core::array::from_fn(|i| x[i] - low);
    let floor = match offset {
        Offset::Free => f32::MIN,
        Offset::NotNegative => low,
    };
    let fixed = fixed(&lifted, w);
    let unit = 1.0 / (high - low);
    let (mut best, mut least) = (Affine::default(), f32::INFINITY);
    let mut improve = |inv: [f32; TRIES], min: f32| {
        let tries = moments(&lifted, w, &inv, &inv.map(|inv| min * inv), top);
        for i in 0..TRIES {
            let (found, loss) = tries.get(i).solve(&fixed, floor);
            if loss < least {
                (best, least) = (found, loss);
            }
        }
        best
    };
    let best = improve(spread(top * unit, reach * unit), 0.0);
    let best = improve(around(inverse(best.scale), reach * unit), best.min);
    let best = improve(around(inverse(best.scale), reach * unit), best.min);
    Affine {
        scale: best.scale,
        min: best.min - low,
    }
}

/// The levels nearest to (x + min) / scale.
#[inline]
pub(crate) fn nearest_quants<const N: usize>(x: &[f32; N], fit: Affine, top: f32) -> [u8; N] {
    let inv = inverse(fit.scale);
    let shift = fit.min * inv;
    core::array::from_fn(|i| round(bound(x[i] * inv + shift, 0.0, top)) as u8)
}

/// Groups whose integer scales and minima share two half floats: x ≈ d · scale · q − dmin · min.
pub(crate) struct AffineGroups<const N: usize, const G: usize> {
    pub(crate) d: F16,
    pub(crate) dmin: F16,
    pub(crate) scales: [u8; G],
    pub(crate) mins: [u8; G],
    pub(crate) quants: [[u8; N]; G],
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
    fn add(&mut self, moments: Moments, fixed: &Fixed, scale: f32, min: f32) {
        self.dd += scale * scale * moments.qq;
        self.dm += scale * min * moments.q;
        self.mm += min * min * fixed.w;
        self.xd += scale * moments.xq;
        self.xm += min * fixed.x;
    }

    /// The error with these units, less Σ w x².
    fn loss(&self, d: f32, dmin: f32) -> f32 {
        d * (d * self.dd - 2.0 * self.xd)
            + dmin * (dmin * self.mm + 2.0 * self.xm - 2.0 * d * self.dm)
    }

    /// The units of least squares, unless they are the given ones or no better.
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
    let mut d = F16::from_f32_saturating(largest(|fit| fit.scale) / scale_top);
    let mut dmin = F16::from_f32_saturating(largest(|fit| fit.min) / scale_top);
    let (unit, unit_min) = (d.to_f32(), dmin.to_f32());
    let (mut scales, mut mins) = ([0; G], [0; G]);
    let mut shared = Shared::default();
    for g in 0..G {
        let fixed = fixed(&x[g], &w[g]);
        let middle = round(ideal[g].scale * inverse(unit));
        let codes = [0.0, -1.0, 1.0, -2.0].map(|shift| bound(middle + shift, 0.0, scale_top));
        let inv = codes.map(|code| inverse(unit * code));
        let found = moments(&x[g], &w[g], &inv, &inv.map(|inv| ideal[g].min * inv), top);
        // The minimum that suits each scale, brought to its own unit.
        let mut code_mins = [0.0; 4];
        for i in 0..4 {
            let min = (unit * codes[i] * found.q[i] - fixed.x) / fixed.w;
            code_mins[i] = round(bound(min * inverse(unit_min), 0.0, scale_top));
        }
        let mut shift = [0.0; 4];
        for i in 0..4 {
            shift[i] = unit_min * code_mins[i] * inv[i];
        }
        let found = moments(&x[g], &w[g], &inv, &shift, top);
        let (mut least, mut chosen) = (f32::INFINITY, Moments::default());
        for i in 0..4 {
            let fit = Affine {
                scale: unit * codes[i],
                min: unit_min * code_mins[i],
            };
            let loss = found.get(i).loss(&fixed, fit);
            if loss < least {
                (least, chosen) = (loss, found.get(i));
                (scales[g], mins[g]) = (codes[i] as u8, code_mins[i] as u8);
            }
        }
        shared.add(chosen, &fixed, f32::from(scales[g]), f32::from(mins[g]));
    }
    (d, dmin) = shared.refine(d, dmin);
    let quants = core::array::from_fn(|g| {
        let scale = d.to_f32() * f32::from(scales[g]);
        let min = dmin.to_f32() * f32::from(mins[g]);
        nearest_quants(&x[g], Affine { scale, min }, top)
    });
    AffineGroups {
        d,
        dmin,
        scales,
        mins,
        quants,
    }
}
