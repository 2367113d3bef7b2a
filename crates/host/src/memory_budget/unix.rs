//! Limits of processes on Unix.
#![allow(unsafe_code)]

use super::Budget;
use super::kernel::ProcessLimits;
use std::io;

pub(super) fn budget() -> Budget {
    let soft = |limit: io::Result<libc::rlimit>| {
        let limit = limit.ok()?.rlim_cur;
        (limit != libc::RLIM_INFINITY).then_some(limit)
    };
    let limits = ProcessLimits {
        private: soft(private_limit()),
        address_space: soft(address_space_limit()),
    };
    #[cfg(target_os = "macos")]
    return super::macos::budget(&limits);
    #[cfg(not(target_os = "macos"))]
    super::kernel::read(std::path::Path::new("/"), &limits)
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
    os_result(unsafe { libc::setrlimit(libc::RLIMIT_DATA, &limit) })?;
    #[cfg(target_os = "macos")]
    if bytes < u64::MAX && maps(limit.rlim_cur) {
        let what = "this system does not limit the memory of processes";
        return Err(io::Error::new(io::ErrorKind::Unsupported, what));
    }
    Ok(())
}

/// Whether as much memory as the limit can be mapped, beside what is there already: older systems take the limit and do not
/// keep it.
#[cfg(target_os = "macos")]
fn maps(bytes: u64) -> bool {
    let Ok(bytes) = usize::try_from(bytes) else {
        return false;
    };
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANON;
    // SAFETY: new memory, at an address that the kernel chooses, replaces nothing.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return false;
    }
    // SAFETY: exactly what was mapped above, which nothing has seen.
    unsafe { libc::munmap(start, bytes) };
    true
}
