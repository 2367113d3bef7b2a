//! ACPI's tables (ACPI specification 6.5, chapter 5), as far as a machine without an interpreter needs them.

pub mod madt;
pub mod mcfg;
pub mod nfit;
pub mod power;
#[cfg(test)]
mod tests;

use crate::boot::{Physical, le};
use thiserror::Error;

/// Length of the header that every table has.
pub(crate) const HEADER: usize = 36;
/// No table that is read here is larger; DSDTs of servers have about 1 MiB.
const LARGEST: usize = 8 << 20;
/// More tables than any machine has.
const MOST: usize = 256;

/// Why there are no tables.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum AcpiError {
    /// The root pointer is not where it should be.
    #[error("there is no ACPI root pointer at {address:#x}")]
    NoRoot {
        /// Where it should be.
        address: u64,
    },
    /// The table of tables cannot be read.
    #[error("the ACPI table of tables at {address:#x} cannot be read")]
    NoDirectory {
        /// Where it should be.
        address: u64,
    },
}

/// The tables of a machine.
pub struct Tables<'m> {
    memory: &'m dyn Physical,
    /// Addresses, of 4 or of 8 bytes.
    directory: &'m [u8],
    wide: bool,
}

/// Where the root pointer is where no loader says so, as Firecracker does not: on a multiple of 16 in the area of a PC's
/// old firmware (section 5.2.5.1).
pub fn root(memory: &dyn Physical) -> Option<u64> {
    let is_root = |root: &[u8]| root.starts_with(b"RSD PTR ") && sums_to_zero(root);
    let mut places = (0xe_0000..0x10_0000).step_by(16);
    places.find(|&at| memory.bytes(at, 20).is_some_and(is_root))
}

impl<'m> Tables<'m> {
    /// Follows the root pointer.
    pub fn find(memory: &'m dyn Physical, rsdp: u64) -> Result<Self, AcpiError> {
        let no_root = AcpiError::NoRoot { address: rsdp };
        let root = memory.bytes(rsdp, 20).ok_or(no_root)?;
        if !root.starts_with(b"RSD PTR ") || !sums_to_zero(root) {
            return Err(no_root);
        }
        let old = le::u32(root, 16).map_or(0, u64::from);
        let new = (root[15] >= 2)
            .then(|| memory.bytes(rsdp, 36).filter(|root| sums_to_zero(root)))
            .flatten()
            .and_then(|root| le::u64(root, 24))
            .unwrap_or(0);
        let (address, wide) = if new != 0 { (new, true) } else { (old, false) };
        let signature = if wide { b"XSDT" } else { b"RSDT" };
        let directory = table_at(memory, address)
            .filter(|table| table.starts_with(signature))
            .ok_or(AcpiError::NoDirectory { address })?;
        Ok(Self {
            memory,
            directory: &directory[HEADER..],
            wide,
        })
    }

    /// The first table with a signature whose checksum holds.
    pub fn get(&self, signature: &[u8; 4]) -> Option<&'m [u8]> {
        self.all().find(|table| table.starts_with(signature))
    }

    /// All tables whose checksums hold.
    pub fn all(&self) -> impl Iterator<Item = &'m [u8]> {
        let size = if self.wide { 8 } else { 4 };
        let entries = self.directory.chunks_exact(size).take(MOST);
        let (memory, wide) = (self.memory, self.wide);
        entries
            .filter_map(move |entry| {
                if wide {
                    le::u64(entry, 0)
                } else {
                    le::u32(entry, 0).map(u64::from)
                }
            })
            .filter_map(move |address| table_at(memory, address))
    }

    /// The table at an address that another table gives.
    pub fn at(&self, address: u64) -> Option<&'m [u8]> {
        table_at(self.memory, address)
    }
}

fn table_at(memory: &dyn Physical, address: u64) -> Option<&[u8]> {
    let len = le::u32(memory.bytes(address, 8)?, 4)? as usize;
    if !(HEADER..=LARGEST).contains(&len) {
        return None;
    }
    memory
        .bytes(address, len)
        .filter(|table| sums_to_zero(table))
}

fn sums_to_zero(bytes: &[u8]) -> bool {
    bytes.iter().fold(0u8, |sum, &byte| sum.wrapping_add(byte)) == 0
}
