//! The driver against a port made of a map over the same memory.
#![allow(unsafe_code)]

use super::*;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::vec;

/// A clock on which every look takes a millisecond.
struct Slow(AtomicU64);

impl Clock for Slow {
    fn now_ns(&self) -> u64 {
        self.0.fetch_add(1_000_000, Ordering::Relaxed)
    }
}

static CLOCK: Slow = Slow(AtomicU64::new(0));

#[derive(Copy, Clone, PartialEq, Eq)]
enum Fault {
    None,
    NeverStops,
    NeverAnswers,
    FailsReads,
    OddBlocks,
    Disc,
}

/// Block `n` is filled with `n` in its bytes.
struct Fake {
    fault: Cell<Fault>,
    block_bytes: usize,
    words: RefCell<BTreeMap<usize, u32>>,
    commands: Cell<usize>,
    starts: Cell<usize>,
    /// Blocks that were written.
    written: RefCell<BTreeMap<u64, Vec<u8>>>,
    flushes: Cell<usize>,
}

// SAFETY: used by one thread at a time.
unsafe impl Send for Fake {}

const BLOCKS: u64 = 1 << 40;

impl Fake {
    fn new(fault: Fault, block_bytes: usize) -> Self {
        Self {
            fault: Cell::new(fault),
            block_bytes,
            words: RefCell::default(),
            commands: Cell::new(0),
            starts: Cell::new(0),
            written: RefCell::default(),
            flushes: Cell::new(0),
        }
    }

    fn get(&self, at: usize) -> u32 {
        self.words.borrow().get(&at).copied().unwrap_or(0)
    }

    fn set(&self, at: usize, value: u32) {
        self.words.borrow_mut().insert(at, value);
    }

    /// Does what the page says.
    fn issue(&self) {
        if self.fault.get() == Fault::NeverAnswers {
            return;
        }
        self.commands.set(self.commands.get() + 1);
        let pair = |low: u32, high: u32| (u64::from(low) | u64::from(high) << 32) as usize;
        // SAFETY: the driver's own pages, in this process.
        let header =
            unsafe { (pair(self.get(LIST), self.get(LIST + 4)) as *const [u32; 4]).read() };
        let table = pair(header[2], header[3]);
        // SAFETY: as above.
        let fis = unsafe { (table as *const [u8; 20]).read() };
        // SAFETY: as above.
        let piece = unsafe { ((table + 0x80) as *const [u32; 4]).read() };
        let (target, bytes) = (pair(piece[0], piece[1]), piece[3] as usize + 1);
        assert_eq!((fis[0], fis[1], target % 2), (0x27, 0x80, 0));
        let how = match fis[2] {
            WRITE_DMA_EXT => 5 | 1 << 6 | 1 << 16,
            FLUSH_CACHE_EXT => 5,
            _ => 5 | 1 << 16,
        };
        assert_eq!((header[0], fis[7]), (how, 0x40));
        let first = [fis[4], fis[5], fis[6], fis[8], fis[9], fis[10], 0, 0];
        let first = u64::from_le_bytes(first);
        let count = usize::from(u16::from_le_bytes([fis[12], fis[13]]));
        let mut data = vec![0u8; bytes];
        match fis[2] {
            IDENTIFY => self.identify(&mut data),
            FLUSH_CACHE_EXT => {
                self.flushes.set(self.flushes.get() + 1);
                return self.finish();
            }
            WRITE_DMA_EXT => {
                assert_eq!(count * self.block_bytes, bytes);
                let (from, to) = (target as *const u8, data.as_mut_ptr());
                // SAFETY: the source that the driver named.
                unsafe { core::ptr::copy_nonoverlapping(from, to, bytes) };
                let blocks = data.chunks(self.block_bytes).map(<[u8]>::to_vec);
                self.written.borrow_mut().extend((first..).zip(blocks));
                return self.finish();
            }
            READ_DMA_EXT => {
                assert_eq!(count * self.block_bytes, bytes);
                let written = self.written.borrow();
                for (number, block) in (first..).zip(data.chunks_mut(self.block_bytes)) {
                    match written.get(&number) {
                        Some(there) => block.copy_from_slice(there),
                        None => block.fill(number as u8),
                    }
                }
                if self.fault.get() == Fault::FailsReads {
                    self.set(TASK, 0x51);
                    self.set(INTERRUPT_STATUS, TASK_FAILED);
                    return;
                }
            }
            other => panic!("{other:#x}"),
        }
        // SAFETY: as above; the driver waits for it.
        unsafe { core::ptr::copy_nonoverlapping(data.as_ptr(), target as *mut u8, bytes) };
        self.finish();
    }

    fn finish(&self) {
        self.set(TASK, 0x50);
        self.set(ISSUED, 0);
    }

    fn identify(&self, data: &mut [u8]) {
        let mut put = |at: usize, value: u16| {
            data[2 * at..2 * at + 2].copy_from_slice(&value.to_le_bytes());
        };
        put(83, 0x4400);
        put(102, (BLOCKS >> 32) as u16);
        if self.block_bytes != 512 || self.fault.get() == Fault::OddBlocks {
            put(106, 0x5000);
            let odd = self.fault.get() == Fault::OddBlocks;
            put(
                117,
                if odd {
                    260
                } else {
                    self.block_bytes as u16 / 2
                },
            );
        }
    }
}

impl Registers for Fake {
    fn read(&self, offset: usize) -> u32 {
        match offset {
            SIGNATURE if self.fault.get() == Fault::Disc => 0xeb14_0101,
            SIGNATURE => DISK,
            _ => self.get(offset),
        }
    }
    fn write(&mut self, offset: usize, value: u32) {
        match offset {
            // One clears what was.
            INTERRUPT_STATUS | ERRORS => self.set(offset, self.get(offset) & !value),
            COMMAND => {
                let stuck = if self.fault.get() == Fault::NeverStops {
                    RUNNING
                } else {
                    0
                };
                let running = if value & START != 0 { RUNNING } else { stuck };
                let receiving = if value & RECEIVE != 0 { RECEIVING } else { 0 };
                if value & START != 0 {
                    self.starts.set(self.starts.get() + 1);
                    self.set(TASK, 0x50);
                    self.set(ISSUED, 0);
                }
                self.set(offset, value & !(RUNNING | RECEIVING) | running | receiving);
            }
            ISSUED => {
                self.set(offset, value);
                self.issue();
            }
            _ => self.set(offset, value),
        }
    }
}

fn disk(fault: Fault, block_bytes: usize) -> Result<Option<SataDisk<Fake>>, DeviceError> {
    SataDisk::new(Fake::new(fault, block_bytes), &CLOCK)
}

#[test]
fn blocks_are_read_wherever_they_go() {
    for size in [512, 4096] {
        let mut disk = disk(Fault::None, size).unwrap().unwrap();
        assert_eq!((disk.block_bytes(), disk.blocks()), (size, BLOCKS));
        let mut buffer = vec![0u8; 12 * 4096 + 1];
        // Beyond what 28 bits can name, and to an odd address.
        for (first, at) in [(5, 0), (BLOCKS - 100, 1)] {
            let out = &mut buffer[at..at + 12 * 4096];
            disk.read(first, out).unwrap();
            for (i, block) in out.chunks(size).enumerate() {
                assert!(block.iter().all(|&byte| byte == (first + i as u64) as u8));
            }
        }
        let mut large = vec![0u8; LARGEST + size];
        let before = disk.registers.commands.get();
        disk.read(0, &mut large).unwrap();
        assert_eq!(disk.registers.commands.get() - before, 2);
        assert_eq!(large[LARGEST], (LARGEST / size) as u8);
        for (block, bytes) in [(BLOCKS, size), (0, size - 1), (u64::MAX, size)] {
            let refused = disk.read(block, &mut large[..bytes]);
            assert!(matches!(refused, Err(DeviceError::Range { .. })));
        }
    }
}

#[test]
fn blocks_are_written_wherever_they_come_from_and_flushed() {
    for size in [512, 4096] {
        let mut disk = disk(Fault::None, size).unwrap().unwrap();
        let noise = |i: usize| (i.wrapping_mul(2_654_435_761) >> 9) as u8;
        let bytes: Vec<u8> = (0..LARGEST + size + 1).map(noise).collect();
        let mut written = 0;
        for (first, at, len) in [
            (BLOCKS - 100, 1, 12 * 4096),
            (5, 0, size),
            (1000, 0, LARGEST + size),
        ] {
            let bytes = &bytes[at..at + len];
            disk.write(first, bytes).unwrap();
            let mut back = vec![0; len];
            disk.read(first, &mut back).unwrap();
            assert!(back == bytes);
            written += len / size;
        }
        assert_eq!(disk.registers.written.borrow().len(), written);
        disk.flush().unwrap();
        assert_eq!(disk.registers.flushes.get(), 1);
        let refused = disk.write(BLOCKS, &bytes[..size]);
        assert!(matches!(refused, Err(DeviceError::Range { .. })));
    }
}

#[test]
fn what_fails_is_told_and_the_port_begins_anew() {
    let mut disk = disk(Fault::None, 512).unwrap().unwrap();
    disk.registers.fault.set(Fault::FailsReads);
    let (device, status) = (NAME, 0x51);
    let failed = disk.read(0, &mut [0; 512]);
    assert_eq!(failed, Err(DeviceError::Failed { device, status }));
    assert_eq!(disk.registers.starts.get(), 2);
    disk.registers.fault.set(Fault::None);
    assert_eq!(disk.read(0, &mut [0; 512]), Ok(()));
}

#[test]
fn devices_that_cannot_be_used_are_left_out() {
    assert!(disk(Fault::Disc, 512).unwrap().is_none());
    let silent = DeviceError::Silent { device: NAME };
    for fault in [Fault::NeverStops, Fault::NeverAnswers] {
        let mut fake = Fake::new(fault, 512);
        fake.write(COMMAND, START);
        assert_eq!(SataDisk::new(fake, &CLOCK).err(), Some(silent));
    }
    let odd = disk(Fault::OddBlocks, 512).err();
    assert!(matches!(odd, Some(DeviceError::Unusable { .. })), "{odd:?}");
}

/// A controller's registers, as they are written.
struct Controller(BTreeMap<usize, u32>);

impl Registers for Controller {
    fn read(&self, offset: usize) -> u32 {
        self.0.get(&offset).copied().unwrap_or(0)
    }
    fn write(&mut self, offset: usize, value: u32) {
        // Whoever had the controller gives it away when it is asked for.
        let value = if offset == HANDOFF { value & !1 } else { value };
        self.0.insert(offset, value);
    }
}

#[test]
fn connected_ports_are_found() {
    let mut controller = Controller(BTreeMap::from([
        (CAPABILITIES, WIDE_ADDRESSES),
        (CAPABILITIES_2, 1),
        (HANDOFF, 1),
        (CONTROL, INTERRUPTS),
        (PORTS, 0b10110),
        (port(1) + LINK, 0x123),
        (port(2) + LINK, 0),
        (port(3) + LINK, 0x123),
        (port(4) + LINK, 0x113),
    ]));
    assert_eq!(ports(&mut controller, &CLOCK), Ok(vec![1, 4]));
    assert_eq!(controller.read(CONTROL), AHCI_ON);
    assert_eq!(controller.read(HANDOFF), 2);
    assert_eq!(controller.read(port(2) + COMMAND), SPIN_UP_AND_POWER);
    controller.0.insert(CAPABILITIES, 0);
    let refused = ports(&mut controller, &CLOCK);
    assert!(matches!(refused, Err(DeviceError::Unusable { .. })));
    // Somebody is there and never answers.
    controller.0.insert(CAPABILITIES, WIDE_ADDRESSES);
    controller.0.insert(port(2) + LINK, PRESENT);
    assert_eq!(ports(&mut controller, &CLOCK), Ok(vec![1, 4]));
}
