//! Persistent memory as a disk that is in memory already.
#![allow(unsafe_code)]

use super::{BlockDevice, DeviceError, check_range};
use crate::boot::memory_map::Range;
use crate::machine::address_space::map_memory;
use crate::machine::page_table::MapError;

const BLOCK: usize = 512;

/// A range of it.
pub(super) struct PersistentMemory(&'static [u8]);

impl PersistentMemory {
    /// Maps it, to be read only.
    ///
    /// # Safety
    /// The range must be persistent memory that nobody writes to.
    pub(super) unsafe fn new(range: Range) -> Result<Self, MapError> {
        map_memory(range)?;
        let (start, len) = (range.start as *const u8, range.len() as usize);
        // SAFETY: just mapped, for good, and by the caller's promise it stays as it is.
        Ok(Self(unsafe { core::slice::from_raw_parts(start, len) }))
    }
}

impl BlockDevice for PersistentMemory {
    fn name(&self) -> &'static str {
        "persistent memory"
    }
    fn block_bytes(&self) -> usize {
        BLOCK
    }
    fn blocks(&self) -> u64 {
        (self.0.len() / BLOCK) as u64
    }
    fn read(&mut self, block: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        check_range(self, block, out.len())?;
        let start = block as usize * BLOCK;
        out.copy_from_slice(&self.0[start..][..out.len()]);
        Ok(())
    }
    fn memory(&self) -> Option<&'static [u8]> {
        Some(self.0)
    }
}
