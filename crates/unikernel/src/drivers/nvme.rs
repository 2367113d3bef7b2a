//! NVMe disks (NVM Express base specification 2.0): one queue, one command at a time.

use super::{BlockDevice, DeviceError, Dma, Registers, check_range, dma};
use core::sync::atomic::{Ordering, fence};
use strata_platform::Clock;

const NAME: &str = "NVMe disk";

const CAPABILITIES: usize = 0;
const CONFIGURATION: usize = 0x14;
const STATUS: usize = 0x1c;
const ADMIN_SIZES: usize = 0x24;
const ADMIN_SUBMISSIONS: usize = 0x28;
const ADMIN_COMPLETIONS: usize = 0x30;
const DOORBELLS: usize = 0x1000;

/// On, 64-byte submissions, 16-byte completions, pages of 4 KiB.
const ON: u32 = 1 | 6 << 16 | 4 << 20;
const READY: u32 = 1;
const FATAL: u32 = 2;

const FLUSH: u32 = 0;
const WRITE: u32 = 1;
const READ: u32 = 2;
const CREATE_SUBMISSIONS: u32 = 1;
const CREATE_COMPLETIONS: u32 = 5;
const IDENTIFY: u32 = 6;

const ENTRIES: usize = 16;
const PAGE: usize = 4096;
/// A page of the list names 512 pages.
const LARGEST: usize = 512 * PAGE;
const TIMEOUT_NS: u64 = 10_000_000_000;

struct Queue {
    submissions: Dma,
    completions: Dma,
    tail: usize,
    head: usize,
    /// What the lowest bit of a new completion's status is.
    phase: u32,
    number: usize,
}

impl Queue {
    fn new(number: usize) -> Result<Self, DeviceError> {
        let page = || Dma::new(PAGE).ok_or(DeviceError::NoMemory { device: NAME });
        Ok(Self {
            submissions: page()?,
            completions: page()?,
            tail: 0,
            head: 0,
            phase: 1,
            number,
        })
    }
}

/// What a command says beside its number.
#[derive(Default)]
struct Command {
    operation: u32,
    namespace: u32,
    pages: [u64; 2],
    words: [u32; 3],
}

/// The first namespace of a disk.
pub struct Nvme<R> {
    registers: R,
    clock: &'static dyn Clock,
    doorbell_bytes: usize,
    admin: Queue,
    io: Queue,
    /// Where the pages of a large request are listed.
    list: Dma,
    /// For targets that the device cannot reach.
    bounce: Dma,
    block_bytes: usize,
    blocks: u64,
    largest: usize,
}

impl<R: Registers> Nvme<R> {
    /// Starts a disk.
    pub fn new(registers: R, clock: &'static dyn Clock) -> Result<Self, DeviceError> {
        let page = || Dma::new(PAGE).ok_or(DeviceError::NoMemory { device: NAME });
        let capabilities = registers.read_pair(CAPABILITIES);
        let mut disk = Self {
            registers,
            clock,
            doorbell_bytes: 4 << (capabilities >> 32 & 15),
            admin: Queue::new(0)?,
            io: Queue::new(1)?,
            list: page()?,
            bounce: page()?,
            block_bytes: 512,
            blocks: 0,
            largest: PAGE,
        };
        if capabilities >> 48 & 15 != 0 {
            let why = "its smallest page is larger than 4 KiB";
            return Err(DeviceError::Unusable { device: NAME, why });
        }
        disk.registers.write(CONFIGURATION, 0);
        disk.wait(|registers| registers.read(STATUS) & READY == 0)?;
        let sizes = (ENTRIES - 1) as u32;
        disk.registers.write(ADMIN_SIZES, sizes | sizes << 16);
        let (submissions, completions) = (&disk.admin.submissions, &disk.admin.completions);
        let (submissions, completions) = (submissions.address(), completions.address());
        disk.registers.write_pair(ADMIN_SUBMISSIONS, submissions);
        disk.registers.write_pair(ADMIN_COMPLETIONS, completions);
        disk.registers.write(CONFIGURATION, ON);
        disk.wait(|registers| registers.read(STATUS) & (READY | FATAL) != 0)?;
        let status = disk.registers.read(STATUS);
        if status & FATAL != 0 {
            return Err(DeviceError::Failed {
                device: NAME,
                status,
            });
        }
        disk.identify()?;
        disk.create_queues()?;
        Ok(disk)
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

    fn identify(&mut self) -> Result<(), DeviceError> {
        let target = self.bounce.address();
        let mut command = Command {
            operation: IDENTIFY,
            pages: [target, 0],
            words: [1, 0, 0],
            ..Command::default()
        };
        self.admin_command(&command)?;
        let mut page = [0; 4];
        self.bounce.copy_to(76, &mut page);
        // The largest request is a power of two in pages, or not limited.
        self.largest = match page[1] {
            0 => LARGEST,
            power => PAGE
                .checked_shl(power.into())
                .unwrap_or(LARGEST)
                .min(LARGEST),
        };
        command.namespace = 1;
        command.words = [0; 3];
        self.admin_command(&command)?;
        self.blocks = u64::from(self.bounce.read(0)) | u64::from(self.bounce.read(4)) << 32;
        let format = self.bounce.read(24) >> 16 & 15;
        let shift = self.bounce.read(128 + format as usize * 4) >> 16 & 255;
        if !(9..=12).contains(&shift) {
            let why = "its blocks are neither of 512 nor of up to 4096 bytes";
            return Err(DeviceError::Unusable { device: NAME, why });
        }
        self.block_bytes = 1 << shift;
        Ok(())
    }

    fn create_queues(&mut self) -> Result<(), DeviceError> {
        let size = (ENTRIES as u32 - 1) << 16 | 1;
        for (operation, target, word) in [
            // In one piece; the submissions go with the first completions.
            (CREATE_COMPLETIONS, self.io.completions.address(), 1),
            (
                CREATE_SUBMISSIONS,
                self.io.submissions.address(),
                1 | 1 << 16,
            ),
        ] {
            self.admin_command(&Command {
                operation,
                pages: [target, 0],
                words: [size, word, 0],
                ..Command::default()
            })?;
        }
        Ok(())
    }

    fn admin_command(&mut self, command: &Command) -> Result<(), DeviceError> {
        submit(
            &mut self.registers,
            &mut self.admin,
            self.doorbell_bytes,
            command,
        );
        self.complete(true)
    }

    /// Waits for the command that was submitted.
    fn complete(&mut self, admin: bool) -> Result<(), DeviceError> {
        let start = self.clock.now_ns();
        let queue = if admin { &mut self.admin } else { &mut self.io };
        let at = queue.head * 16;
        let mut status = queue.completions.read(at + 12);
        while status >> 16 & 1 != queue.phase {
            if self.clock.now_ns().saturating_sub(start) > TIMEOUT_NS {
                return Err(DeviceError::Silent { device: NAME });
            }
            core::hint::spin_loop();
            status = queue.completions.read(at + 12);
        }
        fence(Ordering::Acquire);
        queue.head = (queue.head + 1) % ENTRIES;
        if queue.head == 0 {
            queue.phase ^= 1;
        }
        let doorbell = DOORBELLS + (queue.number * 2 + 1) * self.doorbell_bytes;
        self.registers.write(doorbell, queue.head as u32);
        match status >> 17 & 0x7fff {
            0 => Ok(()),
            status => Err(DeviceError::Failed {
                device: NAME,
                status,
            }),
        }
    }

    /// Bytes of a request to memory at an address: one page less than the largest, because the first page may begin in
    /// the middle; a page by way of one of our own, where the device cannot reach the memory.
    fn part(&self, address: usize) -> usize {
        if self.largest == PAGE && !address.is_multiple_of(PAGE) {
            self.block_bytes
        } else if address.is_multiple_of(4) {
            (self.largest - PAGE).max(PAGE)
        } else {
            PAGE
        }
    }

    /// Reads or writes blocks, from or to memory at an address that is a multiple of 4.
    fn transfer(
        &mut self,
        operation: u32,
        block: u64,
        address: u64,
        bytes: usize,
    ) -> Result<(), DeviceError> {
        let first = PAGE - address as usize % PAGE;
        let second = (address / PAGE as u64 + 1) * PAGE as u64;
        let rest = bytes.saturating_sub(first).div_ceil(PAGE);
        let pages = match rest {
            0 => [address, 0],
            1 => [address, second],
            _ => {
                for page in 0..rest {
                    self.list
                        .write_pair(page * 8, second + (page * PAGE) as u64);
                }
                [address, self.list.address()]
            }
        };
        let count = (bytes / self.block_bytes) as u32;
        let command = Command {
            operation,
            namespace: 1,
            pages,
            words: [block as u32, (block >> 32) as u32, count - 1],
        };
        self.io_command(&command)
    }

    fn io_command(&mut self, command: &Command) -> Result<(), DeviceError> {
        submit(
            &mut self.registers,
            &mut self.io,
            self.doorbell_bytes,
            command,
        );
        self.complete(false)
    }
}

fn submit(registers: &mut impl Registers, queue: &mut Queue, doorbell: usize, command: &Command) {
    let at = queue.tail * 64;
    let entry = &mut queue.submissions;
    entry.write(at, command.operation | (queue.tail as u32) << 16);
    entry.write(at + 4, command.namespace);
    entry.write_pair(at + 24, command.pages[0]);
    entry.write_pair(at + 32, command.pages[1]);
    for (i, &word) in command.words.iter().enumerate() {
        entry.write(at + 40 + i * 4, word);
    }
    queue.tail = (queue.tail + 1) % ENTRIES;
    fence(Ordering::SeqCst);
    registers.write(DOORBELLS + queue.number * 2 * doorbell, queue.tail as u32);
}

impl<R: Registers> BlockDevice for Nvme<R> {
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
        let address = out.as_ptr() as usize;
        let mut block = block;
        for chunk in out.chunks_mut(self.part(address)) {
            if address.is_multiple_of(4) {
                self.transfer(READ, block, dma::physical(chunk.as_ptr()), chunk.len())?;
            } else {
                self.transfer(READ, block, self.bounce.address(), chunk.len())?;
                self.bounce.copy_to(0, chunk);
            }
            block += (chunk.len() / self.block_bytes) as u64;
        }
        Ok(())
    }

    fn write(&mut self, block: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        check_range(self, block, bytes.len())?;
        let address = bytes.as_ptr() as usize;
        let mut block = block;
        for chunk in bytes.chunks(self.part(address)) {
            let from = if address.is_multiple_of(4) {
                dma::physical(chunk.as_ptr())
            } else {
                self.bounce.copy_from(0, chunk);
                self.bounce.address()
            };
            self.transfer(WRITE, block, from, chunk.len())?;
            block += (chunk.len() / self.block_bytes) as u64;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), DeviceError> {
        self.io_command(&Command {
            operation: FLUSH,
            namespace: 1,
            ..Command::default()
        })
    }
}

#[cfg(test)]
mod tests;
