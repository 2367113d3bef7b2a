//! The multiple APIC description table: which processors there are.

use super::HEADER;
use crate::boot::le;
use alloc::vec::Vec;

const ENABLED: u32 = 1;
const ENTRIES: usize = HEADER + 8;

/// The APIC ids of the processors that are enabled, each once, in the table's order.
pub fn processors(madt: &[u8]) -> Vec<u32> {
    let mut found = Vec::new();
    let mut rest = madt.get(ENTRIES..).unwrap_or_default();
    while let [kind, len, ..] = *rest {
        let Some(entry) = rest.get(..usize::from(len)).filter(|_| len >= 2) else {
            break;
        };
        let processor = match kind {
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
        rest = &rest[usize::from(len)..];
    }
    found
}
