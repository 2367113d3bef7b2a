//! The multiple APIC description table: which processors there are, and which controllers of devices' interrupts.

use super::HEADER;
use crate::boot::le;
use alloc::vec::Vec;

const ENABLED: u32 = 1;
const ENTRIES: usize = HEADER + 8;

/// A controller of devices' interrupts.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct IoApic {
    /// Where its registers are.
    pub address: u64,
    /// The number of its first line.
    pub first: u32,
}

/// The table's entries up to one that does not fit.
fn entries(madt: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = madt.get(ENTRIES..).unwrap_or_default();
    core::iter::from_fn(move || {
        let len = usize::from(*rest.get(1)?);
        let entry = rest.get(..len).filter(|_| len >= 2)?;
        rest = &rest[len..];
        Some(entry)
    })
}

/// The APIC ids of the processors that are enabled, each once, in the table's order.
pub fn processors(madt: &[u8]) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in entries(madt) {
        let processor = match entry[0] {
            // A local APIC with an id of 8 bits, and one of 32 bits.
            0 => le::u32(entry, 4).zip(entry.get(3).map(|&id| u32::from(id))),
            9 => le::u32(entry, 8).zip(le::u32(entry, 4)),
            _ => None,
        };
        if let Some((flags, id)) = processor
            && flags & ENABLED != 0
            && !found.contains(&id)
        {
            found.push(id);
        }
    }
    found
}

/// The controllers of devices' interrupts.
pub fn io_apics(madt: &[u8]) -> Vec<IoApic> {
    let controller = |entry: &[u8]| {
        let (address, first) = (le::u32(entry, 4)?, le::u32(entry, 8)?);
        let address = u64::from(address);
        (entry[0] == 1 && address != 0).then_some(IoApic { address, first })
    };
    entries(madt).filter_map(controller).collect()
}
