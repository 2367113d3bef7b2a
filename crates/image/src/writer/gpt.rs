//! A disk with a partition for firmware to boot from, and perhaps one for what the machine keeps: GPT (UEFI specification
//! 2.10, chapter 5) behind a protective MBR.

use super::crc32::crc32;
use crate::{DATA_PARTITION, Layout};

pub(crate) const SECTOR: u64 = 512;
/// An EFI system partition.
const SYSTEM_PARTITION: [u8; 16] = [
    0x28, 0x73, 0x2a, 0xc1, 0x1f, 0xf8, 0xd2, 0x11, 0xba, 0x4b, 0x00, 0xa0, 0xc9, 0x3e, 0xc9, 0x3b,
];
const ENTRIES: usize = 128;
const ENTRY_BYTES: usize = 128;
/// Sectors that the entries take.
const TABLE: u64 = (ENTRIES * ENTRY_BYTES) as u64 / SECTOR;

/// What partitions are aligned to, which suits every disk.
const MEGABYTE: u64 = 1 << 20;

/// A partition.
pub(crate) struct Part {
    kind: [u8; 16],
    name: &'static str,
    start: u64,
    sectors: u64,
}

impl Part {
    /// One that firmware boots from.
    pub(crate) fn system(start: u64, sectors: u64) -> Self {
        Self {
            kind: SYSTEM_PARTITION,
            name: "Strata",
            start,
            sectors,
        }
    }
}

/// A disk with a volume at a sector, from 34 on, and behind it a partition of at least so many bytes, if any, for what the
/// machine keeps.
pub fn disk(volume: Layout<'_>, first_sector: u32, data: u64) -> Layout<'_> {
    let fingerprint = volume.fingerprint();
    let mut disk = Layout::new(0);
    let start = u64::from(first_sector);
    let sectors = volume.len().div_ceil(SECTOR);
    disk.embed(start * SECTOR, volume);
    let mut parts = vec![Part::system(start, sectors)];
    if data > 0 {
        disk.pad(MEGABYTE);
        let bytes = data.next_multiple_of(MEGABYTE);
        parts.push(Part {
            kind: DATA_PARTITION,
            name: "Strata data",
            start: disk.len() / SECTOR,
            sectors: bytes / SECTOR,
        });
        disk.put(disk.len() + bytes, Vec::new());
    }
    partition(&mut disk, &parts, fingerprint);
    disk
}

/// Describes partitions: the tables go to the beginning, where there must be room, and behind the end.
pub(crate) fn partition(disk: &mut Layout<'_>, parts: &[Part], fingerprint: [u8; 16]) {
    disk.put(disk.len() + (TABLE + 1) * SECTOR, Vec::new());
    disk.pad(MEGABYTE);
    let last = disk.len() / SECTOR - 1;
    let table = entries(parts, fingerprint);
    let (front, back) = ([1, last, 2], [last, 1, last - TABLE]);
    let header = |place| header(place, last, &table, fingerprint);
    let (first, second) = (header(front), header(back));
    disk.put(0, protective_record(last));
    disk.put(SECTOR, first);
    disk.put(2 * SECTOR, table.clone());
    disk.put((last - TABLE) * SECTOR, table);
    disk.put(last * SECTOR, second);
}

/// A partition that spans the disk, so that programs which know only MBRs leave it alone.
fn protective_record(last: u64) -> Vec<u8> {
    let mut record = vec![0; 446];
    record.extend([0, 0, 2, 0, 0xee, 0xff, 0xff, 0xff]);
    record.extend(1u32.to_le_bytes());
    record.extend(u32::try_from(last).unwrap_or(u32::MAX).to_le_bytes());
    record.resize(510, 0);
    record.extend([0x55, 0xaa]);
    record
}

/// A random-looking GUID (version 4) that the content decides.
fn guid(mut bytes: [u8; 16], which: u8) -> [u8; 16] {
    bytes[0] ^= which;
    bytes[7] = bytes[7] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes
}

fn entries(parts: &[Part], fingerprint: [u8; 16]) -> Vec<u8> {
    let mut table = Vec::new();
    for (part, number) in parts.iter().zip(1..) {
        table.extend(part.kind);
        table.extend(guid(fingerprint, number));
        for field in [part.start, part.start + part.sectors - 1, 0] {
            table.extend(field.to_le_bytes());
        }
        table.extend(part.name.encode_utf16().flat_map(u16::to_le_bytes));
        table.resize(usize::from(number) * ENTRY_BYTES, 0);
    }
    table.resize(ENTRIES * ENTRY_BYTES, 0);
    table
}

/// `place`: this header's sector, the other's, and that of its entries.
fn header(place: [u64; 3], last: u64, table: &[u8], fingerprint: [u8; 16]) -> Vec<u8> {
    let [own, other, entries] = place;
    let mut header = b"EFI PART".to_vec();
    for field in [0x1_0000u32, 92, 0, 0] {
        header.extend(field.to_le_bytes());
    }
    for field in [own, other, 2 + TABLE, last - TABLE - 1] {
        header.extend(field.to_le_bytes());
    }
    header.extend(guid(fingerprint, 0));
    header.extend(entries.to_le_bytes());
    for field in [ENTRIES as u32, ENTRY_BYTES as u32, crc32(table)] {
        header.extend(field.to_le_bytes());
    }
    let sum = crc32(&header);
    header[16..20].copy_from_slice(&sum.to_le_bytes());
    header
}
