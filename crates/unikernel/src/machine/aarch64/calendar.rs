//! What day it is, by a clock of Arm's (PL031).
#![allow(unsafe_code)]

use super::cpu;
use crate::boot::memory_map::Range;
use crate::machine::address_space::map_device;
use core::sync::atomic::{AtomicU64, Ordering};

static PLACE: AtomicU64 = AtomicU64::new(0);

/// Tells where the clock is.
pub(super) fn set_place(place: Range) {
    if map_device(place).is_ok() {
        PLACE.store(place.start, Ordering::Relaxed);
    }
}

/// Seconds since 1970, if the machine has a clock.
///
/// # Safety
/// For the bare machine.
pub unsafe fn now() -> Option<u64> {
    let place = PLACE.load(Ordering::Relaxed);
    // SAFETY: mapped by `set_place`; the first register is the time.
    (place != 0).then(|| u64::from(unsafe { cpu::read_device(place as *const u32) }))
}
