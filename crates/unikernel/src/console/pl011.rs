//! Arm's serial port (PL011, Arm DDI 0183), by polling.

use crate::drivers::Registers;

const DATA: usize = 0;
const FLAGS: usize = 0x18;
const LINE: usize = 0x2c;
const CONTROL: usize = 0x30;
const INTERRUPTS: usize = 0x38;
/// The same in every one: the last byte of what says that it is of Arm's cells.
const CELL: usize = 0xffc;

const NOTHING_RECEIVED: u32 = 1 << 4;
const FULL: u32 = 1 << 5;

/// A port that sends nothing for this many looks is not waited for: the machine must run without a listener.
const MOST_SPINS: u32 = 100_000;

/// A serial port.
pub struct Pl011<R> {
    registers: R,
    present: bool,
}

impl<R: Registers> Pl011<R> {
    /// A port that is not set up, and writes nothing.
    pub const fn new(registers: R) -> Self {
        Self {
            registers,
            present: false,
        }
    }

    /// Sets the port to 8 bits, no parity, if there is one, at the speed that the loader has chosen.
    pub fn start(&mut self) {
        self.present = self.registers.read(CELL) & 0xff == 0xb1;
        if !self.present {
            return;
        }
        for (register, value) in [
            (CONTROL, 0),
            // Eight bits, with queues.
            (LINE, 0x70),
            // On, both ways; bytes that come interrupt.
            (CONTROL, 0x301),
            (INTERRUPTS, 0x50),
        ] {
            self.registers.write(register, value);
        }
    }

    /// Whether there is a port.
    pub fn is_present(&self) -> bool {
        self.present
    }

    /// Sends a byte.
    pub fn send(&mut self, byte: u8) {
        if !self.present {
            return;
        }
        let mut spins = MOST_SPINS;
        while self.registers.read(FLAGS) & FULL != 0 && spins > 0 {
            spins -= 1;
        }
        self.registers.write(DATA, byte.into());
    }

    /// A byte that has come, if any.
    pub fn receive(&mut self) -> Option<u8> {
        let ready = self.present && self.registers.read(FLAGS) & NOTHING_RECEIVED == 0;
        ready.then(|| self.registers.read(DATA) as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;
    use std::vec::Vec;

    /// A port with bytes to give, that takes one only at every third look.
    struct Fake {
        coming: Cell<&'static [u8]>,
        looks: Cell<u32>,
        written: Vec<(usize, u32)>,
    }

    fn fake(coming: &'static [u8]) -> Fake {
        Fake {
            coming: Cell::new(coming),
            looks: Cell::new(0),
            written: Vec::new(),
        }
    }

    impl Registers for Fake {
        fn read(&self, offset: usize) -> u32 {
            match offset {
                CELL => 0xb1,
                FLAGS => {
                    self.looks.set(self.looks.get() + 1);
                    let full = if self.looks.get().is_multiple_of(3) {
                        0
                    } else {
                        FULL
                    };
                    full | if self.coming.get().is_empty() {
                        NOTHING_RECEIVED
                    } else {
                        0
                    }
                }
                DATA => {
                    let (first, rest) = self.coming.get().split_first().expect("it was asked");
                    self.coming.set(rest);
                    // With the flags of errors.
                    0xf00 | u32::from(*first)
                }
                _ => 0,
            }
        }
        fn write(&mut self, offset: usize, value: u32) {
            self.written.push((offset, value));
        }
    }

    #[test]
    fn bytes_go_and_come() {
        let mut port = Pl011::new(fake(b"ab"));
        assert_eq!(port.receive(), None);
        port.send(b'x');
        assert!(port.registers.written.is_empty());
        port.start();
        assert!(port.is_present());
        port.send(b'y');
        assert_eq!(port.registers.looks.get(), 3);
        assert_eq!(
            port.registers.written.last(),
            Some(&(DATA, u32::from(b'y')))
        );
        assert_eq!(
            [port.receive(), port.receive(), port.receive()],
            [Some(b'a'), Some(b'b'), None]
        );
    }

    #[test]
    fn without_a_port_nothing_is_sent() {
        struct Nothing;
        impl Registers for Nothing {
            fn read(&self, _: usize) -> u32 {
                0
            }
            fn write(&mut self, _: usize, _: u32) {
                panic!("there is no port");
            }
        }
        let mut port = Pl011::new(Nothing);
        port.start();
        port.send(b'a');
        assert_eq!((port.is_present(), port.receive()), (false, None));
    }
}
