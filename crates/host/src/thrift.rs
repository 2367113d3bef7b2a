//! What a program does to leave room for others: threads that yield, memory given back, files that may be open.
#![allow(unsafe_code)]

/// How much the work of a thread matters.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Priority {
    /// A quarter or so of a processor that others want too.
    Low,
    /// Little more than what others leave idle.
    Lowest,
}

/// Lowers the priority of the calling thread, for good.
pub fn lower_priority(to: Priority) {
    #[cfg(any(target_os = "android", target_os = "linux"))]
    {
        let nice = match to {
            Priority::Low => 5,
            Priority::Lowest => 15,
        };
        // SAFETY: passes numbers only. On Linux it is the thread that is meant, not the process.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
    }
    #[cfg(windows)]
    {
        use windows_sys::Win32::System::Threading::{
            GetCurrentThread, SetThreadPriority, THREAD_PRIORITY_BELOW_NORMAL,
            THREAD_PRIORITY_LOWEST,
        };
        let priority = match to {
            Priority::Low => THREAD_PRIORITY_BELOW_NORMAL,
            Priority::Lowest => THREAD_PRIORITY_LOWEST,
        };
        // SAFETY: passes a number, and the calling thread's own handle.
        unsafe { SetThreadPriority(GetCurrentThread(), priority) };
    }
    #[cfg(target_os = "macos")]
    {
        // A nice value is the whole process's there; a thread's class also says which cores suit it.
        let class = match to {
            Priority::Low => libc::qos_class_t::QOS_CLASS_UTILITY,
            Priority::Lowest => libc::qos_class_t::QOS_CLASS_BACKGROUND,
        };
        // SAFETY: passes numbers only, for the calling thread.
        unsafe { libc::pthread_set_qos_class_self_np(class, 0) };
    }
    #[cfg(not(any(
        target_os = "android",
        target_os = "linux",
        target_os = "macos",
        windows
    )))]
    let _ = to;
}

/// Gives memory that the allocator keeps for later back to the system.
pub fn release_free_memory() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        // SAFETY: it looks at free memory only, under the allocator's own locks.
        unsafe { libc::malloc_trim(0) };
    }
    #[cfg(windows)]
    {
        use windows_sys::Win32::System::Memory::{
            GetProcessHeap, HeapOptimizeResources, HeapSetInformation,
        };
        use windows_sys::Win32::System::SystemServices::{
            HEAP_OPTIMIZE_RESOURCES_CURRENT_VERSION, HEAP_OPTIMIZE_RESOURCES_INFORMATION,
        };
        let how = HEAP_OPTIMIZE_RESOURCES_INFORMATION {
            Version: HEAP_OPTIMIZE_RESOURCES_CURRENT_VERSION,
            Flags: 0,
        };
        let bytes = size_of_val(&how);
        // SAFETY: the heap is the process's own, and looks at free memory only, under its own locks.
        unsafe {
            HeapSetInformation(
                GetProcessHeap(),
                HeapOptimizeResources,
                (&raw const how).cast(),
                bytes,
            )
        };
    }
}

/// Has the allocator keep few heaps, of which each would hold on to memory of its own: by default it makes eight for each
/// processor. To be called before there are threads.
pub fn share_heaps() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        // SAFETY: sets a number of the allocator's, under its own lock.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, processors.clamp(2, 8) as libc::c_int) };
    }
}

/// How many files this process may have open, once it has asked for as many as it may.
pub fn open_files_limit() -> u64 {
    #[cfg(unix)]
    {
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: the structure is there to be written to.
        if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } == 0 {
            // Some systems allow billions, and some programs then close them all one by one.
            let most = limit.rlim_max.min(65_536);
            // macOS says that there is no limit, and refuses more than this.
            #[cfg(target_os = "macos")]
            let most = most.min(crate::macos::number(c"kern.maxfilesperproc").unwrap_or(10_240));
            let more = libc::rlimit {
                rlim_cur: most.max(limit.rlim_cur),
                ..limit
            };
            // SAFETY: the structure is there to be read.
            if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &more) } == 0 {
                return more.rlim_cur;
            }
            return limit.rlim_cur;
        }
    }
    // Windows has no such limit but memory.
    if cfg!(windows) { 65_536 } else { 256 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_may_be_opened() {
        let limit = open_files_limit();
        assert!(limit >= 64, "{limit}");
        assert_eq!(open_files_limit(), limit);
    }

    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    #[test]
    fn freed_memory_goes_back() {
        let resident = || {
            let text = std::fs::read_to_string("/proc/self/statm").unwrap();
            let pages = text.split(' ').nth(1).unwrap();
            pages.parse::<usize>().unwrap() * 4096
        };
        let before = resident();
        // Small pieces, which the allocator keeps; the last one holds the others' memory.
        let mut pieces: Vec<Vec<u8>> = (0..1 << 16).map(|_| vec![1; 1000]).collect();
        let last = pieces.pop();
        drop(pieces);
        release_free_memory();
        assert!(resident() < before + (24 << 20));
        drop(last);
    }
}
