//! What this process has used so far, as the system counts it (Linux: Documentation/filesystems/proc.rst).

#[cfg(not(any(target_os = "macos", windows)))]
use crate::kernel_files::{field, text};
#[cfg(not(any(target_os = "macos", windows)))]
use std::path::Path;

/// What this process has used so far.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The memory that it has now, mapped files included.
    pub resident_bytes: u64,
    /// The most that it ever had.
    pub peak_bytes: u64,
    /// The part of `resident_bytes` that is its own.
    pub anonymous_bytes: u64,
    /// The part of `resident_bytes` that the system can read again from files.
    pub file_bytes: u64,
    /// What was read from disks for it: not what the system had cached. 0 on Windows, which does not say.
    pub read_bytes: u64,
}

impl Usage {
    /// Asks the system; `None` where it does not say.
    pub fn now() -> Option<Self> {
        #[cfg(not(any(target_os = "macos", windows)))]
        return Self::read(Path::new("/proc/self"));
        #[cfg(any(target_os = "macos", windows))]
        return Self::counted();
    }

    #[cfg(target_os = "macos")]
    fn counted() -> Option<Self> {
        let counters = crate::macos::counters()?;
        let resident_bytes = counters.resident_bytes;
        // What is private may have been compressed.
        let anonymous_bytes = resident_bytes.min(counters.private_bytes);
        Some(Self {
            resident_bytes,
            peak_bytes: counters.peak_bytes,
            anonymous_bytes,
            file_bytes: resident_bytes - anonymous_bytes,
            read_bytes: counters.read_bytes,
        })
    }

    #[cfg(windows)]
    fn counted() -> Option<Self> {
        let counters = crate::process_memory::counters()?;
        let resident_bytes = counters.WorkingSetSize as u64;
        // What is private may have been written to the page file.
        let anonymous_bytes = resident_bytes.min(counters.PrivateUsage as u64);
        Some(Self {
            resident_bytes,
            peak_bytes: counters.PeakWorkingSetSize as u64,
            anonymous_bytes,
            file_bytes: resident_bytes - anonymous_bytes,
            read_bytes: 0,
        })
    }

    #[cfg(not(any(target_os = "macos", windows)))]
    fn read(process: &Path) -> Option<Self> {
        let status = text(&process.join("status"))?;
        let io = text(&process.join("io")).unwrap_or_default();
        Some(Self {
            resident_bytes: field(&status, "VmRSS")?,
            peak_bytes: field(&status, "VmHWM")?,
            anonymous_bytes: field(&status, "RssAnon").unwrap_or(0),
            file_bytes: field(&status, "RssFile").unwrap_or(0),
            read_bytes: field(&io, "read_bytes").unwrap_or(0),
        })
    }
}
