//! What macOS says of the machine, by `sysctl`, and of this process, by libproc.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::mem::MaybeUninit;

/// A number of the system's, of four or eight bytes.
pub(crate) fn number(name: &CStr) -> Option<u64> {
    let mut bytes = [0; 8];
    match value(name, &mut bytes)? {
        4 => Some(u64::from(u32::from_ne_bytes(*bytes.first_chunk()?))),
        8 => Some(u64::from_ne_bytes(bytes)),
        _ => None,
    }
}

/// Fills `bytes` with a value of the system's, and says how long it is; nothing where it is longer than that.
fn value(name: &CStr, bytes: &mut [u8]) -> Option<usize> {
    let mut length = bytes.len();
    // SAFETY: the name ends with a zero; the system writes at most `length` bytes, which `bytes` has; nothing is set.
    let status = unsafe {
        libc::sysctlbyname(
            name.as_ptr(),
            bytes.as_mut_ptr().cast(),
            &raw mut length,
            std::ptr::null_mut(),
            0,
        )
    };
    (status == 0).then_some(length)
}

/// Bytes of memory that nobody needs: free pages, those of files, and those that programs gave leave to take.
pub(crate) fn available_bytes() -> Option<u64> {
    let pages = [
        c"vm.page_free_count",
        c"vm.page_pageable_external_count",
        c"vm.page_purgeable_count",
    ];
    let pages: u64 = pages.into_iter().map(number).sum::<Option<u64>>()?;
    pages.checked_mul(number(c"hw.pagesize")?)
}

/// What is counted of this process.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Counters {
    /// Memory that it has now.
    pub(crate) resident_bytes: u64,
    /// The most of it that it ever had.
    pub(crate) peak_bytes: u64,
    /// What cannot be read again from files, compressed memory included.
    pub(crate) private_bytes: u64,
    /// Address space, where it is known.
    pub(crate) virtual_bytes: Option<u64>,
    /// What was read from disks.
    pub(crate) read_bytes: u64,
}

/// The counters now.
pub(crate) fn counters() -> Option<Counters> {
    // SAFETY: it takes nothing and cannot fail.
    let process = unsafe { libc::getpid() };
    let mut usage = MaybeUninit::<libc::rusage_info_v4>::zeroed();
    let place = usage.as_mut_ptr().cast();
    // SAFETY: the flavor says which structure is at `place`, and the system fills it in.
    if unsafe { libc::proc_pid_rusage(process, libc::RUSAGE_INFO_V4, place) } != 0 {
        return None;
    }
    // SAFETY: numbers alone, for which zeros are values too.
    let usage = unsafe { usage.assume_init() };
    Some(Counters {
        resident_bytes: usage.ri_resident_size,
        peak_bytes: peak_bytes().unwrap_or(0).max(usage.ri_resident_size),
        private_bytes: usage.ri_phys_footprint,
        virtual_bytes: virtual_bytes(process),
        read_bytes: usage.ri_diskio_bytesread,
    })
}

/// The most resident memory, which macOS gives in bytes, not in kilobytes.
fn peak_bytes() -> Option<u64> {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the system fills in the structure.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: numbers alone, for which zeros are values too.
    let usage = unsafe { usage.assume_init() };
    usage.ru_maxrss.try_into().ok()
}

fn virtual_bytes(process: libc::pid_t) -> Option<u64> {
    let mut task = MaybeUninit::<libc::proc_taskinfo>::zeroed();
    let bytes = size_of_val(&task) as libc::c_int;
    let place = task.as_mut_ptr().cast();
    // SAFETY: the system writes at most `bytes` bytes, which the structure has, and says how many.
    let told = unsafe { libc::proc_pidinfo(process, libc::PROC_PIDTASKINFO, 0, place, bytes) };
    if told != bytes {
        return None;
    }
    // SAFETY: filled in whole, as the number of bytes says.
    Some(unsafe { task.assume_init() }.pti_virtual_size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_and_this_process_are_known() {
        let all = number(c"hw.memsize").unwrap();
        assert!((1..=all).contains(&available_bytes().unwrap()));
        assert_eq!(number(c"strata.nothing"), None);
        let counters = counters().unwrap();
        assert!(counters.resident_bytes > 0 && counters.peak_bytes >= counters.resident_bytes);
        assert!(counters.virtual_bytes.unwrap() > counters.resident_bytes);
    }
}
