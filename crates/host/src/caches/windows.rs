//! Caches as Windows tells of them: records of varying length, one after the other.
#![allow(unsafe_code)]

use super::Cache;
use std::mem::offset_of;
use windows_sys::Win32::System::SystemInformation::{
    CACHE_RELATIONSHIP, CacheData, CacheInstruction, CacheUnified,
    GetLogicalProcessorInformationEx, RelationCache, SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX,
};

/// All caches of the first processor, the nearest first.
pub(super) fn read() -> Vec<Cache> {
    let mut length = 0;
    // SAFETY: with no room the system only says how much it wants.
    unsafe {
        GetLogicalProcessorInformationEx(RelationCache, std::ptr::null_mut(), &mut length);
    }
    // Eight bytes each, which is the records' alignment.
    let mut room = vec![0u64; (length as usize).div_ceil(8)];
    // SAFETY: the system writes at most `length` bytes, and says how many.
    let told = unsafe {
        GetLogicalProcessorInformationEx(RelationCache, room.as_mut_ptr().cast(), &mut length)
    };
    if told == 0 {
        return Vec::new();
    }
    let bytes: Vec<u8> = room.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let bytes = &bytes[..bytes.len().min(length as usize)];
    let mut caches: Vec<Cache> = records(bytes).filter_map(cache).collect();
    caches.sort_by_key(|cache| cache.level);
    caches
}

/// The caches in records; one that does not say its own length is the end.
fn records(mut bytes: &[u8]) -> impl Iterator<Item = CACHE_RELATIONSHIP> {
    const SIZE: usize = offset_of!(SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX, Size);
    const START: usize = offset_of!(SYSTEM_LOGICAL_PROCESSOR_INFORMATION_EX, Anonymous);
    std::iter::from_fn(move || {
        let size = bytes.get(SIZE..)?.first_chunk()?;
        let (record, rest) = bytes.split_at_checked(u32::from_ne_bytes(*size) as usize)?;
        let cache = record.get(START..START + size_of::<CACHE_RELATIONSHIP>())?;
        bytes = rest;
        // SAFETY: as many bytes as the structure has, all of whose parts are numbers.
        Some(unsafe { cache.as_ptr().cast::<CACHE_RELATIONSHIP>().read_unaligned() })
    })
}

/// A cache, if the first processor reads through it.
fn cache(told: CACHE_RELATIONSHIP) -> Option<Cache> {
    // SAFETY: both parts of the union are numbers in the same places.
    let processors = unsafe { told.Anonymous.GroupMask };
    if processors.Group != 0 || processors.Mask & 1 == 0 {
        return None;
    }
    #[allow(non_upper_case_globals)]
    let kind = match told.Type {
        CacheUnified => "Unified",
        CacheInstruction => "Instruction",
        CacheData => "Data",
        _ => return None,
    };
    Some(Cache {
        level: told.Level,
        kind: kind.into(),
        bytes: told.CacheSize.into(),
        shared_by: list(processors.Mask),
    })
}

/// The bits of a mask, as in `0-3,8`.
fn list(mask: usize) -> String {
    let (mut parts, mut bit) = (Vec::new(), 0);
    let set = |bit: u32| bit < usize::BITS && mask >> bit & 1 == 1;
    while bit < usize::BITS {
        let first = bit;
        while set(bit) {
            bit += 1;
        }
        match bit - first {
            0 => bit += 1,
            1 => parts.push(first.to_string()),
            _ => parts.push(format!("{first}-{}", bit - 1)),
        }
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_lists() {
        for (mask, expected) in [
            (0, ""),
            (1, "0"),
            (0b1111, "0-3"),
            (0b1_0000_1101, "0,2-3,8"),
            (usize::MAX, "0-63"),
        ] {
            assert_eq!(list(mask), expected);
        }
    }

    #[test]
    fn records_that_are_cut_off_are_the_end() {
        for bytes in [0, 4, 7, 8, 40, 200] {
            for fill in [0, 1, 255] {
                assert!(records(&vec![fill; bytes]).count() <= 200);
            }
        }
    }

    #[test]
    fn this_machine_has_caches() {
        let caches = read();
        assert!(caches.iter().all(|cache| cache.bytes > 0), "{caches:?}");
        assert!(caches.is_sorted_by_key(|cache| cache.level), "{caches:?}");
    }
}
