//! SATA disks behind an AHCI controller (Serial ATA AHCI specification 1.3.1; commands of ACS-3): one command at a time.

use super::{BlockDevice, DeviceError, Dma, Registers, check_range, dma};
use alloc::vec::Vec;
use core::sync::atomic::{Ordering, fence};
use strata_platform::Clock;

const NAME: &str = "SATA disk";
const CONTROLLER: &str = "SATA controller";

// The controller's registers.
const CAPABILITIES: usize = 0;
const CONTROL: usize = 0x04;
const PORTS: usize = 0x0c;
const CAPABILITIES_2: usize = 0x24;
const HANDOFF: usize = 0x28;
const AHCI_ON: u32 = 1 << 31;
const INTERRUPTS: u32 = 1 << 1;
const WIDE_ADDRESSES: u32 = 1 << 31;

/// Where the first port's registers are, and how many bytes each port has.
const FIRST_PORT: usize = 0x100;
/// Bytes of a port's registers.
pub const PORT_BYTES: usize = 0x80;

// A port's registers.
const LIST: usize = 0;
const RECEIVED: usize = 0x08;
const INTERRUPT_STATUS: usize = 0x10;
const INTERRUPT_ENABLE: usize = 0x14;
const COMMAND: usize = 0x18;
const TASK: usize = 0x20;
const SIGNATURE: usize = 0x24;
const LINK: usize = 0x28;
const ERRORS: usize = 0x30;
const ISSUED: usize = 0x38;

const START: u32 = 1;
const SPIN_UP_AND_POWER: u32 = 6;
const RECEIVE: u32 = 1 << 4;
const RECEIVING: u32 = 1 << 14;
const RUNNING: u32 = 1 << 15;
const TASK_FAILED: u32 = 1 << 30;
const BUSY: u32 = 0x88;
const FAILED: u32 = 0x21;
const DISK: u32 = 0x101;
/// A device that is there, and one that can be talked to.
const PRESENT: u32 = 1;
const CONNECTED: u32 = 3;

const IDENTIFY: u8 = 0xec;
const READ_DMA_EXT: u8 = 0x25;
const WRITE_DMA_EXT: u8 = 0x35;
const FLUSH_CACHE_EXT: u8 = 0xea;

// Where things lie in the page that the port reads: 32 headers of commands, what came back, a command.
const ANSWERS: usize = 0x400;
const TABLE: usize = 0x800;
const PIECES: usize = TABLE + 0x80;

const PAGE: usize = 4096;
/// One piece of memory holds as much.
const LARGEST: usize = 4 << 20;
const TIMEOUT_NS: u64 = 10_000_000_000;
/// How long a link takes that nobody has brought up, and one where somebody answers.
const LINK_NS: u64 = 10_000_000;
const SLOW_LINK_NS: u64 = 1_000_000_000;

/// Where a port's registers are among the controller's.
pub fn port(number: usize) -> usize {
    FIRST_PORT + number * PORT_BYTES
}

/// Takes a controller from firmware, and gives the ports where something is connected.
pub fn ports(
    controller: &mut impl Registers,
    clock: &'static dyn Clock,
) -> Result<Vec<usize>, DeviceError> {
    let begin = clock.now_ns();
    let passed = || clock.now_ns().saturating_sub(begin);
    if controller.read(CAPABILITIES) & WIDE_ADDRESSES == 0 {
        let (device, why) = (CONTROLLER, "it reaches the first 4 GiB of memory only");
        return Err(DeviceError::Unusable { device, why });
    }
    if controller.read(CAPABILITIES_2) & 1 != 0 {
        let handoff = controller.read(HANDOFF);
        controller.write(HANDOFF, handoff | 2);
        while controller.read(HANDOFF) & 1 != 0 && passed() < SLOW_LINK_NS {
            core::hint::spin_loop();
        }
    }
    let control = controller.read(CONTROL) & !INTERRUPTS;
    controller.write(CONTROL, control | AHCI_ON);
    let implemented = controller.read(PORTS);
    let all: Vec<usize> = (0..32).filter(|n| implemented >> n & 1 != 0).collect();
    for &number in &all {
        let at = port(number) + COMMAND;
        let command = controller.read(at);
        controller.write(at, command | SPIN_UP_AND_POWER);
    }
    let link = |controller: &dyn Registers, number| controller.read(port(number) + LINK) & 15;
    let begin = clock.now_ns();
    loop {
        let passed = clock.now_ns().saturating_sub(begin);
        let waits = |&n: &usize| link(controller, n) == PRESENT;
        if passed > SLOW_LINK_NS || passed > LINK_NS && !all.iter().any(waits) {
            break;
        }
        core::hint::spin_loop();
    }
    let connected = |&n: &usize| link(controller, n) == CONNECTED;
    Ok(all.into_iter().filter(connected).collect())
}

/// A disk at a port.
pub struct SataDisk<R> {
    registers: R,
    clock: &'static dyn Clock,
    page: Dma,
    /// For targets at odd addresses, and for what the disk says of itself.
    bounce: Dma,
    block_bytes: usize,
    blocks: u64,
}

impl<R: Registers> SataDisk<R> {
    /// Starts the disk at a port, whose registers these are; nothing if what is there is no disk.
    pub fn new(registers: R, clock: &'static dyn Clock) -> Result<Option<Self>, DeviceError> {
        let page = || Dma::new(PAGE).ok_or(DeviceError::NoMemory { device: NAME });
        let mut disk = Self {
            registers,
            clock,
            page: page()?,
            bounce: page()?,
            block_bytes: 512,
            blocks: 0,
        };
        disk.start()?;
        if disk.registers.read(SIGNATURE) != DISK {
            return Ok(None);
        }
        disk.identify()?;
        Ok(Some(disk))
    }

    fn wait(&self, done: impl Fn(&R) -> bool) -> Result<(), DeviceError> {
        let start = self.clock.now_ns();
        while !done(&self.registers) {
            if self.clock.now_ns().saturating_sub(start) > TIMEOUT_NS {
                return Err(DeviceError::Silent { device: NAME });
            }
            core::hint::spin_loop();
        }
        Ok(())
    }

    /// Lets the port begin anew, with our page: at first, and after a command that failed.
    fn start(&mut self) -> Result<(), DeviceError> {
        let command = self.registers.read(COMMAND);
        self.registers.write(COMMAND, command & !START);
        self.wait(|registers| registers.read(COMMAND) & RUNNING == 0)?;
        let command = self.registers.read(COMMAND);
        self.registers.write(COMMAND, command & !RECEIVE);
        self.wait(|registers| registers.read(COMMAND) & RECEIVING == 0)?;
        let page = self.page.address();
        self.registers.write_pair(LIST, page);
        self.registers.write_pair(RECEIVED, page + ANSWERS as u64);
        self.registers.write(INTERRUPT_ENABLE, 0);
        self.registers.write(ERRORS, u32::MAX);
        self.registers.write(INTERRUPT_STATUS, u32::MAX);
        let command = self.registers.read(COMMAND);
        self.registers.write(COMMAND, command | RECEIVE);
        self.wait(|registers| registers.read(TASK) & BUSY == 0)?;
        self.registers.write(COMMAND, command | RECEIVE | START);
        Ok(())
    }

    fn identify(&mut self) -> Result<(), DeviceError> {
        let target = self.bounce.address();
        self.command(IDENTIFY, 0, 0, target, 512)?;
        let mut said = [0; 512];
        self.bounce.copy_to(0, &mut said);
        let word = |at: usize| u64::from(u16::from_le_bytes([said[2 * at], said[2 * at + 1]]));
        let unusable = |why| Err(DeviceError::Unusable { device: NAME, why });
        if word(83) >> 10 & 1 == 0 {
            return unusable("it has no addresses of 48 bits");
        }
        self.blocks = word(100) | word(101) << 16 | word(102) << 32 | word(103) << 48;
        // The size is valid where the two upper bits are 01, and is told where it is not 512.
        if word(106) >> 12 & 0b1101 == 0b0101 {
            self.block_bytes = ((word(117) | word(118) << 16) * 2) as usize;
        }
        if !self.block_bytes.is_power_of_two() || !(512..=PAGE).contains(&self.block_bytes) {
            return unusable("its blocks are of an unknown size");
        }
        Ok(())
    }

    /// Does a command that brings bytes to an even address, or takes them from there, or is about none.
    fn command(
        &mut self,
        operation: u8,
        block: u64,
        count: usize,
        address: u64,
        bytes: usize,
    ) -> Result<(), DeviceError> {
        let at = block.to_le_bytes();
        let count = (count as u16).to_le_bytes();
        // From host to device, a command; addresses of blocks rather than of cylinders.
        let words = [
            [0x27, 0x80, operation, 0],
            [at[0], at[1], at[2], 0x40],
            [at[3], at[4], at[5], 0],
            [count[0], count[1], 0, 0],
            [0; 4],
        ];
        for (i, word) in words.into_iter().enumerate() {
            self.page.write(TABLE + 4 * i, u32::from_le_bytes(word));
        }
        self.page.write_pair(PIECES, address);
        self.page
            .write(PIECES + 12, (bytes as u32).saturating_sub(1));
        // Five words of a command, which way the bytes go, one piece of memory or none.
        let takes = u32::from(operation == WRITE_DMA_EXT) << 6;
        self.page.write(0, 5 | takes | u32::from(bytes > 0) << 16);
        self.page.write(4, 0);
        self.page.write_pair(8, self.page.address() + TABLE as u64);
        fence(Ordering::SeqCst);
        self.registers.write(ISSUED, 1);
        let failed = |registers: &R| registers.read(INTERRUPT_STATUS) & TASK_FAILED != 0;
        self.wait(|registers| registers.read(ISSUED) & 1 == 0 || failed(registers))?;
        fence(Ordering::Acquire);
        let status = self.registers.read(TASK);
        if status & FAILED != 0 || failed(&self.registers) {
            self.start()?;
            return Err(DeviceError::Failed {
                device: NAME,
                status: status & 0xffff,
            });
        }
        Ok(())
    }
}

impl<R: Registers> BlockDevice for SataDisk<R> {
    fn name(&self) -> &'static str {
        NAME
    }
    fn block_bytes(&self) -> usize {
        self.block_bytes
    }
    fn blocks(&self) -> u64 {
        self.blocks
    }

    fn read(&mut self, block: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        check_range(self, block, out.len())?;
        let direct = (out.as_ptr() as usize).is_multiple_of(2);
        let mut block = block;
        for chunk in out.chunks_mut(if direct { LARGEST } else { PAGE }) {
            let count = chunk.len() / self.block_bytes;
            let address = if direct {
                dma::physical(chunk.as_ptr())
            } else {
                self.bounce.address()
            };
            self.command(READ_DMA_EXT, block, count, address, chunk.len())?;
            if !direct {
                self.bounce.copy_to(0, chunk);
            }
            block += count as u64;
        }
        Ok(())
    }

    fn write(&mut self, block: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        check_range(self, block, bytes.len())?;
        let direct = (bytes.as_ptr() as usize).is_multiple_of(2);
        let mut block = block;
        for chunk in bytes.chunks(if direct { LARGEST } else { PAGE }) {
            let count = chunk.len() / self.block_bytes;
            let address = if direct {
                dma::physical(chunk.as_ptr())
            } else {
                self.bounce.copy_from(0, chunk);
                self.bounce.address()
            };
            self.command(WRITE_DMA_EXT, block, count, address, chunk.len())?;
            block += count as u64;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), DeviceError> {
        self.command(FLUSH_CACHE_EXT, 0, 0, 0, 0)
    }
}

#[cfg(test)]
mod tests;
