//! Entries of page tables (Intel SDM volume 3, chapter 5), and the register that leads to them.
#![cfg_attr(target_arch = "x86_64", allow(unsafe_code))]

use crate::machine::page_table::{Access, Caching, Format};

/// The page attribute table that [`Caching::Combining`] relies on: the processor's own, with write-combining as entry 1.
pub const PAGE_ATTRIBUTES: u64 = 0x0007_0406_0007_0106;

const PRESENT: u64 = 1;
const WRITE: u64 = 1 << 1;
const WRITE_THROUGH: u64 = 1 << 3;
const NO_CACHE: u64 = 1 << 4;
const ACCESSED: u64 = 1 << 5;
/// Set beforehand, so that the processor need not.
const ACCESSED_DIRTY: u64 = 3 << 5;
const LARGE: u64 = 1 << 7;
const NO_EXECUTE: u64 = 1 << 63;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

fn size(level: u32) -> u64 {
    if level > 1 { LARGE } else { 0 }
}

/// This architecture's entries.
#[derive(Debug)]
pub enum Entries {}

impl Format for Entries {
    const BREAKS: bool = false;

    fn page(address: u64, level: u32, access: Access, caching: Caching) -> u64 {
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
        address | PRESENT | ACCESSED_DIRTY | access | caching | size(level)
    }
    fn table(address: u64) -> u64 {
        // What may be done is up to the lowest entry.
        address | PRESENT | WRITE | ACCESSED
    }
    fn is_present(entry: u64) -> bool {
        entry & PRESENT != 0
    }
    fn is_page(entry: u64, level: u32) -> bool {
        level == 1 || entry & LARGE != 0
    }
    fn address(entry: u64) -> u64 {
        entry & ADDRESS
    }
    fn access(entry: u64) -> Access {
        match (entry & WRITE != 0, entry & NO_EXECUTE != 0) {
            (true, _) => Access::ReadWrite,
            (false, true) => Access::Read,
            (false, false) => Access::ReadExecute,
        }
    }
    fn part(entry: u64, address: u64, level: u32) -> u64 {
        entry & !ADDRESS & !LARGE | address | size(level)
    }
}

#[cfg(target_arch = "x86_64")]
mod registers {
    use crate::boot::memory_map::Range;
    use crate::machine::address_space::Image;
    use core::arch::asm;

    /// Where the first tables must be: the start code of processors loads 32 bits of their address.
    pub(crate) fn tables_below(_: &Image) -> u64 {
        1 << 32
    }

    /// Makes memory there usable before [`load`]: the entry code has mapped all that is below 4 GiB, as memory.
    ///
    /// # Safety
    /// The range must be free.
    pub(crate) unsafe fn use_as_memory(_: Range) {}

    /// Has this processor use tables.
    ///
    /// # Safety
    /// Everything in use must be mapped in them.
    pub(crate) unsafe fn load(root: u64) {
        // SAFETY: the caller's promise.
        unsafe { asm!("mov cr3, {}", in(reg) root, options(nostack)) };
    }

    /// The tables that this processor uses.
    pub(crate) fn root() -> u64 {
        let root: u64;
        // SAFETY: reading CR3 changes nothing.
        unsafe { asm!("mov {}, cr3", out(reg) root, options(nomem, nostack, preserves_flags)) }
        root & !0xfff
    }

    /// Makes this processor forget what it keeps of the tables.
    pub(crate) fn forget() {
        // SAFETY: it loads the same tables again.
        unsafe { asm!("mov {0}, cr3", "mov cr3, {0}", out(reg) _, options(nostack)) };
    }

    /// Makes entries that were nothing before visible, which they are.
    pub(crate) fn show() {}
}

#[cfg(target_arch = "x86_64")]
pub(crate) use registers::{forget, load, root, show, tables_below, use_as_memory};
