//! Intel's gigabit cards 8254x and 82574 (e1000 and e1000e), by polling two rings of descriptors.

use super::{DeviceError, Dma, MAX_FRAME, NetDevice, Registers};
use core::sync::atomic::{Ordering, fence};
use strata_platform::Clock;

const NAME: &str = "e1000 network card";

/// The PCI device numbers of Intel's cards that work like this.
pub const DEVICES: [u16; 9] = [
    0x1004, 0x1008, 0x100c, 0x100e, 0x100f, 0x1015, 0x10d3, 0x10f6, 0x150c,
];

const CONTROL: usize = 0;
const RECEIVE_CONTROL: usize = 0x100;
const INTERRUPT_CAUSES: usize = 0xc0;
const INTERRUPTS_ON: usize = 0xd0;
const INTERRUPTS_OFF: usize = 0xd8;
const SEND_CONTROL: usize = 0x400;
const SEND_GAPS: usize = 0x410;
const RECEIVE_RING: usize = 0x2800;
const SEND_RING: usize = 0x3800;
/// From a ring's registers: its length, first and last descriptor of the device's.
const LENGTH: usize = 8;
const HEAD: usize = 0x10;
const TAIL: usize = 0x18;
const MULTICAST: usize = 0x5200;
const ADDRESS: usize = 0x5400;

const RESET: u32 = 1 << 26;
const LINK_UP: u32 = 1 << 6;
/// Link reset, inverted loss of signal, VLANs.
const UNWANTED: u32 = 1 << 3 | 1 << 7 | 1 << 30 | 1 << 31;
/// On, broadcasts too, buffers of 2048 bytes, without the checksum.
const RECEIVE_ON: u32 = 1 << 1 | 1 << 15 | 1 << 26;
/// On, short frames padded, the standard's collision values.
const SEND_ON: u32 = 1 << 1 | 1 << 3 | 0xf << 4 | 0x40 << 12;
/// End of packet, insert the checksum, report when done.
const SEND_FRAME: u32 = 0xb << 24;

/// A frame, too many frames, or few places left for them.
const FRAME_CAME: u32 = 1 << 7 | 1 << 6 | 1 << 4;

const DONE: u32 = 1;
const END_OF_PACKET: u32 = 2;

const ENTRIES: usize = 128;
const BUFFER: usize = 2048;
const DESCRIPTOR: usize = 16;

/// Descriptors, each with a buffer.
struct Ring {
    descriptors: Dma,
    buffers: Dma,
    next: usize,
}

impl Ring {
    fn new() -> Result<Self, DeviceError> {
        let memory = |bytes| Dma::new(bytes).ok_or(DeviceError::NoMemory { device: NAME });
        let mut ring = Self {
            descriptors: memory(ENTRIES * DESCRIPTOR)?,
            buffers: memory(ENTRIES * BUFFER)?,
            next: 0,
        };
        for entry in 0..ENTRIES {
            let buffer = ring.buffers.address() + (entry * BUFFER) as u64;
            ring.descriptors.write_pair(entry * DESCRIPTOR, buffer);
        }
        Ok(ring)
    }

    fn start(&self, registers: &mut impl Registers, at: usize) {
        registers.write_pair(at, self.descriptors.address());
        registers.write(at + LENGTH, (ENTRIES * DESCRIPTOR) as u32);
        registers.write(at + HEAD, 0);
        registers.write(at + TAIL, 0);
    }

    fn status(&self, entry: usize) -> u32 {
        self.descriptors.read(entry * DESCRIPTOR + 12)
    }

    fn advance(&mut self) {
        self.next = (self.next + 1) % ENTRIES;
    }
}

/// A card.
pub struct E1000<R> {
    registers: R,
    received: Ring,
    sent: Ring,
    address: [u8; 6],
}

impl<R: Registers> E1000<R> {
    /// Starts a card.
    pub fn new(mut registers: R, clock: &dyn Clock) -> Result<Self, DeviceError> {
        registers.write(INTERRUPTS_OFF, u32::MAX);
        registers.write(CONTROL, registers.read(CONTROL) | RESET);
        let start = clock.now_ns();
        // The manual asks for a microsecond; the card then loads its address, which takes about a millisecond.
        while clock.now_ns().saturating_sub(start) < 3_000_000 {
            core::hint::spin_loop();
        }
        registers.write(INTERRUPTS_OFF, u32::MAX);
        registers.write(CONTROL, (registers.read(CONTROL) | LINK_UP) & !UNWANTED);
        let address = registers.read_pair(ADDRESS).to_le_bytes();
        let [address @ .., _, _] = address;
        if address == [0; 6] || address == [0xff; 6] {
            let why = "it has no Ethernet address";
            return Err(DeviceError::Unusable { device: NAME, why });
        }
        (0..128).for_each(|word| registers.write(MULTICAST + word * 4, 0));
        let (received, mut sent) = (Ring::new()?, Ring::new()?);
        // What was never used is free.
        (0..ENTRIES).for_each(|entry| sent.descriptors.write(entry * DESCRIPTOR + 12, DONE));
        received.start(&mut registers, RECEIVE_RING);
        sent.start(&mut registers, SEND_RING);
        fence(Ordering::SeqCst);
        registers.write(SEND_GAPS, 10 | 8 << 10 | 6 << 20);
        registers.write(SEND_CONTROL, SEND_ON);
        registers.write(RECEIVE_CONTROL, RECEIVE_ON);
        registers.write(RECEIVE_RING + TAIL, ENTRIES as u32 - 1);
        registers.write(INTERRUPTS_ON, FRAME_CAME);
        Ok(Self {
            registers,
            received,
            sent,
            address,
        })
    }
}

impl<R: Registers> NetDevice for E1000<R> {
    fn name(&self) -> &'static str {
        NAME
    }
    fn address(&self) -> [u8; 6] {
        self.address
    }

    fn acknowledge(&mut self) {
        // Reading tells the causes, and forgets them.
        self.registers.read(INTERRUPT_CAUSES);
    }

    fn receive(&mut self, frame: &mut [u8; MAX_FRAME]) -> Option<usize> {
        // At most once around, past frames that are damaged or do not fit.
        for _ in 0..ENTRIES {
            let entry = self.received.next;
            let status = self.received.status(entry);
            if status & DONE == 0 {
                return None;
            }
            fence(Ordering::Acquire);
            let len = self.received.descriptors.read(entry * DESCRIPTOR + 8) as usize & 0xffff;
            let whole = status & END_OF_PACKET != 0 && status >> 8 & 0xff == 0;
            let good = whole && (1..=MAX_FRAME).contains(&len);
            if good {
                let buffer = &self.received.buffers;
                buffer.copy_to(entry * BUFFER, &mut frame[..len]);
            }
            let descriptors = &mut self.received.descriptors;
            descriptors.write(entry * DESCRIPTOR + 12, 0);
            fence(Ordering::SeqCst);
            self.registers.write(RECEIVE_RING + TAIL, entry as u32);
            self.received.advance();
            if good {
                return Some(len);
            }
        }
        None
    }

    fn can_send(&mut self) -> bool {
        // One stays free, because a ring that is full looks empty to the card.
        let after = (self.sent.next + 1) % ENTRIES;
        self.sent.status(self.sent.next) & self.sent.status(after) & DONE != 0
    }

    fn send(&mut self, frame: &[u8]) -> Result<(), DeviceError> {
        if frame.is_empty() || frame.len() > MAX_FRAME {
            let bytes = frame.len();
            return Err(DeviceError::Frame { bytes });
        }
        if !self.can_send() {
            return Ok(());
        }
        let entry = self.sent.next;
        self.sent.buffers.copy_from(entry * BUFFER, frame);
        let descriptors = &mut self.sent.descriptors;
        descriptors.write(entry * DESCRIPTOR + 12, 0);
        descriptors.write(entry * DESCRIPTOR + 8, SEND_FRAME | frame.len() as u32);
        fence(Ordering::SeqCst);
        self.sent.advance();
        self.registers
            .write(SEND_RING + TAIL, self.sent.next as u32);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
