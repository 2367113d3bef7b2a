//! What Windows says of memory, and its limits of processes: job objects.
#![allow(unsafe_code)]

use super::{Bound, Budget};
use crate::process_memory;
use std::io;
use std::ptr::{null, null_mut};
use std::sync::Mutex;
use windows_sys::Win32::Foundation::{CloseHandle, HANDLE};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_JOB_MEMORY,
    JOB_OBJECT_LIMIT_PROCESS_MEMORY, JOBOBJECT_EXTENDED_LIMIT_INFORMATION,
    JobObjectExtendedLimitInformation, QueryInformationJobObject, SetInformationJobObject,
};
use windows_sys::Win32::System::SystemInformation::{GlobalMemoryStatusEx, MEMORYSTATUSEX};
use windows_sys::Win32::System::Threading::GetCurrentProcess;

/// What the system says, in bytes.
#[derive(Copy, Clone, Debug, Default)]
struct Facts {
    /// The machine's memory, and what of it nobody uses.
    machine: Option<(u64, u64)>,
    /// What the system can promise, and what of it nobody was promised.
    commit: Option<(u64, u64)>,
    /// What this process was promised.
    private: u64,
    process_limit: Option<u64>,
    job_limit: Option<u64>,
}

pub(super) fn budget() -> Budget {
    let mut facts = Facts::default();
    let mut status = MEMORYSTATUSEX {
        dwLength: size_of::<MEMORYSTATUSEX>() as u32,
        ..MEMORYSTATUSEX::default()
    };
    // SAFETY: the system fills in the structure, whose size it was told.
    if unsafe { GlobalMemoryStatusEx(&mut status) } != 0 {
        facts.machine = Some((status.ullTotalPhys, status.ullAvailPhys));
        facts.commit = Some((status.ullTotalPageFile, status.ullAvailPageFile));
    }
    facts.private = process_memory::counters().map_or(0, |counters| counters.PrivateUsage as u64);
    if let Ok(limits) = job_limits() {
        let set = |flag, bytes: usize| {
            let is_set = limits.BasicLimitInformation.LimitFlags & flag != 0;
            is_set.then_some(bytes as u64)
        };
        facts.process_limit = set(JOB_OBJECT_LIMIT_PROCESS_MEMORY, limits.ProcessMemoryLimit);
        facts.job_limit = set(JOB_OBJECT_LIMIT_JOB_MEMORY, limits.JobMemoryLimit);
    }
    facts.budget()
}

impl Facts {
    fn budget(&self) -> Budget {
        let whole = |bound, pair: Option<(u64, u64)>| pair.map(|(all, free)| (bound, all, free));
        // Of a job's other processes nothing is known.
        let own = |bound, limit: Option<u64>| {
            limit.map(|limit| (bound, limit, limit.saturating_sub(self.private)))
        };
        let all = [
            whole(Bound::Machine, self.machine),
            whole(Bound::Commit, self.commit),
            own(Bound::PrivateMemory, self.process_limit),
            own(Bound::ControlGroup, self.job_limit),
        ];
        Budget::tightest(all.into_iter().flatten())
    }
}

/// The limits of the job that this process is in, the innermost where there are several.
fn job_limits() -> io::Result<JOBOBJECT_EXTENDED_LIMIT_INFORMATION> {
    let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
    let bytes = size_of_val(&limits) as u32;
    let place = (&raw mut limits).cast();
    let kind = JobObjectExtendedLimitInformation;
    // SAFETY: the system fills in at most the given size. No handle means the caller's own job.
    checked(unsafe { QueryInformationJobObject(null_mut(), kind, place, bytes, null_mut()) })?;
    Ok(limits)
}

fn checked(succeeded: i32) -> io::Result<()> {
    match succeeded {
        0 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// The job that this process was put into. Never closed: its limits hold as long as the process lives.
struct Job(HANDLE);

// SAFETY: a handle is a number that every thread of the process may use.
unsafe impl Send for Job {}

/// Limits this process's private memory to `bytes`, what it has already included: beyond that, memory cannot be had.
///
/// What counts is memory that was asked for, touched or not: heap, stacks, regions. Mapped files do not: the system
/// takes their pages back when others need the memory. A limit that is already lower stays.
pub fn cap_process(bytes: u64) -> io::Result<()> {
    static JOB: Mutex<Option<Job>> = Mutex::new(None);
    let mut job = JOB
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    match &*job {
        Some(Job(handle)) => set_limit(*handle, bytes)?,
        None => {
            // SAFETY: a new job without a name.
            let handle = unsafe { CreateJobObjectW(null(), null()) };
            if handle.is_null() {
                return Err(io::Error::last_os_error());
            }
            let entered = set_limit(handle, bytes).and_then(|()| {
                // SAFETY: both handles are valid.
                checked(unsafe { AssignProcessToJobObject(handle, GetCurrentProcess()) })
            });
            if let Err(error) = entered {
                // SAFETY: it was made above, and nothing uses it.
                unsafe { CloseHandle(handle) };
                return Err(error);
            }
            *job = Some(Job(handle));
        }
    }
    // Wine takes limits and forgets them.
    let holds = bytes == usize::MAX
        || job_limits().is_ok_and(|limits| {
            let flags = limits.BasicLimitInformation.LimitFlags;
            flags & JOB_OBJECT_LIMIT_PROCESS_MEMORY != 0 && limits.ProcessMemoryLimit <= bytes
        });
    if holds {
        return Ok(());
    }
    let what = "this system does not limit the memory of processes";
    Err(io::Error::new(io::ErrorKind::Unsupported, what))
}

/// Sets the memory that each process of a job may have; the largest number lifts the limit.
fn set_limit(job: HANDLE, bytes: usize) -> io::Result<()> {
    let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
    if bytes < usize::MAX {
        limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_PROCESS_MEMORY;
        limits.ProcessMemoryLimit = bytes;
    }
    let (place, length) = ((&raw const limits).cast(), size_of_val(&limits) as u32);
    // SAFETY: the system reads the structure, whose size it is told; the handle is valid.
    checked(unsafe {
        SetInformationJobObject(job, JobObjectExtendedLimitInformation, place, length)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1 << 30;

    #[test]
    fn the_tightest_limit_counts() {
        let machine = Facts {
            machine: Some((16 * GB, 12 * GB)),
            commit: Some((20 * GB, 14 * GB)),
            private: GB,
            ..Facts::default()
        };
        let bound = |facts: Facts| (facts.budget().available_bytes, facts.budget().bound_by);
        assert_eq!(bound(machine), (12 * GB, Bound::Machine));
        let promised = Facts {
            commit: Some((20 * GB, 2 * GB)),
            ..machine
        };
        assert_eq!(bound(promised), (2 * GB, Bound::Commit));
        let capped = Facts {
            process_limit: Some(4 * GB),
            ..machine
        };
        assert_eq!(bound(capped), (3 * GB, Bound::PrivateMemory));
        assert_eq!(capped.budget().limit_bytes, 4 * GB);
        let contained = Facts {
            job_limit: Some(GB / 2),
            ..capped
        };
        assert_eq!(bound(contained), (0, Bound::ControlGroup));
        assert_eq!(bound(Facts::default()).1, Bound::Unknown);
    }

    #[test]
    fn a_cap_holds_or_is_refused() {
        let before = Budget::now();
        match cap_process(64 * GB) {
            Ok(()) => assert!(Budget::now().limit_bytes <= 64 * GB),
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::Unsupported);
                assert_eq!(Budget::now().limit_bytes, before.limit_bytes);
            }
        }
        cap_process(u64::MAX).unwrap();
    }
}
