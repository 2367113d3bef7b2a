//! Persistent memory: the ranges that the NVDIMM firmware interface table tells of (ACPI specification 6.5, section
//! 5.2.25).

use super::HEADER;
use crate::boot::le;
use crate::boot::memory_map::{PAGE, Range};
use alloc::vec::Vec;

const ADDRESS_RANGE: u16 = 0;
/// 66f0d379-b4f3-4074-ac43-0d3318b78cdb: memory that is reached by its bytes.
const PERSISTENT: [u8; 16] = [
    0x79, 0xd3, 0xf0, 0x66, 0xf3, 0xb4, 0x74, 0x40, 0xac, 0x43, 0x0d, 0x33, 0x18, 0xb7, 0x8c, 0xdb,
];
/// Where processors without a fifth level of page tables see nothing, and files are mapped.
const TOP: u64 = 1 << 46;
/// More than any machine has.
const MOST: usize = 64;

/// Whole pages of persistent memory.
pub fn ranges(nfit: &[u8]) -> Vec<Range> {
    let mut rest = nfit.get(HEADER + 4..).unwrap_or_default();
    let structures = core::iter::from_fn(|| {
        let len = usize::from(le::u16(rest, 2)?);
        let structure = rest.get(..len).filter(|_| len >= 4)?;
        rest = &rest[len..];
        Some(structure)
    });
    let range = |structure: &[u8]| {
        let (kind, guid) = (le::u16(structure, 0)?, structure.get(16..32)?);
        let (start, bytes) = (le::u64(structure, 32)?, le::u64(structure, 40)?);
        let end = start.checked_add(bytes / PAGE * PAGE)?;
        let sound = start.is_multiple_of(PAGE) && start != 0 && start < end && end <= TOP;
        (kind == ADDRESS_RANGE && guid == PERSISTENT && sound).then_some(Range { start, end })
    };
    structures.filter_map(range).take(MOST).collect()
}
