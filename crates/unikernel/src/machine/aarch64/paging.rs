//! Entries of page tables with pages of 4 KiB (Arm ARM, chapter D8), and the registers that lead to them.
#![cfg_attr(target_arch = "aarch64", allow(unsafe_code))]

use crate::machine::page_table::{Access, Caching, Format};

const VALID: u64 = 1;
/// A table, or a page of the lowest level.
const TABLE: u64 = 1 << 1;
/// Attributes by their number in [`ATTRIBUTES`].
const DEVICE: u64 = 1 << 2;
const GATHERED: u64 = 2 << 2;
const READ_ONLY: u64 = 1 << 7;
const INNER_SHAREABLE: u64 = 3 << 8;
/// Set beforehand: the first access is no fault.
const ACCESSED: u64 = 1 << 10;
const NO_EXECUTE: u64 = 1 << 53;
const NO_USER_EXECUTE: u64 = 1 << 54;
const ADDRESS: u64 = 0x0000_ffff_ffff_f000;

/// What the numbers of attributes mean: memory as caches like it, registers of devices, memory that is not cached.
pub const ATTRIBUTES: u64 = 0x0044_04ff;

/// This architecture's entries.
#[derive(Debug)]
pub enum Entries {}

impl Format for Entries {
    /// A processor may keep a page and a part of it, and then find both.
    const BREAKS: bool = true;

    fn page(address: u64, level: u32, access: Access, caching: Caching) -> u64 {
        let access = match access {
            Access::Nothing => return 0,
            Access::Read => NO_EXECUTE | READ_ONLY,
            Access::ReadWrite => NO_EXECUTE,
            Access::ReadExecute => READ_ONLY,
        };
        let caching = match caching {
            Caching::WriteBack => 0,
            Caching::Uncached => DEVICE,
            Caching::Combining => GATHERED,
        };
        let all = VALID | ACCESSED | INNER_SHAREABLE | NO_USER_EXECUTE;
        Self::part(all | access | caching, address, level)
    }
    fn table(address: u64) -> u64 {
        address | TABLE | VALID
    }
    fn is_present(entry: u64) -> bool {
        entry & VALID != 0
    }
    fn is_page(entry: u64, level: u32) -> bool {
        level == 1 || entry & TABLE == 0
    }
    fn address(entry: u64) -> u64 {
        entry & ADDRESS
    }
    fn access(entry: u64) -> Access {
        match (entry & READ_ONLY == 0, entry & NO_EXECUTE != 0) {
            (true, _) => Access::ReadWrite,
            (false, true) => Access::Read,
            (false, false) => Access::ReadExecute,
        }
    }
    fn part(entry: u64, address: u64, level: u32) -> u64 {
        let kind = if level == 1 { TABLE } else { 0 };
        entry & !ADDRESS & !TABLE | address | kind
    }
}

#[cfg(target_arch = "aarch64")]
mod registers {
    use super::{ATTRIBUTES, Entries};
    use crate::boot::memory_map::Range;
    use crate::machine::address_space::Image;
    use crate::machine::page_table::{Access, Caching, Format};
    use core::arch::{asm, naked_asm};

    /// `SCTLR_EL1` with the bits that must be set, without translation.
    pub(crate) const NO_TRANSLATION: u64 = 0x30d0_0800;
    /// Translation, caches, aligned stacks.
    const TRANSLATION: u64 = NO_TRANSLATION | 1 << 12 | 1 << 3 | 1 << 2 | 1;
    /// The same, and nothing that can be written can be run.
    const FINAL: u64 = TRANSLATION | 1 << 19;
    /// 48 bits of addresses; tables are in caches that all processors share; no second tables.
    const CONTROL: u64 = 1 << 23 | 3 << 12 | 1 << 10 | 1 << 8 | 16;

    /// Sets all registers of translation, which is off for a moment: no memory is touched then.
    #[unsafe(naked)]
    unsafe extern "C" fn activate(root: u64, system: u64, control: u64, attributes: u64) {
        naked_asm!(
            "mrs x4, sctlr_el1",
            "bic x4, x4, #1",
            "dsb sy",
            "msr sctlr_el1, x4",
            "isb",
            // As many bits of physical addresses as the processor has, and 48 at most.
            "mrs x5, id_aa64mmfr0_el1",
            "and x5, x5, #15",
            "cmp x5, #5",
            "mov x6, #5",
            "csel x5, x5, x6, lo",
            "orr x2, x2, x5, lsl #32",
            "msr mair_el1, x3",
            "msr tcr_el1, x2",
            "msr ttbr0_el1, x0",
            "isb",
            "tlbi vmalle1",
            "dsb sy",
            "ic iallu",
            "dsb sy",
            "isb",
            "msr sctlr_el1, x1",
            "isb",
            "ret",
        )
    }

    /// Turns translation on with the entry code's tables. For the entry code, which has no memory to speak of yet.
    ///
    /// # Safety
    /// All that is in use must be mapped to itself there.
    #[unsafe(naked)]
    pub unsafe extern "C" fn activate_first(root: u64) {
        naked_asm!(
            "ldr x1, ={system}",
            "ldr x2, ={control}",
            "ldr x3, ={attributes}",
            "b {activate}",
            system = const TRANSLATION,
            control = const CONTROL,
            attributes = const ATTRIBUTES,
            activate = sym activate,
        )
    }

    /// Has this processor use tables.
    ///
    /// # Safety
    /// Everything in use must be mapped in them.
    pub(crate) unsafe fn load(root: u64) {
        // SAFETY: the caller's promise.
        unsafe { activate(root, FINAL, CONTROL, ATTRIBUTES) }
    }

    /// Turns translation on with the tables of the boot processor. For the code that other processors start with.
    #[unsafe(naked)]
    pub(crate) unsafe extern "C" fn activate_final(root: u64) {
        naked_asm!(
            "ldr x1, ={system}",
            "ldr x2, ={control}",
            "ldr x3, ={attributes}",
            "b {activate}",
            system = const FINAL,
            control = const CONTROL,
            attributes = const ATTRIBUTES,
            activate = sym activate,
        )
    }

    /// The tables that this processor uses.
    pub(crate) fn root() -> u64 {
        let root: u64;
        // SAFETY: reading the register changes nothing.
        unsafe {
            asm!("mrs {}, ttbr0_el1", out(reg) root, options(nomem, nostack, preserves_flags))
        }
        root & super::ADDRESS
    }

    /// Makes all processors forget what they keep of the tables.
    pub(crate) fn forget() {
        // SAFETY: what is in the tables holds, and is looked up again.
        unsafe {
            asm!(
                "dsb ishst",
                "tlbi vmalle1is",
                "dsb ish",
                "isb",
                options(nostack, preserves_flags)
            );
        }
    }

    /// Makes entries that were nothing before visible.
    pub(crate) fn show() {
        // SAFETY: it only waits.
        unsafe { asm!("dsb ishst", "isb", options(nostack, preserves_flags)) }
    }

    /// Where the first tables must be: in the gigabyte in which the entry code has mapped memory piece by piece.
    pub(crate) fn tables_below(image: &Image) -> u64 {
        ((image.text.start >> 30) + 1) << 30
    }

    /// Makes memory there usable before [`load`]: the entry code has mapped it as a device's, as everything but the image.
    ///
    /// # Safety
    /// The range must be free, and the entry code's tables in use.
    pub(crate) unsafe fn use_as_memory(range: Range) {
        const LARGE: u64 = 2 << 20;
        // SAFETY: the entry code's tables are mapped to themselves, and have tables of all four levels for the gigabyte of
        // the image. What is mapped there is in use by nobody.
        unsafe {
            let entry = |table: u64, index: u64| (table as *mut u64).add(index as usize & 511);
            let below =
                |table: u64, index: u64| Entries::address(entry(table, index).read_volatile());
            let mut at = range.start / LARGE * LARGE;
            while at < range.end {
                let pages = below(below(root(), at >> 39), at >> 30);
                let place = entry(pages, at >> 21);
                place.write_volatile(0);
                forget();
                place.write_volatile(Entries::page(at, 2, Access::ReadWrite, Caching::WriteBack));
                show();
                at += LARGE;
            }
        }
    }
}

#[cfg(target_arch = "aarch64")]
pub(super) use registers::activate_final;
#[cfg(target_arch = "aarch64")]
pub use registers::activate_first;
#[cfg(target_arch = "aarch64")]
pub(crate) use registers::{NO_TRANSLATION, forget, load, root, show, tables_below, use_as_memory};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_say_what_the_manual_wants() {
        let page = Entries::page(0x5000, 1, Access::ReadExecute, Caching::WriteBack);
        assert_eq!(page, 0x0040_0000_0000_5783);
        let block = Entries::page(0x20_0000, 2, Access::ReadWrite, Caching::Uncached);
        assert_eq!(block, 0x0060_0000_0020_0705);
        let read = Entries::page(0x20_0000, 2, Access::Read, Caching::Combining);
        assert_eq!(read, 0x0060_0000_0020_0789);
        assert_eq!(Entries::part(block, 0x3000, 1), 0x0060_0000_0000_3707);
        assert_eq!(Entries::table(0x7000), 0x7003);
    }
}
