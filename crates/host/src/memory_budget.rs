//! How much memory this process may use: what the machine has, what its control groups allow, and its own limits.

// What is read on Linux is text, and tested everywhere.
#[cfg_attr(any(windows, target_os = "macos"), allow(dead_code))]
mod kernel;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(test)]
mod tests;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use crate::size::Size;
use std::fmt;
#[cfg(unix)]
pub use unix::cap_process;
#[cfg(windows)]
pub use windows::cap_process;

/// What sets a budget's `available_bytes`.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// The machine's memory.
    Machine,
    /// The limit of a control group, or of a job object on Windows: a container's, or a service's.
    ControlGroup,
    /// The limit on the process's private memory (`ulimit -d`, or [`cap_process`]).
    PrivateMemory,
    /// The limit on the process's address space (`ulimit -v`), which mapped files count towards.
    AddressSpace,
    /// What the system can promise to all programs together: memory and page files (Windows).
    Commit,
    /// Nothing that is known: the system does not say.
    Unknown,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Machine => "the machine",
            Self::ControlGroup if cfg!(windows) => "the job object",
            Self::ControlGroup => "the control group",
            Self::PrivateMemory => "the limit on private memory",
            Self::AddressSpace => "the limit on address space",
            Self::Commit => "the system's commit limit",
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
        #[cfg(unix)]
        return unix::budget();
        #[cfg(windows)]
        return windows::budget();
    }

    /// The tightest of bounds, each with its limit and what is left of it.
    fn tightest(all: impl Iterator<Item = (Bound, u64, u64)>) -> Self {
        let nothing = Self {
            limit_bytes: u64::MAX,
            available_bytes: u64::MAX,
            bound_by: Bound::Unknown,
        };
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
