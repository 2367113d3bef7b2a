//! The driver against a card that loops frames back.
#![allow(unsafe_code)]

use super::*;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::vec;
use std::vec::Vec;

struct Slow(AtomicU64);

impl Clock for Slow {
    fn now_ns(&self) -> u64 {
        self.0.fetch_add(100_000, Ordering::Relaxed)
    }
}

#[derive(Default)]
struct Card {
    words: BTreeMap<usize, u32>,
    sent: VecDeque<Vec<u8>>,
    received: usize,
    /// The card has stopped sending.
    stuck: bool,
    done: usize,
}

impl Card {
    fn word(&self, at: usize) -> usize {
        self.words.get(&at).copied().unwrap_or(0) as usize
    }

    fn descriptor(&self, ring: usize, entry: usize) -> *mut u32 {
        let base = self.word(ring) | self.word(ring + 4) << 32;
        (base + entry * DESCRIPTOR) as *mut u32
    }

    /// Sends what the driver has put into its ring.
    fn send(&mut self) {
        while !self.stuck && self.done != self.word(SEND_RING + TAIL) {
            let at = self.descriptor(SEND_RING, self.done);
            // SAFETY: the driver's ring and buffer, in this process.
            unsafe {
                let buffer = at.read() as usize | (at.add(1).read() as usize) << 32;
                let word = at.add(2).read();
                assert_eq!(word >> 24, 0xb);
                let len = word as usize & 0xffff;
                let frame = core::slice::from_raw_parts(buffer as *const u8, len).to_vec();
                self.sent.push_back(frame);
                at.add(3).write(DONE);
            }
            self.done = (self.done + 1) % ENTRIES;
        }
    }

    /// Lets a frame come; false if the driver has left no room.
    fn deliver(&mut self, frame: &[u8], status: u32) -> bool {
        if self.received == self.word(RECEIVE_RING + TAIL) {
            return false;
        }
        let at = self.descriptor(RECEIVE_RING, self.received);
        // SAFETY: as above; buffers have 2048 bytes.
        unsafe {
            let buffer = at.read() as usize | (at.add(1).read() as usize) << 32;
            let len = frame.len().min(BUFFER);
            core::ptr::copy_nonoverlapping(frame.as_ptr(), buffer as *mut u8, len);
            at.add(2).write(frame.len() as u32);
            at.add(3).write(status);
        }
        self.received = (self.received + 1) % ENTRIES;
        true
    }
}

#[derive(Clone)]
struct Fake(Arc<Mutex<Card>>);

impl Registers for Fake {
    fn read(&self, offset: usize) -> u32 {
        self.0.lock().unwrap().word(offset) as u32
    }
    fn write(&mut self, offset: usize, value: u32) {
        let mut card = self.0.lock().unwrap();
        card.words.insert(offset, value);
        if offset == SEND_RING + TAIL {
            card.send();
        }
    }
}

fn card(address: u64) -> (Fake, Result<E1000<Fake>, DeviceError>) {
    let fake = Fake(Arc::default());
    {
        let words = &mut fake.0.lock().unwrap().words;
        words.insert(ADDRESS, address as u32);
        words.insert(ADDRESS + 4, (address >> 32) as u32 | 1 << 31);
    }
    let driver = E1000::new(fake.clone(), &Slow(AtomicU64::new(0)));
    (fake, driver)
}

const WHOLE: u32 = DONE | END_OF_PACKET;

#[test]
fn frames_go_and_come_many_times_around() {
    let (fake, driver) = card(0x0000_5634_1200_5452);
    let mut driver = driver.unwrap();
    assert_eq!(driver.address(), [0x52, 0x54, 0, 0x12, 0x34, 0x56]);
    let mut frame = [0; MAX_FRAME];
    assert_eq!(driver.receive(&mut frame), None);
    for round in 0..1000usize {
        let sent: Vec<u8> = (0..1 + round * 7 % MAX_FRAME)
            .map(|i| (i + round) as u8)
            .collect();
        assert!(driver.can_send());
        driver.send(&sent).unwrap();
        let mut card = fake.0.lock().unwrap();
        let looped = card.sent.pop_front().unwrap();
        assert!(card.deliver(&looped, WHOLE));
        drop(card);
        let len = driver.receive(&mut frame).unwrap();
        assert_eq!(frame[..len], sent);
        assert_eq!(driver.receive(&mut frame), None);
    }
}

#[test]
fn damaged_frames_are_passed_over_and_a_flood_is_survived() {
    let (fake, driver) = card(0x1234);
    let mut driver = driver.unwrap();
    let mut frame = [0; MAX_FRAME];
    for (bytes, status) in [
        (60, DONE),
        (60, WHOLE | 1 << 8),
        (0, WHOLE),
        (65_535, WHOLE),
        (1519, WHOLE),
    ] {
        assert!(fake.0.lock().unwrap().deliver(&vec![1; bytes], status));
    }
    assert!(fake.0.lock().unwrap().deliver(&[7; 60], WHOLE));
    assert_eq!(driver.receive(&mut frame), Some(60));
    assert_eq!(frame[0], 7);
    let flood = (0..1000)
        .filter(|_| fake.0.lock().unwrap().deliver(&[9; 64], WHOLE))
        .count();
    assert!(flood < ENTRIES);
    let taken = core::iter::from_fn(|| driver.receive(&mut frame)).count();
    assert_eq!(taken, flood);
    assert!(
        fake.0.lock().unwrap().deliver(&[9; 64], WHOLE),
        "there is room again"
    );
}

#[test]
fn a_card_that_stops_sending_loses_frames_and_nothing_else() {
    let (fake, driver) = card(0x1234);
    let mut driver = driver.unwrap();
    fake.0.lock().unwrap().stuck = true;
    for _ in 0..300 {
        driver.send(&[1; 60]).unwrap();
    }
    assert!(!driver.can_send());
    let mut card = fake.0.lock().unwrap();
    card.stuck = false;
    card.send();
    drop(card);
    assert!(driver.can_send());
    assert_eq!(driver.send(&[]), Err(DeviceError::Frame { bytes: 0 }));
    assert_eq!(
        driver.send(&[0; 1519]),
        Err(DeviceError::Frame { bytes: 1519 })
    );
}

#[test]
fn a_card_without_an_address_is_not_used() {
    assert!(matches!(
        card(0).1.err(),
        Some(DeviceError::Unusable { .. })
    ));
}
