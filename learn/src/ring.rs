//! How a network card and a driver talk: a ring of descriptors, and the checksum of what is in the packets.

// ANCHOR: ring
/// A packet's place in memory, and whether the card has filled it.
#[derive(Clone, Debug, Default)]
pub struct Descriptor {
    /// The bytes; a real descriptor has their address.
    pub buffer: Vec<u8>,
    /// Set by the card when the buffer holds a packet.
    pub done: bool,
}

/// Descriptors in a circle. The card fills from `head` up to `tail`; the driver takes what is done, and moves `tail`.
#[derive(Debug)]
pub struct Ring {
    descriptors: Vec<Descriptor>,
    head: usize,
    tail: usize,
    next: usize,
}

impl Ring {
    /// A ring whose descriptors all belong to the card, but one: a full ring and an empty one must differ.
    pub fn new(len: usize) -> Ring {
        assert!(len > 1, "a ring of {len}");
        Ring {
            descriptors: vec![Descriptor::default(); len],
            head: 0,
            tail: len - 1,
            next: 0,
        }
    }

    /// The card: writes a packet, or drops it when the driver has left no room.
    pub fn receive(&mut self, packet: &[u8]) -> bool {
        if self.head == self.tail {
            return false;
        }
        let descriptor = &mut self.descriptors[self.head];
        descriptor.buffer = packet.to_vec();
        descriptor.done = true;
        self.head = (self.head + 1) % self.descriptors.len();
        true
    }

    /// The driver: takes the next packet, and gives its descriptor back.
    pub fn take(&mut self) -> Option<Vec<u8>> {
        let descriptor = &mut self.descriptors[self.next];
        if !descriptor.done {
            return None;
        }
        descriptor.done = false;
        let packet = std::mem::take(&mut descriptor.buffer);
        self.tail = self.next;
        self.next = (self.next + 1) % self.descriptors.len();
        Some(packet)
    }
}
// ANCHOR_END: ring

// ANCHOR: checksum
/// The checksum of IP, TCP and UDP (RFC 1071): the complement of the sum of all 16-bit words, carries added back.
pub fn checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        let low = pair.get(1).copied().unwrap_or(0);
        sum += u32::from(u16::from_be_bytes([pair[0], low]));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
// ANCHOR_END: checksum
