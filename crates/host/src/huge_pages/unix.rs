//! Anonymous memory of a Unix system.

use std::ptr::{NonNull, null_mut};

/// Address space that cannot be used yet.
pub(super) fn reserve(span: usize) -> Option<NonNull<u8>> {
    map(span, libc::PROT_NONE, 0, -1)
}

/// Makes a part of such space zeroed memory, in huge pages where the system has them.
///
/// # Safety
/// The part lies within a reservation of the caller's.
pub(super) unsafe fn make_writable(start: NonNull<u8>, bytes: usize) -> bool {
    let start = start.as_ptr().cast();
    // SAFETY: the caller's memory.
    let writable = unsafe { libc::mprotect(start, bytes, libc::PROT_READ | libc::PROT_WRITE) == 0 };
    #[cfg(any(target_os = "android", target_os = "linux"))]
    if writable {
        // SAFETY: as above. A kernel without huge pages says no, and ordinary pages do.
        unsafe { libc::madvise(start, bytes, libc::MADV_HUGEPAGE) };
    }
    writable
}

/// Memory in huge pages that were set aside.
#[cfg(target_os = "linux")]
pub(super) fn map_huge(span: usize) -> Option<NonNull<u8>> {
    let flags = libc::MAP_HUGETLB | libc::MAP_HUGE_2MB;
    map(span, libc::PROT_READ | libc::PROT_WRITE, flags, -1)
}

/// Superpages, which macOS has on Intel's processors, and gives whole or not at all. Their size goes where others have a file.
#[cfg(all(target_os = "macos", target_arch = "x86_64"))]
pub(super) fn map_huge(span: usize) -> Option<NonNull<u8>> {
    let size = libc::VM_FLAGS_SUPERPAGE_SIZE_2MB;
    map(span, libc::PROT_READ | libc::PROT_WRITE, 0, size)
}

#[cfg(not(any(target_os = "linux", all(target_os = "macos", target_arch = "x86_64"))))]
pub(super) fn map_huge(_: usize) -> Option<NonNull<u8>> {
    None
}

fn map(span: usize, protection: i32, flags: i32, file: i32) -> Option<NonNull<u8>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | flags;
    // SAFETY: new memory, at an address that the kernel chooses, replaces nothing.
    let start = unsafe { libc::mmap(null_mut(), span, protection, flags, file, 0) };
    if start == libc::MAP_FAILED {
        return None;
    }
    NonNull::new(start.cast())
}

/// Gives memory back.
///
/// # Safety
/// It is what one of the functions above gave, and nothing uses it any more.
pub(super) unsafe fn unmap(start: NonNull<u8>, span: usize) {
    // SAFETY: as the caller promises.
    unsafe { libc::munmap(start.as_ptr().cast(), span) };
}

pub(super) fn page_size() -> usize {
    // SAFETY: asks for a constant.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    usize::try_from(size).unwrap_or(super::HUGE)
}
