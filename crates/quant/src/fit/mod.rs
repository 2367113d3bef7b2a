//! The search for scales: given floats, the scale (and minimum) whose levels lie nearest to them.
//!
//! A scale fixes which level each value takes, and the levels fix the best scale by least squares. So each search
//! tries several first scales around the one that just spans the values, takes the best of their least-squares
//! solutions, and does the same once more close around that one.

mod affine;
mod affine_groups;
mod levels;
mod symmetric;

pub(crate) use affine::{Offset, fit_affine, nearest_quants};
pub(crate) use affine_groups::fit_affine_groups;
pub(crate) use levels::{Curve, E2m1, Levels, Linear};
pub(crate) use symmetric::{fit_symmetric, fit_symmetric_groups, losses, nearest_levels};

/// Scales tried at once: two SSE registers or one of AVX.
const TRIES: usize = 8;

/// Inverse scales from `reach` on one side of `middle` to nearly as much on the other, with `middle` itself.
fn spread(middle: f32, reach: f32) -> [f32; TRIES] {
    const STEPS: [f32; TRIES] = [-1.0, -0.75, -0.5, -0.25, 0.0, 0.25, 0.5, 0.75];
    STEPS.map(|step| middle + step * reach)
}

/// The same between the steps of `spread`.
fn around(middle: f32, reach: f32) -> [f32; TRIES] {
    spread(middle, 0.3 * reach)
}

/// The nearest integer, ties to even, for |v| < 2²²: the addition leaves no bits for a fraction.
#[inline(always)]
fn round(v: f32) -> f32 {
    const NO_FRACTION: f32 = 12_582_912.0;
    (v + NO_FRACTION) - NO_FRACTION
}

/// `v` within bounds; NaN gives `low`. Compiles to two instructions, which `f32::clamp` does not.
#[inline(always)]
fn bound(v: f32, low: f32, high: f32) -> f32 {
    let v = if v > low { v } else { low };
    if v < high { v } else { high }
}

/// The nearest integer within bounds.
#[inline(always)]
pub(crate) fn nearest_integer(v: f32, low: f32, high: f32) -> f32 {
    round(bound(v, low, high))
}

/// 1 / v, or 0 for 0.
#[inline(always)]
fn inverse(v: f32) -> f32 {
    if v == 0.0 { 0.0 } else { 1.0 / v }
}
