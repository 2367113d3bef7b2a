//! What macOS says of memory.

use super::kernel::ProcessLimits;
use super::{Bound, Budget};
use crate::macos;

/// The budget of the machine and of the limits that the process carries.
pub(super) fn budget(limits: &ProcessLimits) -> Budget {
    let machine = macos::number(c"hw.memsize").map(|total| {
        let available = macos::available_bytes().unwrap_or(total);
        (Bound::Machine, total, available.min(total))
    });
    let used = macos::counters();
    let own = [
        (
            Bound::PrivateMemory,
            limits.private,
            used.map(|used| used.private_bytes),
        ),
        (
            Bound::AddressSpace,
            limits.address_space,
            used.and_then(|used| used.virtual_bytes),
        ),
    ];
    let own = own.into_iter().filter_map(|(bound, limit, used)| {
        let limit = limit?;
        Some((bound, limit, limit.saturating_sub(used.unwrap_or(0))))
    });
    Budget::tightest(machine.into_iter().chain(own))
}
