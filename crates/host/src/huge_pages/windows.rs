//! Private memory of Windows. Its large pages are taken whole and stay in memory, which needs the right to lock pages.

use std::ptr::{NonNull, null, null_mut};
use std::sync::OnceLock;
use windows_sys::Win32::Foundation::{CloseHandle, ERROR_SUCCESS, GetLastError, HANDLE, LUID};
use windows_sys::Win32::Security::{
    AdjustTokenPrivileges, LUID_AND_ATTRIBUTES, LookupPrivilegeValueW, SE_LOCK_MEMORY_NAME,
    SE_PRIVILEGE_ENABLED, TOKEN_ADJUST_PRIVILEGES, TOKEN_PRIVILEGES, TOKEN_QUERY,
};
use windows_sys::Win32::System::Memory::{
    GetLargePageMinimum, MEM_COMMIT, MEM_LARGE_PAGES, MEM_RELEASE, MEM_RESERVE, PAGE_NOACCESS,
    PAGE_READWRITE, VirtualAlloc, VirtualFree,
};
use windows_sys::Win32::System::SystemInformation::{GetSystemInfo, SYSTEM_INFO};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};

/// Address space that cannot be used yet.
pub(super) fn reserve(span: usize) -> Option<NonNull<u8>> {
    // SAFETY: new address space, wherever the system finds it, replaces nothing.
    let start = unsafe { VirtualAlloc(null(), span, MEM_RESERVE, PAGE_NOACCESS) };
    NonNull::new(start.cast())
}

/// Makes a part of such space zeroed memory. The system promises all of it now, so touching it cannot fail later.
///
/// # Safety
/// The part lies within a reservation of the caller's.
pub(super) unsafe fn make_writable(start: NonNull<u8>, bytes: usize) -> bool {
    // SAFETY: the caller's address space.
    let got = unsafe { VirtualAlloc(start.as_ptr().cast(), bytes, MEM_COMMIT, PAGE_READWRITE) };
    !got.is_null()
}

/// Memory in large pages, where this account may lock memory and enough of it is in one piece.
pub(super) fn map_huge(span: usize) -> Option<NonNull<u8>> {
    // SAFETY: asks for a constant: 0 where there are none.
    let large = unsafe { GetLargePageMinimum() };
    if large == 0 || span % large != 0 || !may_lock() {
        return None;
    }
    let kind = MEM_RESERVE | MEM_COMMIT | MEM_LARGE_PAGES;
    // SAFETY: new memory, wherever the system finds it, replaces nothing.
    let start = unsafe { VirtualAlloc(null(), span, kind, PAGE_READWRITE) };
    NonNull::new(start.cast())
}

/// Gives memory back.
///
/// # Safety
/// It is what one of the functions above gave, and nothing uses it any more.
pub(super) unsafe fn unmap(start: NonNull<u8>, _: usize) {
    // SAFETY: as the caller promises. The system knows how much it was, and wants no size.
    unsafe { VirtualFree(start.as_ptr().cast(), 0, MEM_RELEASE) };
}

pub(super) fn page_size() -> usize {
    let mut system = SYSTEM_INFO::default();
    // SAFETY: the system fills in the structure.
    unsafe { GetSystemInfo(&mut system) };
    system.dwPageSize as usize
}

/// Whether this process has the right to lock pages, which is switched on the first time.
fn may_lock() -> bool {
    static RIGHT: OnceLock<bool> = OnceLock::new();
    *RIGHT.get_or_init(|| {
        let mut token: HANDLE = null_mut();
        let access = TOKEN_ADJUST_PRIVILEGES | TOKEN_QUERY;
        // SAFETY: the handle is this process's own; the system fills in `token`.
        if unsafe { OpenProcessToken(GetCurrentProcess(), access, &mut token) } == 0 {
            return false;
        }
        let switched = switch_on(token);
        // SAFETY: the token was opened above, and is closed once.
        unsafe { CloseHandle(token) };
        switched
    })
}

fn switch_on(token: HANDLE) -> bool {
    let mut right = LUID::default();
    // SAFETY: the name is a constant of the system's; `right` is filled in.
    if unsafe { LookupPrivilegeValueW(null(), SE_LOCK_MEMORY_NAME, &mut right) } == 0 {
        return false;
    }
    let rights = TOKEN_PRIVILEGES {
        PrivilegeCount: 1,
        Privileges: [LUID_AND_ATTRIBUTES {
            Luid: right,
            Attributes: SE_PRIVILEGE_ENABLED,
        }],
    };
    // SAFETY: the token is open, and the structure has the one entry that it counts. The call succeeds also where the
    // account lacks the right; only the last error tells.
    unsafe {
        AdjustTokenPrivileges(token, 0, &rights, 0, null_mut(), null_mut()) != 0
            && GetLastError() == ERROR_SUCCESS
    }
}
