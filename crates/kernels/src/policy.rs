//! How far ahead of their use weights are asked for.
//!
//! A hardware prefetcher stops at each 4 KiB, and sees no stream where several tokens keep the loads apart. Where one
//! token is computed, the loads come as fast as memory delivers; then it depends on the processor whether asking for
//! lines by software helps (by a third and more on Intel's servers) or takes the hardware's place. So that distance can
//! be set, by whoever has measured it. It never shows in a result.

use core::sync::atomic::{AtomicU16, Ordering};
use strata_quant::GgmlType;

/// The distance for several tokens, and for one until another is set.
pub(crate) const AHEAD: usize = 4608;

/// Types that have a distance of their own.
const TYPES: usize = 64;

/// The distance for one token, for each type of weights.
#[derive(Debug)]
pub struct Prefetch {
    distances: [AtomicU16; TYPES],
}

impl Prefetch {
    /// Distances that are worth trying, in bytes; at 0 nothing is asked for that is not there already.
    pub const DISTANCES: [usize; 4] = [0, 2304, AHEAD, 2 * AHEAD];

    pub(crate) const fn new() -> Self {
        Self {
            distances: [const { AtomicU16::new(AHEAD as u16) }; TYPES],
        }
    }

    /// How far ahead weights of type `ty` are asked for.
    pub fn distance(&self, ty: GgmlType) -> usize {
        self.place(ty)
            .map_or(AHEAD, |place| place.load(Ordering::Relaxed).into())
    }

    /// Sets it; distances of 64 KiB and more become the greatest below.
    pub fn set_distance(&self, ty: GgmlType, bytes: usize) {
        if let Some(place) = self.place(ty) {
            place.store(bytes.try_into().unwrap_or(u16::MAX), Ordering::Relaxed);
        }
    }

    fn place(&self, ty: GgmlType) -> Option<&AtomicU16> {
        self.distances.get(ty as usize)
    }
}
