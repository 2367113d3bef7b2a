//! The one console of the machine.
#![allow(unsafe_code)]

use super::log::Log;
use super::screen::{Pixels, Screen};
use crate::boot::Framebuffer;
use crate::boot::memory_map::Range;
use crate::machine::address_space::map_screen;
use crate::machine::lock::Lock;
use crate::machine::page_table::MapError;
#[cfg(not(test))]
use crate::machine::serial_port::{SERIAL_PORT, SerialPort};
use core::fmt::{self, Write};

// On the host tests type, and nobody looks.
#[cfg(test)]
use super::serial::tests::{SERIAL_PORT, SerialPort};

/// The firmware's framebuffer.
struct Mapped(*mut u32);

// SAFETY: the framebuffer is reached through this value alone.
unsafe impl Send for Mapped {}

impl Pixels for Mapped {
    fn draw(&mut self, at: usize, pixels: &[u32; 8]) {
        for (x, &pixel) in pixels.iter().enumerate() {
            // SAFETY: `Screen` stays inside of the size it was made with, which is mapped.
            unsafe { self.0.add(at + x).write_volatile(pixel) };
        }
    }
}

struct Console {
    serial: SerialPort,
    screen: Option<Screen<Mapped>>,
    started: bool,
    log: Log,
}

static CONSOLE: Lock<Console> = Lock::new(Console {
    serial: SERIAL_PORT,
    screen: None,
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
            if let Some(screen) = &mut self.screen {
                screen.put(byte);
            }
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

/// Shows everything on a screen too, beginning with what was written before.
///
/// # Safety
/// The framebuffer must be as described, and used by nobody else.
pub unsafe fn show_on(framebuffer: &Framebuffer) -> Result<(), MapError> {
    let [width, height, stride] =
        [framebuffer.width, framebuffer.height, framebuffer.stride].map(|size| size as usize);
    let bytes = (stride as u64 * 4).saturating_mul(height as u64);
    map_screen(Range::new(framebuffer.address, bytes))?;
    let pixels = Mapped(framebuffer.address as *mut u32);
    if let Some(mut screen) = Screen::new(pixels, width, height, stride) {
        let mut console = CONSOLE.lock();
        let pieces = console.log.pieces();
        pieces.concat().iter().for_each(|&byte| screen.put(byte));
        console.screen = Some(screen);
    }
    Ok(())
}

/// Clears the screen, and that of whoever looks at the serial line.
pub fn clear() {
    let mut console = CONSOLE.lock();
    b"\x1b[2J\x1b[H"
        .iter()
        .for_each(|&byte| console.serial.send(byte));
    if let Some(screen) = &mut console.screen {
        screen.clear();
    }
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
