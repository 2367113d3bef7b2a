//! The interrupt controller of a Raspberry Pi 2 or 3 (BCM2836 ARM-local peripherals): timers and mailboxes of each
//! processor. Devices interrupt nobody.

use crate::drivers::Registers;

const TIMER_CONTROL: usize = 0x40;
const MAILBOX_CONTROL: usize = 0x50;
const SOURCE: usize = 0x60;
const MAILBOX_SET: usize = 0x80;
const MAILBOX_CLEAR: usize = 0xc0;

/// The virtual timer, as a bit of [`source`].
pub const TIMER: u32 = 1 << 3;
/// The mailbox by which processors call each other.
pub const MAILBOX: u32 = 1 << 4;
const PROCESSORS: usize = 4;

/// Lets the timer and the first mailbox interrupt a processor.
pub fn start_processor(registers: &mut impl Registers, processor: usize) {
    registers.write(TIMER_CONTROL + processor % PROCESSORS * 4, TIMER);
    registers.write(MAILBOX_CONTROL + processor % PROCESSORS * 4, 1);
}

/// What interrupts a processor.
pub fn source(registers: &impl Registers, processor: usize) -> u32 {
    registers.read(SOURCE + processor % PROCESSORS * 4)
}

/// Puts bits into the mailboxes of all other processors.
pub fn send_others(registers: &mut impl Registers, processor: usize, bits: u32) {
    for other in (0..PROCESSORS).filter(|&other| other != processor) {
        registers.write(MAILBOX_SET + other * 16, bits);
    }
}

/// Empties a processor's mailbox, and gives what was in it.
pub fn receive(registers: &mut impl Registers, processor: usize) -> u32 {
    let at = MAILBOX_CLEAR + processor % PROCESSORS * 16;
    let bits = registers.read(at);
    registers.write(at, bits);
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mailboxes as they are: bits are set at one place, and seen and cleared at another.
    struct Fake([u32; 0x100 / 4]);

    impl Registers for Fake {
        fn read(&self, offset: usize) -> u32 {
            self.0[offset / 4]
        }
        fn write(&mut self, offset: usize, value: u32) {
            match offset {
                MAILBOX_SET..MAILBOX_CLEAR => self.0[(offset + 0x40) / 4] |= value,
                MAILBOX_CLEAR.. => self.0[offset / 4] &= !value,
                _ => self.0[offset / 4] = value,
            }
        }
    }

    #[test]
    fn all_others_are_called() {
        let mut registers = Fake([0; 64]);
        start_processor(&mut registers, 2);
        assert_eq!((registers.0[0x48 / 4], registers.0[0x58 / 4]), (TIMER, 1));
        send_others(&mut registers, 2, 5);
        assert_eq!(
            [0, 1, 2, 3].map(|n| receive(&mut registers, n)),
            [5, 5, 0, 5]
        );
        assert_eq!([0, 1, 2, 3].map(|n| receive(&mut registers, n)), [0; 4]);
        registers.0[SOURCE / 4 + 1] = MAILBOX;
        assert_eq!(source(&registers, 1), MAILBOX);
    }
}
