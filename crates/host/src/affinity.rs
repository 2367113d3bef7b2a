//! Which processors a thread may run on.
#![allow(unsafe_code)]

#[cfg(not(windows))]
use std::io;

/// The processors that the calling thread may run on, in rising order; empty where the system does not say.
#[cfg(any(target_os = "android", target_os = "linux"))]
pub(crate) fn allowed() -> Vec<usize> {
    // SAFETY: a set of bits, for which all zeros is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the kernel writes at most the given size into `set`. 0 is the calling thread.
    if unsafe { libc::sched_getaffinity(0, size_of_val(&set), &mut set) } != 0 {
        return Vec::new();
    }
    (0..libc::CPU_SETSIZE as usize)
        // SAFETY: the number is below the set's size.
        .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) })
        .collect()
}

/// Keeps the calling thread on these processors.
#[cfg(any(target_os = "android", target_os = "linux"))]
pub(crate) fn pin(processors: &[usize]) -> io::Result<()> {
    // SAFETY: a set of bits, for which all zeros is a value.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    for &cpu in processors {
        if cpu >= libc::CPU_SETSIZE as usize {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: the number is below the set's size, as checked above.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    // SAFETY: the kernel reads the given size from `set`. 0 is the calling thread.
    match unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(windows)]
pub(crate) use windows::{allowed, pin};

/// Windows counts processors in groups of up to 64, and a thread runs in one group at a time. Here a processor's number is its
/// group's times 64 and its own.
#[cfg(windows)]
mod windows {
    use std::io;
    use windows_sys::Win32::System::SystemInformation::GROUP_AFFINITY;
    use windows_sys::Win32::System::Threading::{
        GetCurrentThread, GetThreadGroupAffinity, SetThreadGroupAffinity,
    };

    const GROUP: usize = 64;

    pub(crate) fn allowed() -> Vec<usize> {
        let mut group = GROUP_AFFINITY::default();
        // SAFETY: the system fills in `group`; the handle is the calling thread's.
        if unsafe { GetThreadGroupAffinity(GetCurrentThread(), &mut group) } == 0 {
            return Vec::new();
        }
        let first = usize::from(group.Group) * GROUP;
        let bits = 0..usize::BITS as usize;
        let set = bits.filter(|bit| group.Mask >> bit & 1 == 1);
        set.map(|bit| first + bit).collect()
    }

    pub(crate) fn pin(processors: &[usize]) -> io::Result<()> {
        let wrong = || io::Error::from(io::ErrorKind::InvalidInput);
        let number = processors.first().ok_or_else(wrong)? / GROUP;
        let mut group = GROUP_AFFINITY {
            Group: number.try_into().map_err(|_| wrong())?,
            ..GROUP_AFFINITY::default()
        };
        for &processor in processors {
            if processor / GROUP != number {
                return Err(wrong());
            }
            group.Mask |= 1 << (processor % GROUP);
        }
        // SAFETY: the system reads `group`; the handle is the calling thread's; nothing is asked back.
        match unsafe { SetThreadGroupAffinity(GetCurrentThread(), &group, std::ptr::null_mut()) } {
            0 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

#[cfg(not(any(target_os = "android", target_os = "linux", windows)))]
pub(crate) fn allowed() -> Vec<usize> {
    Vec::new()
}

#[cfg(not(any(target_os = "android", target_os = "linux", windows)))]
pub(crate) fn pin(_: &[usize]) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(all(test, any(target_os = "android", target_os = "linux", windows)))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_stays_where_it_is_put() {
        std::thread::spawn(|| {
            let all = allowed();
            let last = *all.last().expect("a thread runs somewhere");
            pin(&[last]).unwrap();
            assert_eq!(allowed(), [last]);
            pin(&all).unwrap();
            assert_eq!(allowed(), all);
            assert!(pin(&[usize::MAX]).is_err());
            assert_eq!(allowed(), all);
        })
        .join()
        .unwrap();
    }
}
