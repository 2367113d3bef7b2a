//! Memory that a device reads and writes.
#![allow(unsafe_code)]

use crate::boot::memory_map::Range;
use alloc::alloc::{alloc_zeroed, dealloc};
use core::alloc::Layout;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

const PAGE: usize = 4096;

/// Where the program's image appears, where that ends, and how far its memory is from there.
static IMAGE: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

/// Notes where the program's variables and its first stack lie for devices; everything else is mapped to itself.
pub(crate) fn set_image(image: Range, physical: u64) {
    let values = [image.start, image.end, physical.wrapping_sub(image.start)];
    for (place, value) in IMAGE.iter().zip(values) {
        place.store(value, Ordering::Relaxed);
    }
}

/// Where a device finds what the program has at an address.
pub(crate) fn physical<T>(pointer: *const T) -> u64 {
    let [start, end, offset] = [0, 1, 2].map(|at| IMAGE[at].load(Ordering::Relaxed));
    let address = pointer as u64;
    if (start..end).contains(&address) {
        address.wrapping_add(offset)
    } else {
        address
    }
}

/// Whole pages, which lie at the same address for the device. They never move.
pub struct Dma {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: the memory is owned, and what a device does to it is seen through volatile accesses only.
unsafe impl Send for Dma {}

impl Dma {
    /// At least `bytes` zeroed bytes; nothing if there is no memory.
    pub fn new(bytes: usize) -> Option<Self> {
        let bytes = bytes.max(1).checked_next_multiple_of(PAGE)?;
        let layout = Layout::from_size_align(bytes, PAGE).ok()?;
        // SAFETY: the size is not zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Self { start, layout })
    }

    /// Where the device finds it.
    pub fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    fn at(&self, offset: usize, bytes: usize) -> *mut u8 {
        let end = offset.checked_add(bytes);
        assert!(
            end.is_some_and(|end| end <= self.layout.size()),
            "inside of the pages"
        );
        // SAFETY: just checked.
        unsafe { self.start.as_ptr().add(offset) }
    }

    /// Reads the word at an offset that is a multiple of 4.
    pub fn read(&self, offset: usize) -> u32 {
        assert!(offset.is_multiple_of(4));
        // SAFETY: inside, aligned, and any bits are a number.
        unsafe { self.at(offset, 4).cast::<u32>().read_volatile() }
    }

    /// Writes the word at an offset that is a multiple of 4.
    pub fn write(&mut self, offset: usize, value: u32) {
        assert!(offset.is_multiple_of(4));
        // SAFETY: inside and aligned.
        unsafe { self.at(offset, 4).cast::<u32>().write_volatile(value) }
    }

    /// Writes two words, the lower first.
    pub fn write_pair(&mut self, offset: usize, value: u64) {
        self.write(offset, value as u32);
        self.write(offset + 4, (value >> 32) as u32);
    }

    /// Copies bytes out.
    pub fn copy_to(&self, offset: usize, out: &mut [u8]) {
        let from = self.at(offset, out.len());
        // SAFETY: inside, and `out` is elsewhere.
        unsafe { core::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len()) }
    }

    /// Copies bytes in.
    pub fn copy_from(&mut self, offset: usize, bytes: &[u8]) {
        let to = self.at(offset, bytes.len());
        // SAFETY: inside, and `bytes` are elsewhere.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) }
    }
}

impl Drop for Dma {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_find_what_is_in_the_image() {
        let at = |address: u64| physical(address as *const u8);
        let here = 7u32;
        set_image(Range::new(0x6000_0012_3000, 0x9000), 0x20_0000);
        assert_eq!(at(0x6000_0012_3000), 0x20_0000);
        assert_eq!(at(0x6000_0012_bfff), 0x20_8fff);
        for same in [0, 0x20_0000, 0x6000_0012_2fff, 0x6000_0012_c000, u64::MAX] {
            assert_eq!(at(same), same);
        }
        assert_eq!(physical(&raw const here), &raw const here as u64);
    }
}
