//! The allocator. Threads share the module's memory, so they take it in turns.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};
use dlmalloc::Dlmalloc;

pub(crate) struct Allocator {
    heap: UnsafeCell<Dlmalloc>,
    taken: AtomicBool,
}

// SAFETY: the heap is reached only by whoever has taken it.
unsafe impl Sync for Allocator {}

impl Allocator {
    pub(crate) const fn new() -> Self {
        Self {
            heap: UnsafeCell::new(Dlmalloc::new()),
            taken: AtomicBool::new(false),
        }
    }

    fn turn<T>(&self, act: impl FnOnce(&mut Dlmalloc) -> T) -> T {
        while self.taken.swap(true, Ordering::Acquire) {
            core::hint::spin_loop();
        }
        // SAFETY: nobody else has a reference: `taken` was ours to set.
        let result = act(unsafe { &mut *self.heap.get() });
        self.taken.store(false, Ordering::Release);
        result
    }
}

// SAFETY: all of it is Dlmalloc's, called by one thread at a time.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps to the contract of the trait, which is the same.
        self.turn(|heap| unsafe { heap.malloc(layout.size(), layout.align()) })
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        self.turn(|heap| unsafe { heap.free(pointer, layout.size(), layout.align()) });
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        self.turn(|heap| unsafe { heap.calloc(layout.size(), layout.align()) })
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: as above.
        self.turn(|heap| unsafe { heap.realloc(pointer, layout.size(), layout.align(), size) })
    }
}
