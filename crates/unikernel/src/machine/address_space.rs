//! The one address space: what is mapped, how, and the frames that its tables lie in.
#![allow(unsafe_code)]

use super::lock::Lock;
use super::page_table::{Access, Caching, Frames, MapError, PageTable, Table};
use super::paging::{self, Entries};
use crate::boot::Physical;
use crate::boot::memory_map::{MemoryMap, PAGE, Range};
use crate::drivers::dma;
use alloc::alloc::alloc_zeroed;
use core::alloc::Layout;

/// Where the program lies, by what may be done with its parts.
#[derive(Copy, Clone, Debug)]
pub struct Image {
    /// Code.
    pub text: Range,
    /// Constants.
    pub read_only: Range,
    /// Variables, and the boot stack.
    pub data: Range,
    /// The page under the boot stack.
    pub guard: Range,
    /// Where all this is in memory; it appears elsewhere where nobody should know its addresses.
    pub physical: u64,
}

impl Image {
    /// All of it.
    pub fn whole(&self) -> Range {
        Range {
            start: self.text.start,
            end: self.data.end,
        }
    }

    /// The memory that it lies in.
    pub fn memory(&self) -> Range {
        Range::new(self.physical, self.whole().len())
    }
}

/// Frames from a range that was set aside, then from the heap.
struct TableFrames {
    early: Range,
}

impl Frames for TableFrames {
    fn allocate(&mut self) -> Option<u64> {
        if self.early.len() >= PAGE {
            let frame = self.early.start;
            self.early.start += PAGE;
            // SAFETY: the range was set aside for tables and is mapped.
            unsafe { core::ptr::write_bytes(frame as *mut u8, 0, PAGE as usize) };
            return Some(frame);
        }
        let layout = Layout::from_size_align(PAGE as usize, PAGE as usize).ok()?;
        // SAFETY: the size is not zero.
        let frame = unsafe { alloc_zeroed(layout) };
        (!frame.is_null()).then_some(frame as u64)
    }

    fn table(&mut self, address: u64) -> &mut Table {
        // SAFETY: addresses of tables come from `allocate`, are mapped to themselves, and the tables are reached only
        // through this one owner.
        unsafe { &mut *(address as *mut Table) }
    }

    fn forget(&mut self) {
        paging::forget();
    }
}

static SPACE: Lock<Option<PageTable<TableFrames, Entries>>> = Lock::new(None);

/// Maps `memory`, `also`, the image and the registers of `devices`, and nothing else; takes the tables' frames out of
/// `memory`.
///
/// # Safety
/// For the boot processor, once, before the heap is in use. `memory` must be free, and whatever lies below 4 GiB of it
/// must be mapped to itself now.
pub unsafe fn switch(
    memory: &mut MemoryMap,
    also: &MemoryMap,
    image: &Image,
    devices: &[Range],
    gigabyte_pages: bool,
) -> Result<(), MapError> {
    let ranges = memory.ranges();
    let last = [ranges.last(), also.ranges().last()];
    let top = last.into_iter().flatten().map(|range| range.end).max();
    let frames = 64 + 6 * (ranges.len() + also.ranges().len()) as u64 + (top.unwrap_or(0) >> 30);
    let early = memory
        .take(frames * PAGE, PAGE, paging::tables_below(image))
        .ok_or(MapError::NoFrames)?;
    // SAFETY: the range is free.
    unsafe { paging::use_as_memory(early) };
    let mut tables = PageTable::<_, Entries>::new(TableFrames { early }, gigabyte_pages)?;
    for &range in devices {
        tables.map(range.pages_around(), Access::ReadWrite, Caching::Uncached)?;
    }
    for &range in memory.ranges().iter().chain(also.ranges()).chain([&early]) {
        tables.map(range, Access::ReadWrite, Caching::WriteBack)?;
    }
    for (range, access) in [
        (image.text, Access::ReadExecute),
        (image.read_only, Access::Read),
        (image.data, Access::ReadWrite),
        (image.guard, Access::Nothing),
    ] {
        let physical = image.physical + (range.start - image.text.start);
        tables.map_at(range, physical, access, Caching::WriteBack)?;
    }
    dma::set_image(image.whole(), image.physical);
    tables.map(Range::new(0, PAGE), Access::Nothing, Caching::WriteBack)?;
    // SAFETY: everything in use is mapped to itself: the image with code and stack, the tables, the memory.
    unsafe { paging::load(tables.root()) };
    *SPACE.lock() = Some(tables);
    Ok(())
}

/// The address of the top table.
pub fn root() -> u64 {
    SPACE.lock().as_ref().map_or(0, PageTable::root)
}

/// What may be done at an address, and the size of its page.
pub fn look_up(address: u64) -> Option<(Access, u64)> {
    SPACE.lock().as_mut()?.look_up(address)
}

/// Changes what may be done with pages.
///
/// # Safety
/// Nothing that is in use may lose what it needs. Other processors see what is taken away only when they load their
/// tables anew.
pub unsafe fn map(range: Range, access: Access, caching: Caching) -> Result<(), MapError> {
    let mut space = SPACE.lock();
    let tables = space.as_mut().ok_or(MapError::NoFrames)?;
    tables.map(range, access, caching)?;
    paging::forget();
    Ok(())
}

/// Maps pages to memory elsewhere, or to nothing.
///
/// # Safety
/// As for [`map`].
pub(super) unsafe fn map_at(range: Range, physical: u64, access: Access) -> Result<(), MapError> {
    let mut space = SPACE.lock();
    let tables = space.as_mut().ok_or(MapError::NoFrames)?;
    tables.map_at(range, physical, access, Caching::WriteBack)?;
    paging::show();
    Ok(())
}

/// Maps the registers of a device. Memory stays memory: pages that are mapped already are left as they are.
pub fn map_device(range: Range) -> Result<(), MapError> {
    map_if_absent(range, Access::ReadWrite, Caching::Uncached)
}

/// Maps memory that is to be read only.
pub fn map_memory(range: Range) -> Result<(), MapError> {
    map_if_absent(range, Access::Read, Caching::WriteBack)
}

/// Maps a screen.
pub fn map_screen(range: Range) -> Result<(), MapError> {
    map_if_absent(range, Access::ReadWrite, Caching::Combining)
}

fn map_if_absent(range: Range, access: Access, caching: Caching) -> Result<(), MapError> {
    let range = range.pages_around();
    let mut at = range.start;
    while at < range.end {
        match look_up(at) {
            Some((_, size)) => at = at / size * size + size,
            None => {
                let mut end = at + PAGE;
                while end < range.end && look_up(end).is_none() {
                    end += PAGE;
                }
                // SAFETY: nothing was mapped there.
                unsafe { map(Range { start: at, end }, access, caching)? };
                at = end;
            }
        }
    }
    Ok(())
}

/// Physical memory through the address space: what firmware left outside of usable memory is mapped when looked at.
#[derive(Copy, Clone, Debug)]
pub struct FirmwareMemory(());

impl FirmwareMemory {
    /// A view of the firmware's tables.
    ///
    /// # Safety
    /// What is looked at must not change while it is borrowed.
    pub unsafe fn new() -> Self {
        Self(())
    }
}

impl Physical for FirmwareMemory {
    fn bytes(&self, address: u64, len: usize) -> Option<&[u8]> {
        let end = address.checked_add(len as u64)?;
        let range = Range {
            start: address,
            end,
        };
        if address < PAGE || len > 16 << 20 {
            return None;
        }
        map_memory(range).ok()?;
        // SAFETY: all pages are mapped and readable, and by the promise at `new` the bytes stay the same.
        Some(unsafe { core::slice::from_raw_parts(address as *const u8, len) })
    }
}

/// A stack whose overflow is a fault.
#[derive(Debug)]
pub struct Stack {
    /// Where it begins, growing down.
    pub top: u64,
}

impl Stack {
    /// Takes `bytes` (whole pages) from the heap for good, and unmaps the page below. Nothing if there is no memory.
    pub fn new(bytes: usize) -> Option<Self> {
        let page = PAGE as usize;
        let bytes = bytes.next_multiple_of(page);
        let layout = Layout::from_size_align(bytes + page, page).ok()?;
        // SAFETY: the size is not zero.
        let start = unsafe { alloc_zeroed(layout) } as u64;
        if start == 0 {
            return None;
        }
        // SAFETY: the page was just taken from the heap, by nobody else, and never goes back.
        unsafe { map(Range::new(start, PAGE), Access::Nothing, Caching::WriteBack).ok()? };
        Some(Self {
            top: start + PAGE + bytes as u64,
        })
    }
}
