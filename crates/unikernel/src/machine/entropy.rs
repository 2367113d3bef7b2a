//! Numbers that nobody can guess, mixed from all the sources that a machine has.

use alloc::vec::Vec;
use strata_platform::Sha256;

/// Bytes that are asked of each source.
pub const ASKED: usize = 32;

/// Whether these are the bytes of a source: enough of them, and not the same all over.
fn counts(bytes: &[u8]) -> bool {
    let repeats = bytes.iter().all(|byte| Some(byte) == bytes.first());
    bytes.len() >= ASKED && !repeats
}

/// A number for what comes before memory and devices are there; nothing without a source.
pub fn early(time_stamp: u64, sources: [&[u8]; 2]) -> Option<u64> {
    let mut sum = Sha256::new();
    sum.update(time_stamp.to_le_bytes());
    sources.iter().for_each(|bytes| sum.update(bytes));
    let [a, b, c, d, e, f, g, h, ..] = sum.finalize();
    let known = sources.into_iter().any(counts);
    known.then_some(u64::from_le_bytes([a, b, c, d, e, f, g, h]))
}

/// What is mixed, and where it came from.
pub struct Entropy {
    sum: Sha256,
    sources: Vec<&'static str>,
    drawn: u64,
}

impl Entropy {
    /// Nothing but the time, which others may know too.
    pub fn new(time_stamp: u64) -> Self {
        let mut sum = Sha256::new();
        sum.update(time_stamp.to_le_bytes());
        Self {
            sum,
            sources: Vec::new(),
            drawn: 0,
        }
    }

    /// Mixes in what a source gave. One that gave too little, or the same byte all over, does not count as one.
    pub fn add(&mut self, source: &'static str, bytes: &[u8]) {
        self.sum.update(bytes);
        if counts(bytes) {
            self.sources.push(source);
        }
    }

    /// The sources that count.
    pub fn sources(&self) -> &[&'static str] {
        &self.sources
    }

    /// New bytes.
    pub fn bytes(&mut self) -> [u8; 32] {
        self.drawn += 1;
        let mut sum = self.sum.clone();
        sum.update(self.drawn.to_le_bytes());
        sum.finalize()
    }

    /// Two new numbers.
    pub fn draw(&mut self) -> [u64; 2] {
        let digest = self.bytes();
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&digest[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        [word(0), word(8)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_counts_and_the_clock_does_not() {
        let mut entropy = Entropy::new(1);
        assert!(entropy.sources().is_empty());
        let first = entropy.draw();
        assert_ne!(first, entropy.draw());
        assert_eq!(first, Entropy::new(1).draw());
        assert_ne!(first, Entropy::new(2).draw());
        for stuck in [&[0; ASKED][..], &[0xff; ASKED], &[], &[1, 2, 3]] {
            entropy.add("stuck", stuck);
        }
        assert!(entropy.sources().is_empty());
        let bytes: Vec<u8> = (0..ASKED as u8).collect();
        let mut other = Entropy::new(1);
        other.add("card", &bytes);
        assert_eq!(other.sources(), ["card"]);
        assert_ne!(other.draw(), first);
    }

    #[test]
    fn an_early_number_needs_a_source() {
        let bytes: Vec<u8> = (0..ASKED as u8).collect();
        for nothing in [[&[][..], &[]], [&[7; 64], &[0; ASKED]], [&bytes[1..], &[]]] {
            assert_eq!(early(1, nothing), None);
        }
        let number = early(1, [&bytes, &[]]);
        assert!(number.is_some());
        assert_ne!(number, early(2, [&bytes, &[]]));
        assert_ne!(number, early(1, [&[], &bytes[..]]).map(|n| n ^ 1));
        assert_ne!(number, early(1, [&bytes, &[1]]));
    }
}
