//! The user that this process runs as.
#![allow(unsafe_code)]

/// The number of the user whose rights this process has; `None` where users have no numbers.
pub fn user_id() -> Option<u32> {
    #[cfg(unix)]
    {
        // SAFETY: it takes nothing, cannot fail and changes nothing.
        Some(unsafe { libc::geteuid() })
    }
    #[cfg(not(unix))]
    None
}
