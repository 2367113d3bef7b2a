//! The heap over all free memory, and large regions from it.
#![allow(unsafe_code)]

use super::lock::Spin;
use crate::boot::memory_map::Range;
use alloc::alloc::{alloc_zeroed, dealloc};
use alloc::boxed::Box;
use core::alloc::{GlobalAlloc, Layout};
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use strata_platform::{Memory, OutOfMemory, Region};
use talc::TalcLock;
use talc::source::Manual;

/// The allocator of the bare program.
pub struct Heap(TalcLock<Spin, Manual>);

/// How the heap is doing.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct HeapUsage {
    /// Bytes that are given out.
    pub used: usize,
    /// Bytes that the heap has in all.
    pub total: usize,
    /// How many pieces are given out.
    pub pieces: usize,
}

impl Heap {
    /// A heap with nothing in it.
    pub const fn new() -> Self {
        Self(TalcLock::new(Manual))
    }

    /// Adds memory, unless it is too little to be of use.
    ///
    /// # Safety
    /// The range must be mapped, writable, and used by nobody else from now on.
    pub unsafe fn add(&self, range: Range) {
        // SAFETY: the caller's promise.
        unsafe {
            self.0
                .lock()
                .claim(range.start as *mut u8, range.len() as usize)
        };
    }

    /// How full it is.
    pub fn usage(&self) -> HeapUsage {
        let heap = self.0.lock();
        let counters = heap.counters();
        HeapUsage {
            used: counters.allocated_bytes,
            total: counters.claimed_bytes,
            pieces: counters.allocation_count,
        }
    }
}

impl Default for Heap {
    fn default() -> Self {
        Self::new()
    }
}

// SAFETY: all of it is the inner allocator's.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { self.0.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { self.0.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { self.0.realloc(pointer, layout, size) }
    }
}

const HUGE: usize = 2 << 20;

/// Regions that begin on a page of 2 MiB if they are as large. All memory is mapped in such pages or larger ones.
#[derive(Copy, Clone, Debug, Default)]
pub struct HugePages;

struct HugeRegion {
    start: NonNull<u8>,
    layout: Layout,
    bytes: usize,
}

// SAFETY: the region is owned, like a box of bytes.
unsafe impl Send for HugeRegion {}
// SAFETY: as above.
unsafe impl Sync for HugeRegion {}

impl Region for HugeRegion {}

impl Deref for HugeRegion {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `start` has at least `bytes` initialized bytes until it is dropped.
        unsafe { core::slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl DerefMut for HugeRegion {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the borrow is unique.
        unsafe { core::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for HugeRegion {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

impl Memory for HugePages {
    fn region(&self, bytes: usize) -> Result<Box<dyn Region>, OutOfMemory> {
        let error = OutOfMemory { bytes };
        let align = if bytes < HUGE { 64 } else { HUGE };
        let layout = Layout::from_size_align(bytes.max(1), align).map_err(|_| error)?;
        // SAFETY: the size is not zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or(error)?;
        Ok(Box::new(HugeRegion {
            start,
            layout,
            bytes,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    #[test]
    fn memory_comes_from_the_ranges_and_goes_back() {
        let mut first = vec![0u8; 1 << 20];
        let mut second = vec![0u8; 8 << 20];
        let heap = Heap::new();
        let layout = |size| Layout::from_size_align(size, 4096).unwrap();
        // SAFETY: the vectors outlive the heap's use and nobody else touches them.
        unsafe {
            assert!(heap.alloc(layout(1)).is_null());
            heap.add(Range::new(first.as_mut_ptr() as u64, first.len() as u64));
            assert!(heap.alloc(layout(2 << 20)).is_null());
            heap.add(Range::new(second.as_mut_ptr() as u64, second.len() as u64));
            let large = heap.alloc(layout(4 << 20));
            let range = second.as_ptr_range();
            assert!(range.contains(&large.cast_const()) && (large as usize).is_multiple_of(4096));
            let small: Vec<_> = (0..100).map(|_| heap.alloc(layout(100))).collect();
            assert!(small.iter().all(|piece| !piece.is_null()));
            assert_eq!(heap.usage().pieces, 101);
            small
                .iter()
                .for_each(|&piece| heap.dealloc(piece, layout(100)));
            heap.dealloc(large, layout(4 << 20));
        }
        let usage = heap.usage();
        assert_eq!((usage.pieces, usage.used), (0, 0));
        assert!(usage.total > 8 << 20);
    }

    #[test]
    fn regions_are_zeroed_and_aligned() {
        for (bytes, align) in [(0, 64), (1, 64), (5 << 20, HUGE)] {
            let mut region = HugePages.region(bytes).unwrap();
            assert_eq!(region.len(), bytes);
            assert_eq!(region.as_ptr() as usize % align, 0);
            assert!(region.iter().all(|&byte| byte == 0));
            region.fill(1);
        }
        assert!(HugePages.region(usize::MAX).is_err());
    }
}
