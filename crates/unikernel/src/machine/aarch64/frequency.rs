//! How often the counter counts.
#![allow(unsafe_code)]

use super::cpu::read_register;

/// What firmware has written down.
///
/// # Safety
/// None; as other architectures have it.
pub unsafe fn find() -> Option<u64> {
    Some(read_register!("cntfrq_el0") & 0xffff_ffff).filter(|&hz| hz != 0)
}
