//! What Linux says of memory, in its text files.

use super::{Bound, Budget};
use crate::cgroup;
use crate::kernel_files::{field, text};
use std::path::Path;

/// The limits that the process carries itself.
#[derive(Copy, Clone, Debug, Default)]
pub(super) struct ProcessLimits {
    pub(super) private: Option<u64>,
    pub(super) address_space: Option<u64>,
}

/// The budget from the files under `root`, which is `/` but in tests.
pub(super) fn read(root: &Path, limits: &ProcessLimits) -> Budget {
    let meminfo = text(&root.join("proc/meminfo")).unwrap_or_default();
    let status = text(&root.join("proc/self/status")).unwrap_or_default();
    let machine = field(&meminfo, "MemTotal").map(|total| {
        // Kernels before 3.14 do not have the second.
        let available = field(&meminfo, "MemAvailable").or_else(|| field(&meminfo, "MemFree"));
        (Bound::Machine, total, available.unwrap_or(total))
    });
    let groups = cgroup::limits(root).into_iter();
    let groups = groups.map(|group| {
        (
            Bound::ControlGroup,
            group.limit_bytes,
            group.available_bytes,
        )
    });
    let own = [
        (Bound::PrivateMemory, limits.private, "VmData"),
        (Bound::AddressSpace, limits.address_space, "VmSize"),
    ];
    let own = own.into_iter().filter_map(|(bound, limit, used)| {
        let limit = limit?;
        Some((
            bound,
            limit,
            limit.saturating_sub(field(&status, used).unwrap_or(0)),
        ))
    });
    Budget::tightest(machine.into_iter().chain(groups).chain(own))
}
