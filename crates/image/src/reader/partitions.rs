//! Where a disk's partitions are: GPT (UEFI specification 2.10, chapter 5) or MBR.

use super::{FormatError, Source};
use crate::le;
use alloc::vec;
use alloc::vec::Vec;

/// More than anybody has.
const MOST: usize = 256;
const ENTRY: usize = 128;

/// A partition's type, its first byte and how many there are.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its type's GUID, as a GPT has it; zeros in an MBR.
    pub kind: [u8; 16],
    /// Where it begins.
    pub start: u64,
    /// How long it is.
    pub bytes: u64,
}

/// The partitions of a disk; none if it has no table.
pub fn partitions<S: Source>(disk: &mut S) -> Result<Vec<Partition>, S::Error> {
    let block = disk.block_bytes() as u64;
    let mut sector = [0; 512];
    if disk.bytes() < 2 * block.max(512) {
        return Ok(Vec::new());
    }
    disk.read(0, &mut sector)?;
    if sector[510..] != [0x55, 0xaa] {
        return Ok(Vec::new());
    }
    let entries: Vec<_> = sector[446..510].chunks_exact(16).collect();
    if entries.iter().any(|entry| entry[4] == 0xee) {
        return gpt(disk);
    }
    let run = |entry: &&[u8]| {
        let (start, blocks) = (le::u32(entry, 8)?, le::u32(entry, 12)?);
        let (start, bytes) = (u64::from(start) * block, u64::from(blocks) * block);
        let kind = [0; 16];
        (entry[4] != 0 && start > 0 && bytes > 0).then_some(Partition { kind, start, bytes })
    };
    Ok(entries.iter().filter_map(run).collect())
}

fn gpt<S: Source>(disk: &mut S) -> Result<Vec<Partition>, S::Error> {
    let block = disk.block_bytes() as u64;
    let mut header = [0; 92];
    disk.read(block, &mut header)?;
    let (table, count, size) = (
        le::u64(&header, 72).unwrap_or_default(),
        le::u32(&header, 80).unwrap_or_default() as usize,
        le::u32(&header, 84).unwrap_or_default() as usize,
    );
    if !header.starts_with(b"EFI PART") || !(ENTRY..=4096).contains(&size) {
        return Err(FormatError::PartitionTable.into());
    }
    let mut entries = vec![0; count.min(MOST) * size];
    let at = table
        .checked_mul(block)
        .ok_or(FormatError::PartitionTable)?;
    disk.read(at, &mut entries)?;
    let run = |entry: &[u8]| {
        let (first, last) = (le::u64(entry, 32)?, le::u64(entry, 40)?);
        let blocks = last.checked_sub(first)?.checked_add(1)?;
        let (start, bytes) = (first.checked_mul(block)?, blocks.checked_mul(block)?);
        let kind: [u8; 16] = entry[..16].try_into().ok()?;
        let used = kind != [0; 16] && first > 0;
        used.then_some(Partition { kind, start, bytes })
    };
    Ok(entries.chunks_exact(size).filter_map(run).collect())
}
