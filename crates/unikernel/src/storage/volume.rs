//! A run of a disk's bytes: all of it, or a partition.

use super::StorageError;
use crate::drivers::BlockDevice;
use alloc::vec;
use strata_image::reader::Source;

/// Bytes of a disk, read at any offset. Whole blocks go straight to where they are wanted.
pub struct Volume<'d> {
    disk: &'d mut dyn BlockDevice,
    start: u64,
    bytes: u64,
}

impl<'d> Volume<'d> {
    /// All of a disk.
    pub fn whole(disk: &'d mut dyn BlockDevice) -> Self {
        let bytes = disk.blocks().saturating_mul(disk.block_bytes() as u64);
        Self {
            disk,
            start: 0,
            bytes,
        }
    }

    /// `bytes` of a disk from byte `start` on, or what there is of them.
    pub fn part(disk: &'d mut dyn BlockDevice, start: u64, bytes: u64) -> Self {
        let whole = Self::whole(disk);
        let start = start.min(whole.bytes);
        Self {
            bytes: bytes.min(whole.bytes - start),
            start,
            ..whole
        }
    }

    /// Where it begins on the disk.
    pub fn start(&self) -> u64 {
        self.start
    }
}

impl Source for Volume<'_> {
    type Error = StorageError;
    fn bytes(&self) -> u64 {
        self.bytes
    }
    fn block_bytes(&self) -> usize {
        self.disk.block_bytes()
    }
    fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<(), StorageError> {
        let end = offset.checked_add(out.len() as u64);
        if end.is_none_or(|end| end > self.bytes) {
            return Err(StorageError::PastEnd { offset });
        }
        let size = self.disk.block_bytes();
        let mut at = self.start + offset;
        let mut out = out;
        let mut block = vec![0; size];
        while !out.is_empty() {
            let inside = (at % size as u64) as usize;
            let whole = out.len() / size * size;
            let done = if inside == 0 && whole > 0 {
                self.disk.read(at / size as u64, &mut out[..whole])?;
                whole
            } else {
                self.disk.read(at / size as u64, &mut block)?;
                let part = out.len().min(size - inside);
                out[..part].copy_from_slice(&block[inside..inside + part]);
                part
            };
            at += done as u64;
            out = &mut out[done..];
        }
        Ok(())
    }
}
