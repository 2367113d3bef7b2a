//! The part of a disk that may be written to: one partition, of a type of our own.

use super::format::UNIT;
use crate::drivers::Disk;
use crate::storage::{StorageError, Volume, partitions};
use core::fmt;
use strata_image::DATA_PARTITION;
use strata_image::reader::Partition;

/// A data partition.
pub struct Area {
    disk: Disk,
    start: u64,
    bytes: u64,
}

impl Area {
    /// The first data partition there is. What cannot be read or used is told and left out.
    pub fn find(disks: &[Disk], tell: &mut dyn FnMut(fmt::Arguments<'_>)) -> Option<(usize, Self)> {
        for (number, disk) in disks.iter().enumerate() {
            let found = partitions(&mut Volume::whole(&mut *disk.lock()));
            let found = found.unwrap_or_default();
            let Some(part) = found.iter().find(|part| part.kind == DATA_PARTITION) else {
                continue;
            };
            match Self::new(disk.clone(), *part) {
                Some(area) => return Some((number, area)),
                None => tell(format_args!(
                    "disk {number}: its data partition lies across its end or its blocks are too large"
                )),
            }
        }
        None
    }

    /// A partition of a disk, if the disk has all of it and blocks of it make up units.
    pub fn new(disk: Disk, part: Partition) -> Option<Self> {
        let Partition { start, bytes, .. } = part;
        let (block, blocks) = {
            let disk = disk.lock();
            (disk.block_bytes() as u64, disk.blocks())
        };
        let end = start.checked_add(bytes)?;
        let fits = (UNIT as u64).is_multiple_of(block)
            && start.is_multiple_of(block)
            && end <= blocks.saturating_mul(block);
        fits.then_some(Self { disk, start, bytes })
    }

    /// How many units it has.
    pub(super) fn units(&self) -> u64 {
        self.bytes / UNIT as u64
    }

    /// The block where so many bytes from a unit on begin, if they are all of the partition.
    fn block(&self, unit: u64, bytes: usize) -> Result<u64, StorageError> {
        let offset = unit.saturating_mul(UNIT as u64);
        let end = offset.saturating_add(bytes as u64);
        if end > self.units() * UNIT as u64 || !bytes.is_multiple_of(UNIT) {
            return Err(StorageError::PastEnd { offset });
        }
        Ok((self.start + offset) / self.disk.lock().block_bytes() as u64)
    }

    pub(super) fn read(&self, unit: u64, out: &mut [u8]) -> Result<(), StorageError> {
        let block = self.block(unit, out.len())?;
        Ok(self.disk.lock().read(block, out)?)
    }

    /// Writes whole units, which are not there for good before [`flush`](Self::flush).
    pub(super) fn write(&self, unit: u64, bytes: &[u8]) -> Result<(), StorageError> {
        let block = self.block(unit, bytes.len())?;
        Ok(self.disk.lock().write(block, bytes)?)
    }

    pub(super) fn flush(&self) -> Result<(), StorageError> {
        Ok(self.disk.lock().flush()?)
    }
}
