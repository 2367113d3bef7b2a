//! x ≈ scale · q − min, with q from 0 to a top.

use super::{TRIES, around, bound, inverse, round, spread};

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
pub(super) struct Fixed {
    /// Σ w
    pub(super) w: f32,
    /// Σ w x
    pub(super) x: f32,
}

/// The sums that do.
#[derive(Copy, Clone, Default)]
pub(super) struct Moments {
    /// Σ w q
    pub(super) q: f32,
    /// Σ w q²
    pub(super) qq: f32,
    /// Σ w x q
    pub(super) xq: f32,
}

/// The moments of several tries side by side.
pub(super) struct Tries<const C: usize> {
    q: [f32; C],
    qq: [f32; C],
    xq: [f32; C],
}

impl<const C: usize> Tries<C> {
    pub(super) fn get(&self, i: usize) -> Moments {
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
pub(super) fn moments<const N: usize, const C: usize>(
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
    pub(super) fn loss(self, fixed: &Fixed, Affine { scale, min }: Affine) -> f32 {
        scale * (scale * self.qq - 2.0 * self.xq)
            + min * (min * fixed.w + 2.0 * (fixed.x - scale * self.q))
    }
}

pub(super) fn fixed<const N: usize>(x: &[f32; N], w: &[f32; N]) -> Fixed {
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
