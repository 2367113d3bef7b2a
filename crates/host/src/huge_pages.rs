//! Memory in 2 MiB pages, which save the processor most of its page walks.
//!
//! Linux calls them transparent huge pages (Documentation/admin-guide/mm/transhuge.rst); the ones that an
//! administrator sets aside are hugetlb pages (hugetlbpage.rst). Windows has large pages only for accounts that may lock
//! memory, macOS only on Intel's processors. Pages are cleared when they are first touched, by whoever touches them: fill a region from all workers.
#![allow(unsafe_code)]

#[cfg_attr(unix, path = "huge_pages/unix.rs")]
#[cfg_attr(windows, path = "huge_pages/windows.rs")]
mod system;

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use strata_platform::{Memory, OutOfMemory, Region, SystemMemory};

/// A huge page.
const HUGE: usize = 2 << 20;

/// Which huge pages are taken.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum HugePages {
    /// Those that the kernel makes as they are touched, and ordinary pages where it cannot.
    #[default]
    Transparent,
    /// Those that the administrator set aside (`vm.nr_hugepages`), or allows (the right to lock pages in memory, on
    /// Windows), and transparent ones where too few are free.
    Reserved,
}

impl Memory for HugePages {
    fn region(&self, bytes: usize) -> Result<Box<dyn Region>, OutOfMemory> {
        // Less than one huge page gains nothing, and a mapping costs more than an allocation.
        if bytes < HUGE {
            return SystemMemory.region(bytes);
        }
        if *self == Self::Reserved
            && let Some(mapping) = Mapping::reserved(bytes)
        {
            return Ok(Box::new(mapping));
        }
        match Mapping::transparent(bytes) {
            Some(mapping) => Ok(Box::new(mapping)),
            None => Err(OutOfMemory { bytes }),
        }
    }
}

/// Anonymous memory that is this value's alone.
struct Mapping {
    /// The whole mapping, unused ends included.
    start: NonNull<u8>,
    span: usize,
    /// The part that is handed out.
    bytes: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to this value alone, and is reached only as its borrows allow.
unsafe impl Send for Mapping {}
// SAFETY: as above; a shared borrow only reads.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// A window of ordinary memory, aligned to a huge page, in a slightly larger piece of address space.
    ///
    /// The ends stay inaccessible, so a region never shares a kernel area with its neighbour: its pages can be told
    /// apart in `smaps`, and a stray write faults.
    fn transparent(len: usize) -> Option<Self> {
        // An aligned start is less than a huge page away, so at least one page is left behind the window.
        let window = len.checked_next_multiple_of(page_size())?;
        let span = window.checked_add(HUGE)?;
        let start = system::reserve(span)?;
        let offset = start.align_offset(HUGE);
        debug_assert!(offset < HUGE);
        // From here the mapping is undone when this returns early.
        let mapping = Self {
            start,
            span,
            // SAFETY: less than a huge page into a mapping that is larger than that.
            bytes: unsafe { start.add(offset) },
            len,
        };
        // SAFETY: the window lies within the mapping, which nobody else knows of. Limits are checked here, where the
        // memory becomes writable: refusal means that there is not enough.
        unsafe { system::make_writable(mapping.bytes, window) }.then_some(mapping)
    }

    /// Pages that were set aside. The system promises them all now or refuses, so touching them cannot fail later.
    fn reserved(len: usize) -> Option<Self> {
        let span = len.checked_next_multiple_of(HUGE)?;
        let start = system::map_huge(span)?;
        Some(Self {
            start,
            span,
            bytes: start,
            len,
        })
    }
}

/// An ordinary page.
pub(crate) fn page_size() -> usize {
    system::page_size().max(1)
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what was mapped, and nothing borrows it any more.
        unsafe { system::unmap(self.start, self.span) };
    }
}

impl Deref for Mapping {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: `len` readable bytes, zeroed by the kernel, which live as long as the borrow of `self`.
        unsafe { std::slice::from_raw_parts(self.bytes.as_ptr(), self.len) }
    }
}

impl DerefMut for Mapping {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, writable, and the borrow is unique.
        unsafe { std::slice::from_raw_parts_mut(self.bytes.as_ptr(), self.len) }
    }
}

impl Region for Mapping {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PageReport;

    #[test]
    fn regions_are_zeroed_aligned_and_of_the_size_asked_for() {
        for pages in [HugePages::Transparent, HugePages::Reserved] {
            for bytes in [0, 1, HUGE - 1, HUGE, HUGE + 1, 5 * HUGE + 4097] {
                let mut region = pages.region(bytes).unwrap();
                assert_eq!(region.len(), bytes);
                assert!(region.iter().all(|&b| b == 0));
                let alignment = if bytes < HUGE { 64 } else { HUGE };
                assert_eq!(region.as_ptr() as usize % alignment, 0);
                region.fill(7);
                assert!(region.iter().all(|&b| b == 7));
            }
        }
    }

    #[test]
    fn too_much_is_an_error() {
        for bytes in [usize::MAX, isize::MAX as usize] {
            for pages in [HugePages::Transparent, HugePages::Reserved] {
                assert_eq!(pages.region(bytes).err(), Some(OutOfMemory { bytes }));
            }
        }
    }

    #[test]
    fn memory_goes_back_when_a_region_is_dropped() {
        for _ in 0..2000 {
            // Together a hundred times what a machine has.
            let mut region = HugePages::Transparent.region(1 << 30).unwrap();
            region[1 << 29] = 1;
        }
    }

    #[test]
    #[cfg(unix)]
    fn huge_pages_are_obtained_where_the_system_gives_them() {
        let mut region = HugePages::Transparent.region(16 * HUGE + 100).unwrap();
        region.fill(1);
        let mode = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
        if mode.is_ok_and(|mode| !mode.contains("[never]")) {
            let report = PageReport::of(&region).unwrap();
            // A machine whose memory is in small pieces may have fewer, hardly none.
            assert!(report.huge_bytes >= HUGE as u64, "{report}");
            assert!(report.huge_bytes <= 16 * HUGE as u64, "{report}");
            assert!(report.resident_bytes >= region.len() as u64, "{report}");
        } else {
            eprintln!("skipped: this system has no transparent huge pages");
        }
    }

    #[test]
    fn neighbours_pages_are_not_counted() {
        let mut one = HugePages::Transparent.region(8 * HUGE).unwrap();
        let two = HugePages::Transparent.region(8 * HUGE).unwrap();
        one.fill(1);
        let Some(report) = PageReport::of(&two) else {
            return eprintln!("skipped: this system does not report its pages");
        };
        assert_eq!((report.resident_bytes, report.huge_bytes), (0, 0));
        assert_eq!(
            PageReport::of(&one).unwrap().resident_bytes,
            one.len() as u64
        );
    }
}
