//! Numbers that nobody can guess, mixed from all the sources that a machine has.

use alloc::vec::Vec;
use strata_platform::Sha256;

/// Bytes that are asked of each source.
pub const ASKED: usize = 32;

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
        let repeats = bytes.iter().all(|byte| Some(byte) == bytes.first());
        if bytes.len() >= ASKED && !repeats {
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
}
