//! Page tables with four levels (Intel SDM volume 3, chapter 5). Most addresses are mapped to themselves.

use crate::boot::memory_map::{PAGE, Range};
use thiserror::Error;

/// What may be done with a page. That a page could be written and run cannot be said.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing: touching it is a fault.
    Nothing,
    /// Reading.
    Read,
    /// Reading and writing.
    ReadWrite,
    /// Reading and running.
    ReadExecute,
}

/// How accesses go through the caches.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Caching {
    /// As memory.
    WriteBack,
    /// As a device's registers.
    Uncached,
    /// As a screen: writes are gathered. Entry 1 of the page attribute table must say so ([`PAGE_ATTRIBUTES`]).
    Combining,
}

/// The page attribute table that [`Caching::Combining`] relies on: the processor's own, with write-combining as entry 1.
pub const PAGE_ATTRIBUTES: u64 = 0x0007_0406_0007_0106;

/// A mapping that cannot be made.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum MapError {
    /// There is no memory for another table.
    #[error("there is no memory for page tables")]
    NoFrames,
    /// The addresses are not whole pages below 128 TiB.
    #[error("{start:#x}..{end:#x} cannot be mapped")]
    Range {
        /// The first address.
        start: u64,
        /// The one after the last.
        end: u64,
    },
}

/// One table: 512 entries.
pub type Table = [u64; 512];

/// Where tables are.
pub trait Frames {
    /// The address of a new table, all zeros.
    fn allocate(&mut self) -> Option<u64>;
    /// The table at an address that [`allocate`](Self::allocate) gave.
    fn table(&mut self, address: u64) -> &mut Table;
}

const PRESENT: u64 = 1;
const WRITE: u64 = 1 << 1;
const WRITE_THROUGH: u64 = 1 << 3;
const NO_CACHE: u64 = 1 << 4;
/// Set beforehand, so that the processor need not.
const ACCESSED_DIRTY: u64 = 3 << 5;
const LARGE: u64 = 1 << 7;
const NO_EXECUTE: u64 = 1 << 63;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

const TOP: u64 = 1 << 47;
const LEVELS: u32 = 4;

/// How many bytes an entry of a level spans; level 1 is the lowest.
const fn span(level: u32) -> u64 {
    PAGE << (9 * (level - 1))
}

fn leaf_flags(access: Access, caching: Caching) -> u64 {
    let access = match access {
        Access::Nothing => return 0,
        Access::Read => NO_EXECUTE,
        Access::ReadWrite => NO_EXECUTE | WRITE,
        Access::ReadExecute => 0,
    };
    let caching = match caching {
        Caching::WriteBack => 0,
        Caching::Uncached => NO_CACHE | WRITE_THROUGH,
        Caching::Combining => WRITE_THROUGH,
    };
    PRESENT | ACCESSED_DIRTY | access | caching
}

/// What pages are to be: their flags, and how far their memory is from their addresses.
struct Pages {
    flags: u64,
    offset: u64,
}

/// The tables of an address space.
#[derive(Debug)]
pub struct PageTable<F> {
    root: u64,
    frames: F,
    /// The highest level whose entries may be pages: 3 with pages of 1 GiB, otherwise 2.
    largest: u32,
}

impl<F: Frames> PageTable<F> {
    /// An empty address space.
    pub fn new(mut frames: F, gigabyte_pages: bool) -> Result<Self, MapError> {
        let root = frames.allocate().ok_or(MapError::NoFrames)?;
        Ok(Self {
            root,
            frames,
            largest: if gigabyte_pages { 3 } else { 2 },
        })
    }

    /// The address of the top table, for CR3.
    pub fn root(&self) -> u64 {
        self.root
    }

    /// Maps whole pages to themselves, as large as they can be, whatever they were before.
    pub fn map(&mut self, range: Range, access: Access, caching: Caching) -> Result<(), MapError> {
        self.map_at(range, range.start, access, caching)
    }

    /// Maps whole pages to physical memory from an address on, which is aligned as the range is.
    pub fn map_at(
        &mut self,
        range: Range,
        physical: u64,
        access: Access,
        caching: Caching,
    ) -> Result<(), MapError> {
        let Range { start, end } = range;
        if start > end || end > TOP || !start.is_multiple_of(PAGE) || !end.is_multiple_of(PAGE) {
            return Err(MapError::Range { start, end });
        }
        if range.is_empty() {
            return Ok(());
        }
        let pages = Pages {
            flags: leaf_flags(access, caching),
            offset: physical.wrapping_sub(start),
        };
        self.map_in(self.root, LEVELS, range, &pages)
    }

    fn map_in(
        &mut self,
        table: u64,
        level: u32,
        range: Range,
        pages: &Pages,
    ) -> Result<(), MapError> {
        let &Pages { flags, offset } = pages;
        let size = span(level);
        let mut at = range.start;
        while at < range.end {
            let index = (at / size) as usize % 512;
            let base = at / size * size;
            let next = base + size;
            let part = Range {
                start: at,
                end: next.min(range.end),
            };
            let old = self.frames.table(table)[index];
            let is_table = level > 1 && old & PRESENT != 0 && old & LARGE == 0;
            let fits = offset.is_multiple_of(size) && level <= self.largest;
            let whole = part.len() == size && fits;
            if whole && !is_table {
                let size_bit = if level > 1 && flags != 0 { LARGE } else { 0 };
                let address = if flags == 0 {
                    0
                } else {
                    base.wrapping_add(offset)
                };
                self.frames.table(table)[index] = address | flags | size_bit;
            } else if flags != 0 || old != 0 {
                let below = if is_table {
                    old & ADDRESS
                } else {
                    self.split(table, index, level, old)?
                };
                self.map_in(below, level - 1, part, pages)?;
            }
            at = part.end;
        }
        Ok(())
    }

    /// Puts a table in the place of a large page or of nothing, and gives its address.
    fn split(&mut self, table: u64, index: usize, level: u32, old: u64) -> Result<u64, MapError> {
        let below = self.frames.allocate().ok_or(MapError::NoFrames)?;
        if old != 0 {
            let (size, large) = (span(level - 1), if level > 2 { LARGE } else { 0 });
            let flags = old & !ADDRESS & !LARGE | large;
            let base = old & ADDRESS;
            let entries = self.frames.table(below).iter_mut();
            for (entry, i) in entries.zip(0..) {
                *entry = (base + i * size) | flags;
            }
        }
        // What may be done is up to the lowest entry.
        self.frames.table(table)[index] = below | PRESENT | WRITE | 1 << 5;
        Ok(below)
    }

    /// What may be done at an address, and how large its page is.
    pub fn look_up(&mut self, address: u64) -> Option<(Access, u64)> {
        let frames = &mut self.frames;
        look_up(self.root, address, |table, index| {
            frames.table(table)[index]
        })
    }
}

/// Follows the tables at `root`, whose entries `entry(table, index)` reads.
pub fn look_up(
    root: u64,
    address: u64,
    mut entry: impl FnMut(u64, usize) -> u64,
) -> Option<(Access, u64)> {
    if address >= TOP {
        return None;
    }
    let mut table = root;
    for level in (1..=LEVELS).rev() {
        let found = entry(table, (address / span(level)) as usize % 512);
        if found & PRESENT == 0 {
            return None;
        }
        if level == 1 || found & LARGE != 0 {
            let access = match (found & WRITE != 0, found & NO_EXECUTE != 0) {
                (true, _) => Access::ReadWrite,
                (false, true) => Access::Read,
                (false, false) => Access::ReadExecute,
            };
            return Some((access, span(level)));
        }
        table = found & ADDRESS;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    const M: u64 = 1 << 20;
    const G: u64 = 1 << 30;

    struct Fake(Vec<Table>, usize);

    impl Frames for Fake {
        fn allocate(&mut self) -> Option<u64> {
            if self.0.len() == self.1 {
                return None;
            }
            self.0.push([0; 512]);
            Some(self.0.len() as u64 * PAGE)
        }
        fn table(&mut self, address: u64) -> &mut Table {
            &mut self.0[(address / PAGE) as usize - 1]
        }
    }

    fn tables(gigabyte_pages: bool) -> PageTable<Fake> {
        PageTable::new(Fake(Vec::new(), 64), gigabyte_pages).unwrap()
    }

    fn map(tables: &mut PageTable<Fake>, start: u64, end: u64, access: Access) {
        tables
            .map(Range { start, end }, access, Caching::WriteBack)
            .unwrap();
    }

    #[test]
    fn pages_are_as_large_as_they_can_be() {
        for (gigabyte, large) in [(true, G), (false, 2 * M)] {
            let mut t = tables(gigabyte);
            map(&mut t, 4096, 3 * G + 4096, Access::ReadWrite);
            assert_eq!(t.look_up(0), None);
            assert_eq!(t.look_up(4096), Some((Access::ReadWrite, 4096)));
            assert_eq!(t.look_up(2 * M), Some((Access::ReadWrite, 2 * M)));
            assert_eq!(t.look_up(G + 5), Some((Access::ReadWrite, large)));
            assert_eq!(t.look_up(3 * G), Some((Access::ReadWrite, 4096)));
            assert_eq!(t.look_up(3 * G + 4096), None);
        }
    }

    #[test]
    fn a_part_of_a_large_page_can_change() {
        let mut t = tables(true);
        map(&mut t, 0, 2 * G, Access::ReadWrite);
        map(&mut t, 0, 4096, Access::Nothing);
        map(&mut t, 4 * M, 8 * M, Access::ReadExecute);
        map(&mut t, 5 * M, 5 * M + 4096, Access::Read);
        assert_eq!(t.look_up(0), None);
        assert_eq!(t.look_up(4096), Some((Access::ReadWrite, 4096)));
        assert_eq!(t.look_up(4 * M), Some((Access::ReadExecute, 4096)));
        assert_eq!(t.look_up(5 * M), Some((Access::Read, 4096)));
        assert_eq!(t.look_up(6 * M), Some((Access::ReadExecute, 2 * M)));
        assert_eq!(t.look_up(8 * M), Some((Access::ReadWrite, 2 * M)));
        assert_eq!(t.look_up(G), Some((Access::ReadWrite, G)));
        map(&mut t, 0, 2 * G, Access::Nothing);
        assert!(
            (0..2 * G)
                .step_by(M as usize)
                .all(|at| t.look_up(at).is_none())
        );
    }

    #[test]
    fn each_page_leads_to_itself() {
        let mut t = tables(false);
        map(&mut t, 0, 8 * M, Access::ReadWrite);
        map(&mut t, 2 * M, 2 * M + 4096, Access::Read);
        let frames = &t.frames.0;
        let pages = frames.iter().flatten().filter(|&&e| e & LARGE != 0);
        assert_eq!(
            pages.map(|e| e & ADDRESS).collect::<Vec<_>>(),
            [0, 4 * M, 6 * M]
        );
        let small = frames.last().unwrap();
        assert!(
            small
                .iter()
                .zip(0..)
                .all(|(e, i)| e & ADDRESS == 2 * M + i * 4096)
        );
    }

    #[test]
    fn a_page_may_lead_elsewhere() {
        let mut t = tables(true);
        let (at, to) = (1 << 46, 6 * M);
        let range = Range::new(at, 4 * M);
        t.map_at(range, to, Access::Read, Caching::WriteBack)
            .unwrap();
        assert_eq!(t.look_up(at + 3 * M), Some((Access::Read, 2 * M)));
        let pages: Vec<u64> = t.frames.0.iter().flatten().copied().collect();
        let pages = pages.iter().filter(|&&e| e & LARGE != 0);
        assert!(pages.map(|e| e & ADDRESS).eq([6 * M, 8 * M]));
        t.map_at(range, 0, Access::Nothing, Caching::WriteBack)
            .unwrap();
        assert_eq!(t.look_up(at), None);
    }

    #[test]
    fn bad_ranges_and_too_little_memory_are_errors() {
        let mut t = tables(true);
        for (start, end) in [
            (1, 4096),
            (0, 5),
            (8192, 4096),
            (0, TOP + 4096),
            (0, u64::MAX),
        ] {
            let range = Range { start, end };
            assert_eq!(
                t.map(range, Access::Read, Caching::Uncached),
                Err(MapError::Range { start, end })
            );
        }
        let mut few = PageTable::new(Fake(Vec::new(), 2), true).unwrap();
        assert_eq!(
            few.map(Range::new(0, 4096), Access::Read, Caching::WriteBack),
            Err(MapError::NoFrames)
        );
        assert!(PageTable::new(Fake(Vec::new(), 0), true).is_err());
    }
}
