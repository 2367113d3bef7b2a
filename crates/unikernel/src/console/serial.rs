//! The 16550 serial port, by polling.

/// The eight registers of a port.
pub trait Registers {
    /// Reads a register.
    fn read(&mut self, register: u8) -> u8;
    /// Writes a register.
    fn write(&mut self, register: u8, value: u8);
}

const DATA: u8 = 0;
const INTERRUPTS: u8 = 1;
const FIFO: u8 = 2;
const LINE: u8 = 3;
const MODEM: u8 = 4;
const STATUS: u8 = 5;
const SCRATCH: u8 = 7;

const RECEIVED: u8 = 1;
const CAN_SEND: u8 = 0x20;

/// A port that sends nothing for this many looks is not waited for: the machine must run without a listener.
const MOST_SPINS: u32 = 100_000;

/// A serial port.
pub struct Serial<R> {
    registers: R,
    present: bool,
}

impl<R: Registers> Serial<R> {
    /// A port that is not set up, and writes nothing.
    pub const fn new(registers: R) -> Self {
        Self {
            registers,
            present: false,
        }
    }

    /// Sets the port to 115200 baud, 8 bits, no parity, if there is one.
    pub fn start(&mut self) {
        self.registers.write(SCRATCH, 0x5a);
        self.present = self.registers.read(SCRATCH) == 0x5a;
        if !self.present {
            return;
        }
        for (register, value) in [
            (INTERRUPTS, 0),
            (LINE, 0x80),
            (DATA, 1),
            (INTERRUPTS, 0),
            (LINE, 3),
            (FIFO, 0xc7),
            // With the line that lets interrupts out, for bytes that come.
            (MODEM, 0xb),
            (INTERRUPTS, 1),
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
        while self.registers.read(STATUS) & CAN_SEND == 0 && spins > 0 {
            spins -= 1;
        }
        self.registers.write(DATA, byte);
    }

    /// A byte that has come, if any.
    pub fn receive(&mut self) -> Option<u8> {
        let ready = self.present && self.registers.read(STATUS) & RECEIVED != 0;
        ready.then(|| self.registers.read(DATA))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::sync::Mutex;
    use std::vec::Vec;

    /// What tests type into the one console.
    static TYPED: Mutex<VecDeque<u8>> = Mutex::new(VecDeque::new());

    pub(crate) fn type_in(text: &str) {
        TYPED.lock().unwrap().extend(text.bytes());
    }

    /// A register of the port that tests type into.
    pub(crate) fn typed(register: u8) -> u8 {
        let mut typed = TYPED.lock().unwrap();
        match register {
            DATA => typed.pop_front().unwrap_or_default(),
            STATUS if typed.is_empty() => CAN_SEND,
            STATUS => CAN_SEND | RECEIVED,
            _ => 0x5a,
        }
    }

    /// The port that tests type into.
    pub(crate) struct Typed;

    impl Registers for Typed {
        fn read(&mut self, register: u8) -> u8 {
            typed(register)
        }
        fn write(&mut self, _: u8, _: u8) {}
    }

    pub(crate) type SerialPort = Serial<Typed>;
    pub(crate) const SERIAL_PORT: SerialPort = Serial::new(Typed);

    #[derive(Default)]
    struct Fake {
        sent: Vec<u8>,
        coming: VecDeque<u8>,
        scratch: u8,
        divisor: bool,
        absent: bool,
        stuck: bool,
    }

    impl Registers for &mut Fake {
        fn read(&mut self, register: u8) -> u8 {
            match register {
                _ if self.absent => 0xff,
                DATA => self.coming.pop_front().unwrap_or(0),
                STATUS => u8::from(!self.coming.is_empty()) | if self.stuck { 0 } else { CAN_SEND },
                SCRATCH => self.scratch,
                _ => 0,
            }
        }
        fn write(&mut self, register: u8, value: u8) {
            match register {
                DATA if !self.divisor => self.sent.push(value),
                LINE => self.divisor = value & 0x80 != 0,
                SCRATCH => self.scratch = value,
                _ => {}
            }
        }
    }

    #[test]
    fn bytes_go_and_come() {
        let mut fake = Fake {
            coming: VecDeque::from(*b"ok"),
            ..Fake::default()
        };
        let mut serial = Serial::new(&mut fake);
        serial.send(b'!');
        serial.start();
        assert!(serial.is_present());
        b"hi".iter().for_each(|&byte| serial.send(byte));
        assert_eq!(serial.receive(), Some(b'o'));
        assert_eq!(serial.receive(), Some(b'k'));
        assert_eq!(serial.receive(), None);
        assert_eq!(fake.sent, b"hi");
    }

    #[test]
    fn an_absent_or_stuck_port_holds_nothing_up() {
        let mut absent = Fake {
            absent: true,
            ..Fake::default()
        };
        let mut serial = Serial::new(&mut absent);
        serial.start();
        serial.send(b'x');
        assert!(!serial.is_present());
        assert_eq!(serial.receive(), None);
        assert!(absent.sent.is_empty());

        let mut stuck = Fake {
            stuck: true,
            ..Fake::default()
        };
        let mut serial = Serial::new(&mut stuck);
        serial.start();
        serial.send(b'x');
        assert_eq!(stuck.sent, b"x");
    }
}
