//! The one console of the machine.
#![allow(unsafe_code)]

use super::log::Log;
use super::serial::{Registers, Serial};
use crate::machine::cpu;
use crate::machine::lock::Lock;
use core::fmt::{self, Write};

/// The first serial port of a PC.
struct Com1;

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

struct Console {
    serial: Serial<Com1>,
    started: bool,
    log: Log,
}

static CONSOLE: Lock<Console> = Lock::new(Console {
    serial: Serial::new(Com1),
    started: false,
    log: Log::new(),
});

impl Console {
    fn ready(&mut self) -> &mut Self {
        if !self.started {
            self.serial.start();
            self.started = true;
        }
        self
    }
}

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if byte == b'\n' {
                self.serial.send(b'\r');
            }
            self.serial.send(byte);
            self.log.push(byte);
        }
        Ok(())
    }
}

/// Writes to every place there is.
pub fn write(text: fmt::Arguments<'_>) {
    // The console's own write never fails, and a failing Display has nowhere to be reported.
    let _ = CONSOLE.lock().ready().write_fmt(text);
}

/// A byte that was typed, if any.
pub fn read_byte() -> Option<u8> {
    CONSOLE.lock().ready().serial.receive()
}

/// Looks at the log.
pub fn with_log<T>(look: impl FnOnce(&Log) -> T) -> T {
    look(&CONSOLE.lock().log)
}

/// Lets a processor that is about to stop the machine write, whoever was writing.
pub fn seize() {
    CONSOLE.break_open();
}
