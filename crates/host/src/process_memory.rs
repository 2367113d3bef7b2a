//! What Windows counts of this process's memory.
#![allow(unsafe_code)]

use windows_sys::Win32::System::ProcessStatus::{
    K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS_EX,
};
use windows_sys::Win32::System::Threading::GetCurrentProcess;

/// The counters now.
pub(crate) fn counters() -> Option<PROCESS_MEMORY_COUNTERS_EX> {
    let bytes = size_of::<PROCESS_MEMORY_COUNTERS_EX>() as u32;
    let mut counters = PROCESS_MEMORY_COUNTERS_EX {
        cb: bytes,
        ..PROCESS_MEMORY_COUNTERS_EX::default()
    };
    let place = (&raw mut counters).cast();
    // SAFETY: the system fills in as many bytes as it is told that there are, which tells it the longer structure.
    let got = unsafe { K32GetProcessMemoryInfo(GetCurrentProcess(), place, bytes) };
    (got != 0).then_some(counters)
}
