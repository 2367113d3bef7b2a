//! Disks as the bare machine reads them: partitions, and files on FAT volumes. Nothing here needs an operating system.

pub mod attachment;
mod fat;
mod partitions;

pub use fat::{Fat, File};
pub use partitions::{Partition, partitions};

use thiserror::Error;

/// Bytes that can be read at any offset: a disk or a part of one.
pub trait Source {
    /// Why they cannot be read, or not be understood.
    type Error: From<FormatError>;
    /// How many there are.
    fn bytes(&self) -> u64;
    /// Bytes in a block of the disk.
    fn block_bytes(&self) -> usize;
    /// Reads the bytes from `offset` on.
    fn read(&mut self, offset: u64, out: &mut [u8]) -> Result<(), Self::Error>;
}

/// What is on a disk cannot be understood.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum FormatError {
    /// The table of partitions is damaged.
    #[error("the table of partitions is damaged")]
    PartitionTable,
    /// The file system is damaged, or of a kind that is not known.
    #[error("the FAT file system cannot be read: {what}")]
    Fat {
        /// What is wrong.
        what: &'static str,
    },
}
