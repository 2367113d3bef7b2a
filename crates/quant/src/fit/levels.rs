//! The sets of levels that values can take before scaling.

use super::{bound, round};
use crate::iq::nearest_iq4;

/// A set of levels.
pub(crate) trait Levels {
    /// The lowest level, which is the farthest from zero.
    const LOW: f32;

    /// The level nearest to `v`, whatever `v` is.
    fn nearest(v: f32) -> f32;
}

/// Every integer from `LOW` to `HIGH`.
pub(crate) struct Linear<const LOW: i8, const HIGH: i8>;

impl<const LOW: i8, const HIGH: i8> Levels for Linear<LOW, HIGH> {
    const LOW: f32 = LOW as f32;

    #[inline(always)]
    fn nearest(v: f32) -> f32 {
        round(bound(v, LOW as f32, HIGH as f32))
    }
}

/// The curve of the IQ4 formats.
pub(crate) struct Curve;

impl Levels for Curve {
    const LOW: f32 = -127.0;

    #[inline(always)]
    fn nearest(v: f32) -> f32 {
        f32::from(nearest_iq4(v))
    }
}

/// The doubled values of E2M1.
pub(crate) struct E2m1;

impl Levels for E2m1 {
    const LOW: f32 = -12.0;

    #[inline(always)]
    fn nearest(v: f32) -> f32 {
        // Steps of 1 up to 4, of 2 up to 8, then 12.
        let magnitude = bound(v.abs(), 0.0, 12.0);
        let nearest = if magnitude < 4.5 {
            round(magnitude)
        } else if magnitude < 10.0 {
            bound(2.0 * round(0.5 * magnitude), 4.0, 8.0)
        } else {
            12.0
        };
        nearest.copysign(v)
    }
}
