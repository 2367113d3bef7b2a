//! Devices, by polling. Each driver reaches its device through [`Registers`] and [`Dma`], so that it also runs on the
//! host against a fake.

pub mod ahci;
pub(crate) mod dma;
pub mod e1000;
pub mod nvme;
pub mod pci;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod persistent;
pub mod tpm;
pub mod virtio;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod probe;

pub use dma::Dma;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub use probe::{DeviceMemory, Devices, find_tpm};

use crate::machine::lock::Lock;
use alloc::sync::Arc;
use thiserror::Error;

/// The longest Ethernet frame: 1500 bytes of payload, addresses, type and a VLAN tag.
pub const MAX_FRAME: usize = 1518;

/// The registers of a device, as 32-bit words.
pub trait Registers: Send {
    /// Reads the word at an offset.
    fn read(&self, offset: usize) -> u32;
    /// Writes the word at an offset.
    fn write(&mut self, offset: usize, value: u32);

    /// Reads two words, the lower first.
    fn read_pair(&self, offset: usize) -> u64 {
        u64::from(self.read(offset)) | u64::from(self.read(offset + 4)) << 32
    }
    /// Writes two words, the lower first.
    fn write_pair(&mut self, offset: usize, value: u64) {
        self.write(offset, value as u32);
        self.write(offset + 4, (value >> 32) as u32);
    }
}

/// A device that did not do what it was asked.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Error)]
pub enum DeviceError {
    /// It did not answer in time.
    #[error("the {device} did not answer in time")]
    Silent {
        /// What it is.
        device: &'static str,
    },
    /// It answered that it failed.
    #[error("the {device} failed with status {status:#x}")]
    Failed {
        /// What it is.
        device: &'static str,
        /// What it says.
        status: u32,
    },
    /// It is of a kind that this driver does not know.
    #[error("the {device} cannot be used: {why}")]
    Unusable {
        /// What it is.
        device: &'static str,
        /// Why.
        why: &'static str,
    },
    /// There is no memory for its queues.
    #[error("there is no memory for the {device}")]
    NoMemory {
        /// What it is.
        device: &'static str,
    },
    /// More blocks were asked for than there are, or a part of one.
    #[error("{bytes} bytes from block {block} on are not blocks of the disk")]
    Range {
        /// The first block.
        block: u64,
        /// How many bytes.
        bytes: usize,
    },
    /// A frame longer than [`MAX_FRAME`], or empty.
    #[error("a frame of {bytes} bytes cannot be sent")]
    Frame {
        /// How long it is.
        bytes: usize,
    },
}

/// A disk that is read and written in whole blocks.
pub trait BlockDevice: Send {
    /// What it is.
    fn name(&self) -> &'static str;
    /// Bytes in a block.
    fn block_bytes(&self) -> usize;
    /// How many blocks there are.
    fn blocks(&self) -> u64;
    /// Reads whole blocks into `out`, straight from the device. Large requests are fast.
    fn read(&mut self, block: u64, out: &mut [u8]) -> Result<(), DeviceError>;
    /// Writes whole blocks. They are not there for good, and not before others, until [`flush`](Self::flush) is done.
    fn write(&mut self, _block: u64, _bytes: &[u8]) -> Result<(), DeviceError> {
        let (device, why) = (self.name(), "it is for reading only");
        Err(DeviceError::Unusable { device, why })
    }
    /// Has all that was written outlive a power cut.
    fn flush(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
    /// All of it, where it is in memory anyway.
    fn memory(&self) -> Option<&'static [u8]> {
        None
    }
}

/// A disk that several use, one at a time.
pub type Disk = Arc<Lock<dyn BlockDevice>>;

/// Fails unless `bytes` from `block` on are blocks that `disk` has.
pub(crate) fn check_range(
    disk: &dyn BlockDevice,
    block: u64,
    bytes: usize,
) -> Result<(), DeviceError> {
    let size = disk.block_bytes();
    let end = block.checked_add((bytes / size) as u64);
    if bytes.is_multiple_of(size) && end.is_some_and(|end| end <= disk.blocks()) {
        Ok(())
    } else {
        Err(DeviceError::Range { block, bytes })
    }
}

/// A network card.
pub trait NetDevice: Send {
    /// What it is.
    fn name(&self) -> &'static str;
    /// Its Ethernet address.
    fn address(&self) -> [u8; 6];
    /// Forgets the interrupts so far: the next frame that comes makes another.
    fn acknowledge(&mut self);
    /// Takes the next frame that has come, and says how long it is; nothing if there is none.
    fn receive(&mut self, frame: &mut [u8; MAX_FRAME]) -> Option<usize>;
    /// Whether [`send`](Self::send) has room.
    fn can_send(&mut self) -> bool;
    /// Sends a frame. If there is no room it is lost, as frames may be.
    fn send(&mut self, frame: &[u8]) -> Result<(), DeviceError>;
}
