//! The sets of levels that values can take before scaling.

use super::{bound, round};
use crate::iq::nearest_iq4;

/// A set of levels.
pub(crate) trait Levels {
    /// The lowest level, which is the farthest from zero.
    const LOW: f32;

    /// The highest level.
    const HIGH: f32;

    /// The level nearest to `v`, whatever `v` is.
    fn nearest(v: f32) -> f32;
}

/// Every integer from `LOW` to `HIGH`.
pub(crate) struct Linear<const LOW: i8, const HIGH: i8>;

impl<const LOW: i8, const HIGH: i8> Levels for Linear<LOW, HIGH> {
    const LOW: f32 = LOW as f32;
    const HIGH: f32 = HIGH as f32;

    #[inline(always)]
    fn nearest(v: f32) -> f32 {
        round(bound(v, LOW as f32, HIGH as f32))
    }
}

/// The curve of the IQ4 formats.
pub(crate) struct Curve;

impl Levels for Curve {
    const LOW: f32 = -127.0;
    const HIGH: f32 = 113.0;

    #[inline(always)]
    fn nearest(v: f32) -> f32 {
        f32::from(nearest_iq4(v))
    }
}

/// The doubled values of E2M1.
pub(crate) struct E2m1;

impl Levels for E2m1 {
    const LOW: f32 = -12.0;
    const HIGH: f32 = 12.0;

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

#[cfg(test)]
mod tests {
    use super::{Curve, E2m1, Levels, Linear};
    use crate::fp4::E2M1_DOUBLED;
    use crate::iq::IQ4_VALUES;

    /// No level of the set may be nearer than the one returned, and that one is of the set.
    fn check<L: Levels>(set: &[i8]) {
        for i in -40_000..=40_000 {
            let v = i as f32 / 256.0;
            let level = L::nearest(v);
            assert!(set.iter().any(|&l| f32::from(l) == level), "{v}: {level}");
            let least = set
                .iter()
                .map(|&l| (f32::from(l) - v).abs())
                .fold(f32::MAX, f32::min);
            assert_eq!((level - v).abs(), least, "{v}: {level}");
        }
        for far in [
            f32::MAX,
            f32::MIN,
            f32::INFINITY,
            f32::NEG_INFINITY,
            f32::NAN,
        ] {
            let level = L::nearest(far);
            assert!(set.iter().any(|&l| f32::from(l) == level), "{far}: {level}");
        }
        assert_eq!(L::nearest(-1e9), L::LOW);
        assert_eq!(L::nearest(1e9), L::HIGH);
    }

    #[test]
    fn nearest_is_nearest() {
        check::<Linear<-4, 3>>(&[-4, -3, -2, -1, 0, 1, 2, 3]);
        check::<Linear<-1, 1>>(&[-1, 0, 1]);
        check::<Curve>(&IQ4_VALUES);
        check::<E2m1>(&E2M1_DOUBLED);
    }
}
