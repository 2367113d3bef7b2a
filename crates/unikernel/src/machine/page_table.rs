//! Page tables with four levels of 512 entries, as x86-64 and AArch64 have them. Most addresses are mapped to themselves.

use crate::boot::memory_map::{PAGE, Range};
use core::marker::PhantomData;
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
    /// As a screen: writes are gathered.
    Combining,
}

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
    /// Has all processors forget a page that was just taken away, and whose place a table takes.
    fn forget(&mut self) {}
}

/// How a processor wants entries written. An entry of all zeros is none.
pub trait Format {
    /// Whether a page must be taken away, and forgotten by all processors, before a table takes its place.
    const BREAKS: bool;
    /// The entry of a page at an address that spans what an entry of the level does; `access` is not nothing.
    fn page(address: u64, level: u32, access: Access, caching: Caching) -> u64;
    /// The entry of a table, under which anything may be done.
    fn table(address: u64) -> u64;
    /// Whether the processor takes the entry for one.
    fn is_present(entry: u64) -> bool;
    /// Whether an entry of a level leads to a page, not to a table.
    fn is_page(entry: u64, level: u32) -> bool;
    /// Where it leads.
    fn address(entry: u64) -> u64;
    /// What may be done with a page.
    fn access(entry: u64) -> Access;
    /// A page of this level, of which all is as with a larger one.
    fn part(entry: u64, address: u64, level: u32) -> u64;
}

const TOP: u64 = 1 << 47;
const LEVELS: u32 = 4;

/// How many bytes an entry of a level spans; level 1 is the lowest.
const fn span(level: u32) -> u64 {
    PAGE << (9 * (level - 1))
}

/// What pages are to be, and how far their memory is from their addresses.
struct Pages {
    access: Access,
    caching: Caching,
    offset: u64,
}

/// The tables of an address space.
#[derive(Debug)]
pub struct PageTable<F, E> {
    root: u64,
    frames: F,
    /// The highest level whose entries may be pages: 3 with pages of 1 GiB, otherwise 2.
    largest: u32,
    format: PhantomData<E>,
}

impl<F: Frames, E: Format> PageTable<F, E> {
    /// An empty address space.
    pub fn new(mut frames: F, gigabyte_pages: bool) -> Result<Self, MapError> {
        let root = frames.allocate().ok_or(MapError::NoFrames)?;
        Ok(Self {
            root,
            frames,
            largest: if gigabyte_pages { 3 } else { 2 },
            format: PhantomData,
        })
    }

    /// The address of the top table, for the processor.
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
            access,
            caching,
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
        let &Pages {
            access,
            caching,
            offset,
        } = pages;
        let gone = access == Access::Nothing;
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
            let is_table = E::is_present(old) && !E::is_page(old, level);
            let fits = offset.is_multiple_of(size) && level <= self.largest;
            let whole = part.len() == size && fits;
            if whole && !is_table {
                self.frames.table(table)[index] = if gone {
                    0
                } else {
                    E::page(base.wrapping_add(offset), level, access, caching)
                };
            } else if !gone || old != 0 {
                let below = if is_table {
                    E::address(old)
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
            let (size, base) = (span(level - 1), E::address(old));
            let entries = self.frames.table(below).iter_mut();
            for (entry, i) in entries.zip(0..) {
                *entry = E::part(old, base + i * size, level - 1);
            }
            if E::BREAKS {
                self.frames.table(table)[index] = 0;
                self.frames.forget();
            }
        }
        self.frames.table(table)[index] = E::table(below);
        Ok(below)
    }

    /// What may be done at an address, and how large its page is.
    pub fn look_up(&mut self, address: u64) -> Option<(Access, u64)> {
        let frames = &mut self.frames;
        look_up::<E>(self.root, address, |table, index| {
            frames.table(table)[index]
        })
    }
}

/// Follows the tables at `root`, whose entries `entry(table, index)` reads.
pub fn look_up<E: Format>(
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
        if !E::is_present(found) {
            return None;
        }
        if E::is_page(found, level) {
            return Some((E::access(found), span(level)));
        }
        table = E::address(found);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{aarch64, x86_64};
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

    type X86 = x86_64::paging::Entries;
    type Arm = aarch64::paging::Entries;

    fn tables<E: Format>(gigabyte_pages: bool) -> PageTable<Fake, E> {
        PageTable::new(Fake(Vec::new(), 64), gigabyte_pages).unwrap()
    }

    fn map<E: Format>(tables: &mut PageTable<Fake, E>, start: u64, end: u64, access: Access) {
        tables
            .map(Range { start, end }, access, Caching::WriteBack)
            .unwrap();
    }

    #[test]
    fn pages_are_as_large_as_they_can_be() {
        pages_are_as_large_as_they_can_be_in::<X86>();
        pages_are_as_large_as_they_can_be_in::<Arm>();
    }

    fn pages_are_as_large_as_they_can_be_in<E: Format>() {
        for (gigabyte, large) in [(true, G), (false, 2 * M)] {
            let mut t = tables::<E>(gigabyte);
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
        a_part_of_a_large_page_can_change_in::<X86>();
        a_part_of_a_large_page_can_change_in::<Arm>();
    }

    fn a_part_of_a_large_page_can_change_in<E: Format>() {
        let mut t = tables::<E>(true);
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
        each_page_leads_to_itself_in::<X86>();
        each_page_leads_to_itself_in::<Arm>();
    }

    fn each_page_leads_to_itself_in<E: Format>() {
        let mut t = tables::<E>(false);
        map(&mut t, 0, 8 * M, Access::ReadWrite);
        map(&mut t, 2 * M, 2 * M + 4096, Access::Read);
        // The top table, one of gigabytes, one of large pages, one of small ones.
        let [_, _, large, small] = &t.frames.0[..] else {
            panic!("{} tables", t.frames.0.len());
        };
        for (i, entry) in [0, 2, 3].map(|i| (i as u64, large[i])) {
            assert!(E::is_page(entry, 2));
            assert_eq!(E::address(entry), i * 2 * M);
        }
        assert!(!E::is_page(large[1], 2));
        assert!(
            small
                .iter()
                .zip(0..)
                .all(|(&e, i)| { E::is_page(e, 1) && E::address(e) == 2 * M + i * 4096 })
        );
    }

    #[test]
    fn a_page_may_lead_elsewhere() {
        a_page_may_lead_elsewhere_in::<X86>();
        a_page_may_lead_elsewhere_in::<Arm>();
    }

    fn a_page_may_lead_elsewhere_in<E: Format>() {
        let mut t = tables::<E>(true);
        let (at, to) = (1 << 46, 6 * M);
        let range = Range::new(at, 4 * M);
        t.map_at(range, to, Access::Read, Caching::WriteBack)
            .unwrap();
        assert_eq!(t.look_up(at + 3 * M), Some((Access::Read, 2 * M)));
        let large = &t.frames.0[2][..2];
        assert!(large.iter().all(|&e| E::is_page(e, 2)));
        assert!(large.iter().map(|&e| E::address(e)).eq([6 * M, 8 * M]));
        t.map_at(range, 0, Access::Nothing, Caching::WriteBack)
            .unwrap();
        assert_eq!(t.look_up(at), None);
    }

    #[test]
    fn bad_ranges_and_too_little_memory_are_errors() {
        bad_ranges_and_too_little_memory_are_errors_in::<X86>();
        bad_ranges_and_too_little_memory_are_errors_in::<Arm>();
    }

    fn bad_ranges_and_too_little_memory_are_errors_in<E: Format>() {
        let mut t = tables::<E>(true);
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
        let mut few = PageTable::<_, E>::new(Fake(Vec::new(), 2), true).unwrap();
        assert_eq!(
            few.map(Range::new(0, 4096), Access::Read, Caching::WriteBack),
            Err(MapError::NoFrames)
        );
        assert!(PageTable::<_, E>::new(Fake(Vec::new(), 0), true).is_err());
    }
}
