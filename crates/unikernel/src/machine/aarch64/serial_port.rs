//! The serial line of the machine: where the device tree says.
#![allow(unsafe_code)]

use super::cpu;
use crate::boot::memory_map::Range;
use crate::console::pl011::Pl011;
use crate::drivers::Registers;
use core::sync::atomic::{AtomicU64, Ordering};

static PLACE: AtomicU64 = AtomicU64::new(0);

/// Tells where the port is, which must be mapped when something is written.
///
/// # Safety
/// There must be a PL011, or nothing.
pub unsafe fn set_place(place: Range) {
    PLACE.store(place.start, Ordering::Relaxed);
}

/// The port's registers.
#[derive(Debug)]
pub struct Port;

impl Registers for Port {
    fn read(&self, offset: usize) -> u32 {
        match PLACE.load(Ordering::Relaxed) {
            0 => 0,
            // SAFETY: by the promise at `set_place`.
            place => unsafe { cpu::read_device((place + offset as u64) as *const u32) },
        }
    }
    fn write(&mut self, offset: usize, value: u32) {
        match PLACE.load(Ordering::Relaxed) {
            0 => {}
            // SAFETY: by the promise at `set_place`.
            place => unsafe { cpu::write_device((place + offset as u64) as *mut u32, value) },
        }
    }
}

/// The machine's port.
pub type SerialPort = Pl011<Port>;

/// The port, not set up.
pub const SERIAL_PORT: SerialPort = Pl011::new(Port);
