//! The driver against a disk made of closures over the same memory.
#![allow(unsafe_code)]

use super::*;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::vec;
use std::vec::Vec;

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
    NeverReady,
    Fatal,
    NeverAnswers,
    FailsReads,
    OddBlocks,
}

/// Block `n` is filled with `n` in its bytes.
struct Fake {
    fault: Fault,
    block_shift: u8,
    largest: u8,
    blocks: u64,
    words: RefCell<BTreeMap<usize, u32>>,
    done: [Cell<usize>; 2],
    reads: Cell<usize>,
    /// Blocks that were written.
    written: RefCell<BTreeMap<u64, Vec<u8>>>,
    flushes: Cell<usize>,
}

// SAFETY: used by one thread at a time.
unsafe impl Send for Fake {}

impl Fake {
    fn new(fault: Fault) -> Self {
        Self {
            fault,
            block_shift: 9,
            largest: 5,
            blocks: 10_000,
            words: RefCell::default(),
            done: Default::default(),
            reads: Cell::new(0),
            written: RefCell::default(),
            flushes: Cell::new(0),
        }
    }

    fn word(&self, offset: usize) -> u64 {
        self.words
            .borrow()
            .get(&offset)
            .copied()
            .unwrap_or(0)
            .into()
    }

    fn pair(&self, offset: usize) -> usize {
        (self.word(offset) | self.word(offset + 4) << 32) as usize
    }

    /// Does what the submission says, and completes it.
    fn ring(&self, queue: usize) {
        if self.fault == Fault::NeverAnswers {
            return;
        }
        let done = self.done[queue].get();
        self.done[queue].set(done + 1);
        let (submissions, completions) = match queue {
            0 => (self.pair(ADMIN_SUBMISSIONS), self.pair(ADMIN_COMPLETIONS)),
            _ => (self.pair(0x9000), self.pair(0x9010)),
        };
        // SAFETY: the driver's own queues, in this process.
        let entry: [u32; 16] =
            unsafe { ((submissions + done % ENTRIES * 64) as *const [u32; 16]).read_volatile() };
        let page = |at: usize| entry[at] as usize | (entry[at + 1] as usize) << 32;
        let status = match (queue, entry[0] & 0xff) {
            (0, IDENTIFY) => self.identify(page(6), entry[10]),
            (0, CREATE_COMPLETIONS) => self.remember(0x9010, page(6)),
            (0, CREATE_SUBMISSIONS) => self.remember(0x9000, page(6)),
            (1, READ | WRITE) => self.transfer(page(6), page(8), &entry),
            (1, FLUSH) => {
                assert_eq!(entry[1], 1);
                self.flushes.set(self.flushes.get() + 1);
                0
            }
            other => panic!("{other:?}"),
        };
        let phase = (done / ENTRIES + 1) as u32 & 1;
        let at = completions + done % ENTRIES * 16 + 12;
        // SAFETY: as above.
        unsafe { (at as *mut u32).write_volatile(status << 17 | phase << 16) };
    }

    fn remember(&self, at: usize, page: usize) -> u32 {
        self.words.borrow_mut().insert(at, page as u32);
        self.words.borrow_mut().insert(at + 4, (page >> 32) as u32);
        0
    }

    fn identify(&self, target: usize, what: u32) -> u32 {
        let mut page = vec![0u8; PAGE];
        if what == 1 {
            page[77] = self.largest;
        } else {
            page[..8].copy_from_slice(&self.blocks.to_le_bytes());
            page[26] = 2;
            page[128 + 2 * 4 + 2] = if self.fault == Fault::OddBlocks {
                3
            } else {
                self.block_shift
            };
        }
        // SAFETY: the driver's own page.
        unsafe { core::ptr::copy_nonoverlapping(page.as_ptr(), target as *mut u8, PAGE) };
        0
    }

    fn transfer(&self, first: usize, second: usize, entry: &[u32; 16]) -> u32 {
        self.reads.set(self.reads.get() + 1);
        if self.fault == Fault::FailsReads {
            return 0x281;
        }
        let block = u64::from(entry[10]) | u64::from(entry[11]) << 32;
        let size = 1usize << self.block_shift;
        let bytes = (entry[12] as usize + 1) * size;
        assert!(self.largest == 0 || bytes <= PAGE << self.largest);
        let mut pages = vec![(first, PAGE - first % PAGE)];
        let rest = bytes.saturating_sub(pages[0].1).div_ceil(PAGE);
        for i in 0..rest {
            let page = match rest {
                1 => second,
                // SAFETY: the driver's list.
                _ => unsafe { (second as *const usize).add(i).read_volatile() },
            };
            assert_eq!(page % PAGE, 0);
            pages.push((page, PAGE));
        }
        if entry[0] & 0xff == WRITE {
            let mut data = vec![0; bytes];
            let mut rest = &mut data[..];
            for (page, room) in pages {
                let (part, after) = rest.split_at_mut(room.min(rest.len()));
                let from = page as *const u8;
                // SAFETY: the source that the driver named.
                unsafe { core::ptr::copy_nonoverlapping(from, part.as_mut_ptr(), part.len()) };
                rest = after;
            }
            let blocks = data.chunks(size).map(<[u8]>::to_vec);
            self.written.borrow_mut().extend((block..).zip(blocks));
            return 0;
        }
        let written = self.written.borrow();
        let data: Vec<u8> = (block..block + (bytes / size) as u64)
            .flat_map(|block| {
                let there = written.get(&block).cloned();
                there.unwrap_or_else(|| vec![block as u8; size])
            })
            .collect();
        let mut data = &data[..];
        for (page, room) in pages {
            let part = room.min(data.len());
            // SAFETY: the target that the driver named.
            unsafe { core::ptr::copy_nonoverlapping(data.as_ptr(), page as *mut u8, part) };
            data = &data[part..];
        }
        0
    }
}

impl Registers for Fake {
    fn read(&self, offset: usize) -> u32 {
        match offset {
            STATUS => match (self.fault, self.word(CONFIGURATION) & 1) {
                (Fault::NeverReady, _) => 0,
                (Fault::Fatal, 1) => FATAL,
                (_, on) => on as u32,
            },
            _ => self.word(offset) as u32,
        }
    }
    fn write(&mut self, offset: usize, value: u32) {
        self.words.borrow_mut().insert(offset, value);
        match offset {
            0x1000 => self.ring(0),
            0x1008 => self.ring(1),
            _ => {}
        }
    }
}

fn check(disk: &mut Nvme<Fake>, block: u64, blocks: usize, shift: usize) {
    let size = disk.block_bytes();
    let mut buffer = vec![0xee; blocks * size + shift + 64];
    disk.read(block, &mut buffer[shift..shift + blocks * size])
        .unwrap();
    let read = &buffer[shift..];
    assert!((0..blocks).all(|b| {
        read[b * size..][..size]
            .iter()
            .all(|&x| x == (block + b as u64) as u8)
    }));
    assert!(buffer[..shift].iter().all(|&x| x == 0xee));
    assert!(read[blocks * size..].iter().all(|&x| x == 0xee));
}

#[test]
fn blocks_are_read_into_any_memory() {
    for (block_shift, largest) in [(9, 5), (12, 0), (9, 1), (12, 2)] {
        let mut fake = Fake::new(Fault::None);
        (fake.block_shift, fake.largest) = (block_shift, largest);
        let mut disk = Nvme::new(fake, &CLOCK).unwrap();
        assert_eq!(
            (disk.block_bytes(), disk.blocks()),
            (1 << block_shift, 10_000)
        );
        for (block, blocks) in [(0, 1), (3, 9), (100, 900), (9_990, 10)] {
            for shift in [0, 4, 1, 2048] {
                check(&mut disk, block, blocks, shift);
            }
        }
    }
}

#[test]
fn blocks_are_written_from_any_memory_and_flushed() {
    for (block_shift, largest) in [(9, 5), (12, 0), (9, 1), (12, 2)] {
        let mut fake = Fake::new(Fault::None);
        (fake.block_shift, fake.largest) = (block_shift, largest);
        let mut disk = Nvme::new(fake, &CLOCK).unwrap();
        let size = disk.block_bytes();
        for (block, blocks) in [(0, 1), (3, 9), (100, 900), (9_990, 10)] {
            for shift in [0, 4, 1, 2048] {
                let noise = |i: usize| (i.wrapping_mul(2_654_435_761) >> 9) as u8 ^ shift as u8;
                let bytes: Vec<u8> = (0..blocks * size + shift).map(noise).collect();
                disk.write(block, &bytes[shift..]).unwrap();
                let mut back = vec![0; blocks * size];
                disk.read(block, &mut back).unwrap();
                assert!(back == bytes[shift..]);
            }
        }
        // Nothing else.
        assert_eq!(disk.registers.written.borrow().len(), 1 + 9 + 900 + 10);
        check(&mut disk, 12, 80, 0);
        disk.flush().unwrap();
        assert_eq!(disk.registers.flushes.get(), 1);
        let (block, bytes) = (10_000, size);
        let refused = Err(DeviceError::Range { block, bytes });
        assert_eq!(disk.write(block, &vec![0; size]), refused);
    }
}

#[test]
fn large_reads_take_few_requests() {
    let mut fake = Fake::new(Fault::None);
    fake.largest = 0;
    let mut disk = Nvme::new(fake, &CLOCK).unwrap();
    check(&mut disk, 0, 8192, 64);
    assert!(
        disk.registers.reads.get() <= 4,
        "{}",
        disk.registers.reads.get()
    );
}

#[test]
fn requests_outside_of_the_disk_are_refused() {
    let mut disk = Nvme::new(Fake::new(Fault::None), &CLOCK).unwrap();
    for (block, bytes) in [(10_000, 512), (9_999, 1024), (0, 100), (u64::MAX, 512)] {
        let mut out = vec![0; bytes];
        assert_eq!(
            disk.read(block, &mut out),
            Err(DeviceError::Range { block, bytes })
        );
    }
    assert_eq!(disk.read(0, &mut []), Ok(()));
}

#[test]
fn a_broken_disk_is_an_error_and_no_hang() {
    let start = |fault| Nvme::new(Fake::new(fault), &CLOCK).map(|_| ());
    let silent = Err(DeviceError::Silent { device: NAME });
    assert_eq!(start(Fault::NeverReady), silent);
    assert_eq!(start(Fault::NeverAnswers), silent);
    let status = FATAL;
    assert_eq!(
        start(Fault::Fatal),
        Err(DeviceError::Failed {
            device: NAME,
            status
        })
    );
    assert!(matches!(
        start(Fault::OddBlocks),
        Err(DeviceError::Unusable { .. })
    ));
    let mut disk = Nvme::new(Fake::new(Fault::FailsReads), &CLOCK).unwrap();
    let status = 0x281;
    let failed = Err(DeviceError::Failed {
        device: NAME,
        status,
    });
    assert_eq!(disk.read(0, &mut [0; 512]), failed);
}
