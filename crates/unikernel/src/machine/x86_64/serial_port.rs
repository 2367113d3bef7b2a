//! The first serial port of a PC.
#![allow(unsafe_code)]

use super::cpu;
use crate::console::serial::{Registers, Serial};

/// The port's registers.
#[derive(Debug)]
pub struct Com1;

impl Registers for Com1 {
    fn read(&mut self, register: u8) -> u8 {
        // SAFETY: ports 0x3f8 to 0x3ff belong to the first serial port or to nothing.
        unsafe { cpu::in8(0x3f8 + u16::from(register)) }
    }
    fn write(&mut self, register: u8, value: u8) {
        // SAFETY: as above.
        unsafe { cpu::out8(0x3f8 + u16::from(register), value) }
    }
}

/// The machine's port.
pub type SerialPort = Serial<Com1>;

/// The port, not set up.
pub const SERIAL_PORT: SerialPort = Serial::new(Com1);
