//! Mapped files that are cut short while they are read.
//!
//! A page of a mapping past the end of its file cannot be read: the system ends the program with SIGBUS. Here the pages
//! from there on become zeros instead, and the file is known to be damaged, so that what was computed from them can be
//! thrown away.
#![allow(unsafe_code)]

use crate::huge_pages::page_size;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Files that can be guarded at a time; others end the program as before.
const FILES: usize = 512;

/// A mapping, where the handler of the signal finds it without a lock. Empty while `start` is 0.
struct Mapping {
    start: AtomicUsize,
    end: AtomicUsize,
    damaged: AtomicBool,
}

/// The size of a page, asked before a handler needs it.
static PAGE: AtomicUsize = AtomicUsize::new(4096);

static MAPPINGS: [Mapping; FILES] = [const {
    Mapping {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        damaged: AtomicBool::new(false),
    }
}; FILES];

/// What is done with signals that are not ours.
static mut BEFORE: libc::sigaction = {
    // SAFETY: zeros are a valid value of this plain structure.
    unsafe { std::mem::zeroed() }
};

/// A mapping that is guarded as long as this lives. It must live no longer than the mapping.
pub(crate) struct BusGuard(Option<&'static Mapping>);

impl BusGuard {
    /// Guards a mapping.
    pub(crate) fn new(bytes: &[u8]) -> Self {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(install);
        let (start, end) = (bytes.as_ptr().addr(), bytes.as_ptr().addr() + bytes.len());
        let mapping = MAPPINGS.iter().find(|mapping| {
            let order = Ordering::AcqRel;
            // Taken at once, by an end that no address has, so that the handler finds nothing yet.
            let free = mapping.end.compare_exchange(0, 1, order, Ordering::Relaxed);
            free.is_ok()
        });
        if let Some(mapping) = mapping {
            mapping.damaged.store(false, Ordering::Relaxed);
            mapping.start.store(start, Ordering::Relaxed);
            mapping.end.store(end, Ordering::Release);
        }
        Self(mapping)
    }

    /// Whether the file still has all the bytes that were read.
    pub(crate) fn is_intact(&self) -> bool {
        self.0
            .is_none_or(|mapping| !mapping.damaged.load(Ordering::Acquire))
    }
}

impl Drop for BusGuard {
    fn drop(&mut self) {
        if let Some(mapping) = self.0 {
            mapping.start.store(0, Ordering::Relaxed);
            mapping.end.store(0, Ordering::Release);
        }
    }
}

fn install() {
    PAGE.store(page_size(), Ordering::Relaxed);
    // SAFETY: the structures are plain, the handler has the signature that SA_SIGINFO asks for and calls nothing that a
    // handler may not call, and nothing else writes `BEFORE`.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(libc::SIGBUS, &action, &raw mut BEFORE);
    }
}

extern "C" fn handle(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the system passes a valid structure.
    let address = unsafe { (*info).si_addr() }.addr();
    if !replace(address) {
        // SAFETY: the structure was filled when this handler was installed. The access is tried again, and whoever was
        // there before hears of it.
        unsafe { libc::sigaction(libc::SIGBUS, &raw const BEFORE, std::ptr::null_mut()) };
    }
}

/// Puts zeros in place of a mapping's bytes from the page of an address on. Says whether there is such a mapping.
fn replace(address: usize) -> bool {
    for mapping in &MAPPINGS {
        let end = mapping.end.load(Ordering::Acquire);
        let start = mapping.start.load(Ordering::Relaxed);
        if start == 0 || !(start..end).contains(&address) {
            continue;
        }
        mapping.damaged.store(true, Ordering::Release);
        let page = address - address % PAGE.load(Ordering::Relaxed);
        let flags = libc::MAP_FIXED | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let place = std::ptr::without_provenance_mut(page);
        // SAFETY: the range is part of a mapping that is only read and that its owner still holds: whoever reads it is
        // the one who is interrupted here.
        let got = unsafe { libc::mmap(place, end - page, libc::PROT_READ, flags, -1, 0) };
        return got != libc::MAP_FAILED;
    }
    false
}
