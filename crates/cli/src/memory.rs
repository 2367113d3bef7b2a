//! The program's allocator: the system's, but running out of memory is an exit code and a sentence, not a signal.
#![allow(unsafe_code)]

use crate::failure::Kind;
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;

struct OrExit;

#[global_allocator]
static ALLOCATOR: OrExit = OrExit;

// SAFETY: every call goes to `System` unchanged; a null result ends the process instead of reaching the caller.
unsafe impl GlobalAlloc for OrExit {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promises are `System`'s.
        or_exit(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        or_exit(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        or_exit(unsafe { System.realloc(at, layout, size) }, size)
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

fn or_exit(memory: *mut u8, bytes: usize) -> *mut u8 {
    if memory.is_null() {
        out_of_memory(bytes);
    }
    memory
}

#[cold]
fn out_of_memory(bytes: usize) -> ! {
    // Standard error is unbuffered and the arguments are numbers: nothing here allocates.
    let _ = writeln!(
        std::io::stderr(),
        "error: not enough memory for {bytes} more bytes\nhint: close other programs or raise the memory limit"
    );
    std::process::exit(Kind::OutOfMemory as i32)
}
