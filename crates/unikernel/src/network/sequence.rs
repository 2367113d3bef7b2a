//! Sequence numbers that nobody can guess, as RFC 6528 wants them.
//!
//! The stack draws where a connection begins to count from a generator that two numbers give away. So all of a
//! connection's numbers are moved on their way out, and moved back on their way in, by a distance that its addresses, its
//! ports and a secret decide: who knows the generator and the distances of its own connections knows no other's.

use super::card::tcp_segment;
use smoltcp::wire::{TcpPacket, TcpSeqNumber};

/// The secret.
#[derive(Copy, Clone)]
pub(super) struct SequenceKey([u64; 2]);

/// The two ends of a connection: this machine's address and port, and the client's.
struct Ends([u8; 12]);

impl SequenceKey {
    pub(super) fn new(secret: [u64; 2]) -> Self {
        Self(secret)
    }

    /// Another number that follows from the secret, for the stack's generator.
    pub(super) fn seed(&self) -> u64 {
        siphash(self.0, b"generator")
    }

    /// Moves the numbers of a frame that goes out.
    pub(super) fn hide(&self, frame: &mut [u8]) {
        tcp_segment(frame, |from, to, segment| {
            let ends = Ends::new(from, segment.src_port(), to, segment.dst_port());
            let old = segment.seq_number();
            let new = self.moved(old, &ends, 1);
            segment.set_seq_number(new);
            mend(segment, old, new);
        });
    }

    /// Moves the acknowledgement of a frame that came back.
    pub(super) fn reveal(&self, frame: &mut [u8]) {
        tcp_segment(frame, |from, to, segment| {
            if !segment.ack() {
                return;
            }
            let ends = Ends::new(to, segment.dst_port(), from, segment.src_port());
            let old = segment.ack_number();
            let new = self.moved(old, &ends, -1);
            segment.set_ack_number(new);
            mend(segment, old, new);
        });
    }

    fn moved(&self, number: TcpSeqNumber, ends: &Ends, sign: i32) -> TcpSeqNumber {
        let distance = siphash(self.0, &ends.0) as i32;
        TcpSeqNumber(number.0.wrapping_add(distance.wrapping_mul(sign)))
    }
}

impl Ends {
    fn new(here: [u8; 4], port: u16, there: [u8; 4], client_port: u16) -> Self {
        let mut bytes = [0; 12];
        bytes[..4].copy_from_slice(&here);
        bytes[4..8].copy_from_slice(&there);
        bytes[8..10].copy_from_slice(&port.to_be_bytes());
        bytes[10..].copy_from_slice(&client_port.to_be_bytes());
        Self(bytes)
    }
}

/// Makes the checksum right again after a number has changed, or leaves it as wrong as it was (RFC 1624).
fn mend(segment: &mut TcpPacket<&mut [u8]>, old: TcpSeqNumber, new: TcpSeqNumber) {
    let halves = |number: u32| (number >> 16) + (number & 0xffff);
    let mut sum = u32::from(!segment.checksum()) + halves(!(old.0 as u32)) + halves(new.0 as u32);
    while sum > 0xffff {
        sum = halves(sum);
    }
    segment.set_checksum(!(sum as u16));
}

/// SipHash-2-4 of a short message.
fn siphash(key: [u64; 2], message: &[u8]) -> u64 {
    const BEGIN: [u64; 4] = [
        0x736f_6d65_7073_6575,
        0x646f_7261_6e64_6f6d,
        0x6c79_6765_6e65_7261,
        0x7465_6462_7974_6573,
    ];
    let mut v = BEGIN;
    for (i, word) in v.iter_mut().enumerate() {
        *word ^= key[i % 2];
    }
    let rounds = |v: &mut [u64; 4], count: usize| {
        for _ in 0..count {
            for (a, b, turns) in [(0, 1, 13), (2, 3, 16)] {
                v[a] = v[a].wrapping_add(v[b]);
                v[b] = v[b].rotate_left(turns) ^ v[a];
            }
            v[0] = v[0].rotate_left(32);
            for (a, b, turns) in [(2, 1, 17), (0, 3, 21)] {
                v[a] = v[a].wrapping_add(v[b]);
                v[b] = v[b].rotate_left(turns) ^ v[a];
            }
            v[2] = v[2].rotate_left(32);
        }
    };
    let mut chunks = message.chunks_exact(8);
    let mut add = |word: u64| {
        v[3] ^= word;
        rounds(&mut v, 2);
        v[0] ^= word;
    };
    for chunk in chunks.by_ref() {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        add(u64::from_le_bytes(word));
    }
    let mut last = [0; 8];
    last[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    last[7] = message.len() as u8;
    add(u64::from_le_bytes(last));
    v[2] ^= 0xff;
    rounds(&mut v, 4);
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_its_authors() {
        let bytes: std::vec::Vec<u8> = (0..15).collect();
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        assert_eq!(siphash(key, &bytes), 0xa129_ca61_49be_45e5);
        assert_eq!(siphash(key, &[]), 0x726f_db47_dd0e_0e31);
    }
}
