//! UEFI's memory map (UEFI specification 2.10, section 7.2.3).

use super::le;
use super::memory_map::{MemoryMap, PAGE, Range};

const BOOT_SERVICES_CODE: u32 = 3;
const BOOT_SERVICES_DATA: u32 = 4;
const CONVENTIONAL: u32 = 7;

/// What is free at once, and what is free when firmware's page tables, which lie in it, are no longer in use.
///
/// `descriptors` are of `size` bytes each, of which later versions of the specification may add some.
pub fn read(descriptors: &[u8], size: usize) -> (MemoryMap, MemoryMap) {
    let (mut free, mut borrowed) = (MemoryMap::new(), MemoryMap::new());
    if size < 40 {
        return (free, borrowed);
    }
    for descriptor in descriptors.chunks_exact(size) {
        let (Some(kind), Some(start), Some(pages)) = (
            le::u32(descriptor, 0),
            le::u64(descriptor, 8),
            le::u64(descriptor, 24),
        ) else {
            continue;
        };
        let range = Range::new(start, pages.saturating_mul(PAGE));
        match kind {
            CONVENTIONAL => free.add(range),
            BOOT_SERVICES_CODE | BOOT_SERVICES_DATA => borrowed.add(range),
            _ => {}
        }
    }
    (free, borrowed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn free_memory_is_told_from_firmwares() {
        let mut map = Vec::new();
        for (kind, start, pages) in [
            (7u32, 0u64, 16u64),
            (0, 0xa0000, 1),
            (4, 0x10_0000, 2),
            (3, 0x10_2000, 1),
            (2, 0x20_0000, 9),
            (7, 0x30_0000, 4),
            (7, 0x40_0000, u64::MAX),
        ] {
            map.extend(kind.to_le_bytes());
            map.extend([0; 4]);
            map.extend(start.to_le_bytes());
            map.extend([0; 8]);
            map.extend(pages.to_le_bytes());
            map.extend([0; 16]);
        }
        let (free, borrowed) = read(&map, 48);
        assert_eq!(
            free.ranges()[..2],
            [Range::new(0, 0x10000), Range::new(0x30_0000, 0x4000)]
        );
        assert_eq!(borrowed.ranges(), [Range::new(0x10_0000, 0x3000)]);
        for size in [0, 1, 39, 40, 5000] {
            let _ = read(&map, size);
            let _ = read(&map[..map.len() - 7], size);
        }
    }
}
