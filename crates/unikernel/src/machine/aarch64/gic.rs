//! The generic interrupt controller, versions 2 and 3: what its registers are set to (Arm IHI 0048, IHI 0069).
//!
//! Interrupts of devices do nothing but wake the boot processor: no handler looks at a device, whoever wakes does. Their
//! priority is let through while the processor naps and held back while it works, so that a line that stays raised
//! cannot flood it.

use crate::drivers::Registers;

/// The interrupt with which one processor wakes the others, and the one with which a crashing one stops them.
pub const WAKE: u32 = 0;
/// See above.
pub const STOP: u32 = 1;
/// The virtual timer of each processor.
pub const TIMER: u32 = 27;
/// The first of the devices' interrupts.
pub const DEVICES: u32 = 32;
/// From here on numbers mean that there is nothing.
pub const NOTHING: u32 = 1020;

/// Lower numbers go first: what may always interrupt, and devices.
const URGENT: u32 = 0x8080_8080;
const ORDINARY: u32 = 0xc0c0_c0c0;
/// What keeps devices out, and what lets everything in.
pub const WITHOUT_DEVICES: u32 = 0xc0;
/// See above.
pub const WITH_DEVICES: u32 = 0xf0;

const CONTROL: usize = 0;
const TYPE: usize = 4;
const GROUP: usize = 0x80;
const ENABLE: usize = 0x100;
const DISABLE: usize = 0x180;
const PRIORITY: usize = 0x400;
const TARGETS: usize = 0x800;
const GENERATE: usize = 0xf00;
const ROUTE: usize = 0x6000;

/// Of a processor's interface of version 2.
const MASK: usize = 4;
const BINARY_POINT: usize = 8;
const ACKNOWLEDGE: usize = 12;
const END: usize = 16;

/// Of a redistributor: what it is, whether it sleeps, and the frame of the processor's own interrupts.
const REDISTRIBUTOR_TYPE: usize = 8;
const WAKER: usize = 0x14;
const OWN: usize = 0x1_0000;
const FRAMES: usize = 0x2_0000;
const FRAMES_WITH_VIRTUAL: usize = 0x4_0000;
const MOST_LOOKS: u32 = 100_000;

/// How many interrupts a distributor has.
fn count(distributor: &impl Registers) -> usize {
    ((distributor.read(TYPE) as usize & 31) + 1) * 32
}

/// Sets up all that devices interrupt with: their priority, and on.
fn start_devices(distributor: &mut impl Registers) {
    for first in (DEVICES as usize..count(distributor)).step_by(32) {
        for word in 0..8 {
            distributor.write(PRIORITY + first + word * 4, ORDINARY);
        }
        distributor.write(ENABLE + first / 8, u32::MAX);
    }
}

/// Sets up what is a processor's own: the timer, and what other processors send.
fn start_own(registers: &mut impl Registers, base: usize) {
    for word in 0..8 {
        registers.write(base + PRIORITY + word * 4, URGENT);
    }
    registers.write(base + DISABLE, !(1 << TIMER | 1 << WAKE | 1 << STOP));
    registers.write(base + ENABLE, 1 << TIMER | 1 << WAKE | 1 << STOP);
}

/// Version 2, whose registers are all in memory.
pub mod v2 {
    use super::*;

    /// Starts the distributor, with devices' interrupts to the processor that runs this.
    pub fn start(distributor: &mut impl Registers) {
        distributor.write(CONTROL, 0);
        // Its own entries say which one it is.
        let own = distributor.read(TARGETS) & 0xff;
        for at in (DEVICES as usize..count(distributor)).step_by(4) {
            distributor.write(TARGETS + at, own * 0x0101_0101);
        }
        start_devices(distributor);
        distributor.write(CONTROL, 1);
    }

    /// Starts a processor's part.
    pub fn start_processor(distributor: &mut impl Registers, interface: &mut impl Registers) {
        start_own(distributor, 0);
        interface.write(MASK, WITHOUT_DEVICES);
        interface.write(BINARY_POINT, 0);
        interface.write(CONTROL, 1);
    }

    /// Keeps out what is not more urgent.
    pub fn set_mask(interface: &mut impl Registers, mask: u32) {
        interface.write(MASK, mask);
    }

    /// The interrupt that there is, as [`end`] takes it; its number is in the lowest ten bits.
    pub fn acknowledge(interface: &impl Registers) -> u32 {
        interface.read(ACKNOWLEDGE)
    }

    /// Says that it was dealt with.
    pub fn end(interface: &mut impl Registers, taken: u32) {
        interface.write(END, taken);
    }

    /// Interrupts all other processors.
    pub fn send_others(distributor: &mut impl Registers, number: u32) {
        distributor.write(GENERATE, 1 << 24 | number);
    }
}

/// Version 3, whose interfaces of processors are system registers.
pub mod v3 {
    use super::*;

    /// Groups, and routing by processor.
    const GROUPS: u32 = 1 << 4 | 1 << 1 | 1;
    const BUSY: u32 = 1 << 31;

    fn settle(distributor: &impl Registers) {
        (0..MOST_LOOKS).find(|_| distributor.read(CONTROL) & BUSY == 0);
    }

    /// Starts the distributor, with devices' interrupts to a processor.
    pub fn start(distributor: &mut impl Registers, processor: u64) {
        distributor.write(CONTROL, 0);
        settle(distributor);
        for first in (DEVICES as usize..count(distributor)).step_by(32) {
            distributor.write(GROUP + first / 8, u32::MAX);
        }
        start_devices(distributor);
        distributor.write(CONTROL, GROUPS);
        settle(distributor);
        for number in DEVICES as usize..count(distributor).min(NOTHING as usize) {
            distributor.write_pair(ROUTE + number * 8, processor);
        }
    }

    /// Where a processor's redistributor is among all of them, which take so many bytes.
    pub fn find(redistributors: &impl Registers, bytes: usize, processor: u64) -> Option<usize> {
        let affinity = processor >> 8 & 0xff00_0000 | processor & 0xff_ffff;
        let mut at = 0;
        while at + FRAMES <= bytes {
            let kind = redistributors.read_pair(at + REDISTRIBUTOR_TYPE);
            if kind >> 32 == affinity {
                return Some(at);
            }
            let (is_last, has_virtual) = (kind & 1 << 4 != 0, kind & 2 != 0);
            if is_last {
                return None;
            }
            at += if has_virtual {
                FRAMES_WITH_VIRTUAL
            } else {
                FRAMES
            };
        }
        None
    }

    /// Wakes a processor's redistributor and starts what is its own.
    pub fn start_processor(redistributors: &mut impl Registers, at: usize) {
        const SLEEP: u32 = 2;
        const ASLEEP: u32 = 4;
        let waker = redistributors.read(at + WAKER);
        redistributors.write(at + WAKER, waker & !SLEEP);
        (0..MOST_LOOKS).find(|_| redistributors.read(at + WAKER) & ASLEEP == 0);
        redistributors.write(at + OWN + GROUP, u32::MAX);
        start_own(redistributors, at + OWN);
    }

    /// What is written to `ICC_SGI1R_EL1` to interrupt all other processors.
    pub fn to_others(number: u32) -> u64 {
        1 << 40 | u64::from(number) << 24
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::vec::Vec;

    /// Registers that keep what is written.
    #[derive(Default)]
    struct Fake {
        words: BTreeMap<usize, u32>,
        written: Vec<(usize, u32)>,
    }

    impl Registers for Fake {
        fn read(&self, offset: usize) -> u32 {
            self.words.get(&offset).copied().unwrap_or(0)
        }
        fn write(&mut self, offset: usize, value: u32) {
            self.words.insert(offset, value);
            self.written.push((offset, value));
        }
    }

    fn with(words: &[(usize, u32)]) -> Fake {
        Fake {
            words: words.iter().copied().collect(),
            written: Vec::new(),
        }
    }

    #[test]
    fn version_2_sends_devices_to_the_boot_processor() {
        // 64 interrupts, and this is the third processor.
        let mut distributor = with(&[(TYPE, 1), (TARGETS, 0x0404_0404)]);
        let mut interface = Fake::default();
        v2::start(&mut distributor);
        assert_eq!(distributor.read(TARGETS + 32), 0x0404_0404);
        assert_eq!(distributor.read(TARGETS + 60), 0x0404_0404);
        assert_eq!(distributor.read(TARGETS + 64), 0);
        assert_eq!(distributor.read(ENABLE + 4), u32::MAX);
        assert_eq!(distributor.read(PRIORITY + 60), ORDINARY);
        // In the group that it begins with.
        assert_eq!(distributor.read(GROUP + 4), 0);
        // Off while it is set up, and on at the end.
        assert_eq!(distributor.written.first(), Some(&(CONTROL, 0)));
        assert_eq!(distributor.written.last(), Some(&(CONTROL, 1)));
        v2::start_processor(&mut distributor, &mut interface);
        assert_eq!(distributor.read(ENABLE), 1 << TIMER | 3);
        assert_eq!(distributor.read(PRIORITY + 24), URGENT);
        assert_eq!(
            (interface.read(MASK), interface.read(CONTROL)),
            (WITHOUT_DEVICES, 1)
        );
        v2::send_others(&mut distributor, STOP);
        assert_eq!(distributor.read(GENERATE), 0x0100_0001);
        interface.words.insert(ACKNOWLEDGE, 0x401);
        let taken = v2::acknowledge(&interface);
        v2::end(&mut interface, taken);
        assert_eq!((taken & 0x3ff, interface.read(END)), (STOP, 0x401));
    }

    #[test]
    fn version_3_routes_by_processor() {
        let mut distributor = with(&[(TYPE, 2)]);
        v3::start(&mut distributor, 0x1_0000_0203);
        for (number, expected) in [(31, 0), (32, 0x203), (95, 0x203), (96, 0)] {
            assert_eq!(distributor.read(ROUTE + number * 8), expected, "{number}");
        }
        assert_eq!(distributor.read(ROUTE + 32 * 8 + 4), 1);
        assert_eq!(distributor.read(GROUP + 8), u32::MAX);
        assert_eq!(distributor.read(CONTROL), 0x13);
        assert_eq!(v3::to_others(WAKE), 1 << 40);
    }

    #[test]
    fn each_processor_finds_its_own_redistributor() {
        let mut all = with(&[
            (REDISTRIBUTOR_TYPE, 2),
            (REDISTRIBUTOR_TYPE + 4, 0),
            (FRAMES_WITH_VIRTUAL + REDISTRIBUTOR_TYPE, 0),
            (FRAMES_WITH_VIRTUAL + REDISTRIBUTOR_TYPE + 4, 1),
            (FRAMES_WITH_VIRTUAL + FRAMES + REDISTRIBUTOR_TYPE, 1 << 4),
            (
                FRAMES_WITH_VIRTUAL + FRAMES + REDISTRIBUTOR_TYPE + 4,
                0x0100_0002,
            ),
        ]);
        let bytes = 0x10_0000;
        assert_eq!(v3::find(&all, bytes, 0), Some(0));
        assert_eq!(v3::find(&all, bytes, 1), Some(FRAMES_WITH_VIRTUAL));
        let last = FRAMES_WITH_VIRTUAL + FRAMES;
        assert_eq!(v3::find(&all, bytes, 0x1_0000_0002), Some(last));
        assert_eq!(v3::find(&all, bytes, 3), None);
        assert_eq!(v3::find(&all, last, 0x1_0000_0002), None);
        assert_eq!(v3::find(&all, 0, 0), None);
        all.words.insert(last + WAKER, 2);
        v3::start_processor(&mut all, last);
        assert_eq!(all.read(last + WAKER), 0);
        assert_eq!(all.read(last + OWN + ENABLE), 1 << TIMER | 3);
    }
}
