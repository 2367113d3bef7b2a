//! TPM 2.0 by its registers (TCG PC Client Platform TPM Profile 1.05): the FIFO interface, which is also that of TIS 1.3,
//! and the command response buffer. One command at a time, by polling.

#[cfg(test)]
pub(crate) mod tests;

use super::{DeviceError, Registers};
use alloc::vec;
use alloc::vec::Vec;
use strata_platform::Clock;

const NAME: &str = "TPM";
/// Where PCs have its registers, and how many bytes of them the first locality has.
pub const PLACE: (u64, u64) = (0xfed4_0000, 0x1000);

/// Which interface there is: its kind in the lowest four bits.
pub const INTERFACE: usize = 0x30;

// Of the FIFO interface.
const ACCESS: usize = 0;
const STATUS: usize = 0x18;
const DATA: usize = 0x24;
const REQUEST_USE: u8 = 2;
const ACTIVE: u8 = 0xa0;
const READY: u32 = 0x40;
const GO: u32 = 0x20;
const VALID: u32 = 0x80;
const HAS_DATA: u32 = 0x10;
const EXPECTS: u32 = 8;

// Of the buffer interface.
const LOCALITY_CONTROL: usize = 0x08;
const LOCALITY_STATUS: usize = 0x0c;
const CONTROL_REQUEST: usize = 0x40;
const CONTROL_STATUS: usize = 0x44;
const CONTROL_START: usize = 0x4c;
const BUFFER: usize = 0x80;
const COMMAND_READY: u32 = 1;
const GO_IDLE: u32 = 2;

/// Tag, length and code: what every command and every response begins with.
pub(crate) const HEADER: usize = 10;
/// Longer responses are none.
const LONGEST: usize = 4096;
/// Changes of state in nanoseconds, and commands, of which those that make keys are slow.
const SOON: u64 = 2_000_000_000;
const PATIENCE: u64 = 90_000_000_000;

/// Registers of which some have one byte.
pub trait ByteRegisters: Registers {
    /// Reads the byte at an offset.
    fn read_byte(&self, offset: usize) -> u8;
    /// Writes the byte at an offset.
    fn write_byte(&mut self, offset: usize, value: u8);
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum Interface {
    Fifo,
    Buffer,
}

/// A TPM.
pub struct Tpm {
    registers: alloc::boxed::Box<dyn ByteRegisters>,
    clock: &'static dyn Clock,
    interface: Interface,
}

/// Whether what [`INTERFACE`] says is said by a TPM.
pub fn is_there(interface: u32) -> bool {
    interface != 0 && interface != u32::MAX
}

impl Tpm {
    /// Takes the TPM behind the registers, if there is one.
    pub fn new<R: ByteRegisters + 'static>(
        registers: R,
        clock: &'static dyn Clock,
    ) -> Result<Option<Self>, DeviceError> {
        let kind = registers.read(INTERFACE);
        if !is_there(kind) {
            return Ok(None);
        }
        let interface = if kind & 0xf == 1 {
            Interface::Buffer
        } else {
            Interface::Fifo
        };
        let mut tpm = Self {
            registers: alloc::boxed::Box::new(registers),
            clock,
            interface,
        };
        if interface == Interface::Buffer {
            tpm.registers.write(LOCALITY_CONTROL, 1);
            tpm.wait(SOON, |r| r.read(LOCALITY_STATUS) & 1 == 1)?;
        } else {
            tpm.registers.write_byte(ACCESS, REQUEST_USE);
            tpm.wait(SOON, |r| r.read_byte(ACCESS) & ACTIVE == ACTIVE)?;
        }
        Ok(Some(tpm))
    }

    fn wait(
        &self,
        limit: u64,
        done: impl Fn(&dyn ByteRegisters) -> bool,
    ) -> Result<(), DeviceError> {
        let end = self.clock.now_ns().saturating_add(limit);
        while !done(&*self.registers) {
            if self.clock.now_ns() > end {
                return Err(DeviceError::Silent { device: NAME });
            }
            core::hint::spin_loop();
        }
        Ok(())
    }

    /// Sends a command, and gives the whole response.
    pub fn transmit(&mut self, command: &[u8]) -> Result<Vec<u8>, DeviceError> {
        let response = match self.interface {
            Interface::Fifo => {
                let response = self.through_fifo(command);
                self.registers.write(STATUS, READY);
                response
            }
            Interface::Buffer => {
                let response = self.through_buffer(command);
                self.registers.write(CONTROL_REQUEST, GO_IDLE);
                response
            }
        }?;
        Ok(response)
    }

    fn through_fifo(&mut self, command: &[u8]) -> Result<Vec<u8>, DeviceError> {
        self.registers.write(STATUS, READY);
        self.wait(SOON, |r| r.read(STATUS) & READY != 0)?;
        let mut rest = command;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(self.burst()?.min(rest.len()));
            for &byte in now {
                self.registers.write_byte(DATA, byte);
            }
            rest = later;
        }
        self.wait(SOON, |r| r.read(STATUS) & (VALID | EXPECTS) == VALID)?;
        self.registers.write(STATUS, GO);
        let answered = VALID | HAS_DATA;
        self.wait(PATIENCE, |r| r.read(STATUS) & answered == answered)?;
        let mut response = vec![0; HEADER];
        self.fill(&mut response)?;
        let len = length(&response)?;
        let mut more = vec![0; len - HEADER];
        self.fill(&mut more)?;
        response.extend(more);
        Ok(response)
    }

    /// How many bytes go at once.
    fn burst(&self) -> Result<usize, DeviceError> {
        let count = |r: &dyn ByteRegisters| (r.read(STATUS) >> 8 & 0xffff) as usize;
        self.wait(SOON, |r| count(r) > 0)?;
        Ok(count(&*self.registers).max(1))
    }

    fn fill(&self, mut out: &mut [u8]) -> Result<(), DeviceError> {
        while !out.is_empty() {
            let (now, later) = out.split_at_mut(self.burst()?.min(out.len()));
            for byte in now {
                *byte = self.registers.read_byte(DATA);
            }
            out = later;
        }
        Ok(())
    }

    fn through_buffer(&mut self, command: &[u8]) -> Result<Vec<u8>, DeviceError> {
        let room = PLACE.1 as usize - BUFFER;
        if command.len() > room {
            let why = "a command is larger than its buffer";
            return Err(DeviceError::Unusable { device: NAME, why });
        }
        self.registers.write(CONTROL_REQUEST, COMMAND_READY);
        self.wait(SOON, |r| r.read(CONTROL_REQUEST) & COMMAND_READY == 0)?;
        for (index, word) in command.chunks(4).enumerate() {
            let mut bytes = [0; 4];
            bytes[..word.len()].copy_from_slice(word);
            let word = u32::from_le_bytes(bytes);
            self.registers.write(BUFFER + 4 * index, word);
        }
        self.registers.write(CONTROL_START, 1);
        self.wait(PATIENCE, |r| r.read(CONTROL_START) & 1 == 0)?;
        let status = self.registers.read(CONTROL_STATUS);
        if status & 1 != 0 {
            return Err(DeviceError::Failed {
                device: NAME,
                status,
            });
        }
        let words = |bytes: usize| (0..bytes.div_ceil(4)).map(|i| BUFFER + 4 * i);
        let read = |bytes: usize| -> Vec<u8> {
            let words = words(bytes).map(|at| self.registers.read(at));
            let mut out: Vec<u8> = words.flat_map(u32::to_le_bytes).collect();
            out.truncate(bytes);
            out
        };
        let len = length(&read(HEADER))?;
        Ok(read(len.min(room)))
    }
}

/// How long a response is that begins so.
fn length(header: &[u8]) -> Result<usize, DeviceError> {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&header[2..6]);
    match u32::from_be_bytes(bytes) as usize {
        len @ HEADER..=LONGEST => Ok(len),
        len => Err(DeviceError::Failed {
            device: NAME,
            status: len as u32,
        }),
    }
}
