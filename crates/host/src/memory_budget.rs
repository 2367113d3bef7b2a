//! How much memory this process may use: what the machine has, what its control groups allow, and its own limits.
#![allow(unsafe_code)]

#[cfg(test)]
mod tests;

use crate::cgroup;
use crate::kernel_files::{field, text};
use crate::size::Size;
use std::path::Path;
use std::{fmt, io};

/// What sets a budget's `available_bytes`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The machine's memory.
    Machine,
    /// The limit of a control group: a container's, or a service's.
    ControlGroup,
    /// The limit on the process's private memory (`ulimit -d`, or [`cap_process`]).
    PrivateMemory,
    /// The limit on the process's address space (`ulimit -v`), which mapped files count towards.
    AddressSpace,
    /// Nothing that is known: the system does not say.
    Unknown,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Machine => "the machine",
            Self::ControlGroup => "the control group",
            Self::PrivateMemory => "the limit on private memory",
            Self::AddressSpace => "the limit on address space",
            Self::Unknown => "no known limit",
        })
    }
}

/// How much memory this process may use.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The most that it could ever have: the smallest of all limits.
    pub limit_bytes: u64,
    /// What it can still get now, others' use considered; cached files give way.
    pub available_bytes: u64,
    /// What it runs into first.
    pub bound_by: Bound,
}

impl Budget {
    /// Asks the system.
    pub fn now() -> Self {
        Self::read(Path::new("/"), &ProcessLimits::now())
    }

    fn read(root: &Path, limits: &ProcessLimits) -> Self {
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
        let nothing = Self {
            limit_bytes: u64::MAX,
            available_bytes: u64::MAX,
            bound_by: Bound::Unknown,
        };
        let all = machine.into_iter().chain(groups).chain(own);
        all.fold(nothing, |budget, (bound, limit, available)| {
            let tighter = available < budget.available_bytes;
            Self {
                limit_bytes: budget.limit_bytes.min(limit),
                available_bytes: budget.available_bytes.min(available),
                bound_by: if tighter { bound } else { budget.bound_by },
            }
        })
    }
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bound_by {
            Bound::Unknown => f.write_str("memory without a known limit"),
            bound => write!(
                f,
                "{} of {} available, bound by {bound}",
                Size(self.available_bytes),
                Size(self.limit_bytes)
            ),
        }
    }
}

/// The limits that the process carries itself.
#[derive(Copy, Clone, Debug, Default)]
struct ProcessLimits {
    private: Option<u64>,
    address_space: Option<u64>,
}

impl ProcessLimits {
    fn now() -> Self {
        let soft = |limit: io::Result<libc::rlimit>| {
            let limit = limit.ok()?.rlim_cur;
            (limit != libc::RLIM_INFINITY).then_some(limit)
        };
        Self {
            private: soft(private_limit()),
            address_space: soft(address_space_limit()),
        }
    }
}

fn private_limit() -> io::Result<libc::rlimit> {
    let mut limit = NO_LIMIT;
    // SAFETY: the kernel fills in `limit`.
    os_result(unsafe { libc::getrlimit(libc::RLIMIT_DATA, &mut limit) })?;
    Ok(limit)
}

fn address_space_limit() -> io::Result<libc::rlimit> {
    let mut limit = NO_LIMIT;
    // SAFETY: the kernel fills in `limit`.
    os_result(unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut limit) })?;
    Ok(limit)
}

const NO_LIMIT: libc::rlimit = libc::rlimit {
    rlim_cur: libc::RLIM_INFINITY,
    rlim_max: libc::RLIM_INFINITY,
};

fn os_result(code: i32) -> io::Result<()> {
    match code {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Limits this process's private memory to `bytes`, what it has already included: beyond that, memory cannot be had.
///
/// What counts is memory that was asked for, touched or not: heap, stacks, regions. Mapped files do not: the system
/// takes their pages back when others need the memory. A hard limit that is already lower stays.
pub fn cap_process(bytes: u64) -> io::Result<()> {
    let mut limit = private_limit()?;
    limit.rlim_cur = bytes.min(limit.rlim_max);
    // SAFETY: the kernel reads `limit`.
    os_result(unsafe { libc::setrlimit(libc::RLIMIT_DATA, &limit) })
}
