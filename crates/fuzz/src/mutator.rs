//! Inputs that are almost right: seeds with bytes changed, moved, repeated, cut and mixed. The format is not known; its
//! words are.

use crate::random::Random;

/// Mutants are no longer than this.
pub(crate) const LONGEST: usize = 64 << 10;
/// Changes on top of each other at most.
const MOST_CHANGES: usize = 8;

/// Numbers at which programs go wrong.
const NUMBERS: [i128; 22] = [
    0,
    1,
    -1,
    2,
    7,
    16,
    31,
    32,
    64,
    100,
    127,
    128,
    255,
    256,
    1024,
    4096,
    32767,
    65535,
    65536,
    0x7fff_ffff,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
];
/// The same as texts, with some that are no whole numbers.
const DIGITS: [&str; 14] = [
    "0",
    "-1",
    "1",
    "1e400",
    "-0.0",
    "1e-400",
    "0.5",
    "255",
    "65536",
    "2147483648",
    "4294967295",
    "9223372036854775807",
    "18446744073709551616",
    "99999999999999999999999999999999999999",
];
/// What nests in one language or another.
const BRACKETS: [&str; 8] = ["[", "(", "{", "{\"a\":", "<", "{{", "{% if 1 %}", "not "];

/// Makes mutants of a corpus.
pub(crate) struct Mutator<'a> {
    pub(crate) random: Random,
    pub(crate) words: &'a [&'static str],
}

impl Mutator<'_> {
    /// One of the corpus, changed.
    pub(crate) fn mutant(&mut self, corpus: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = self.random.pick(corpus).cloned().unwrap_or_default();
        for _ in 0..=self.random.length(MOST_CHANGES - 1) {
            self.change(&mut bytes, corpus);
        }
        bytes.truncate(LONGEST);
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        let len = bytes.len();
        let at = self.random.below(len + 1);
        match self.random.below(16) {
            0 if at < len => bytes[at] ^= 1 << self.random.below(8),
            1 if at < len => bytes[at] = self.random.next() as u8,
            2 | 3 if at < len => self.put_number(&mut bytes[at..]),
            4 if at < len => self.add(&mut bytes[at..]),
            5 => drop(bytes.drain(at..at + self.random.length(len - at))),
            6 => {
                let from = self.random.below(len + 1);
                let taken = self.random.length(len - from);
                let piece = bytes[from..from + taken].to_vec();
                insert(bytes, at, &piece);
            }
            7 => {
                let random = &mut self.random;
                let piece: Vec<u8> = (0..random.length(32))
                    .map(|_| random.next() as u8)
                    .collect();
                insert(bytes, at, &piece);
            }
            8 => bytes.truncate(at),
            9 | 10 => {
                if let Some(word) = self.random.pick(self.words) {
                    insert(bytes, at, word.as_bytes());
                }
            }
            11 => {
                if let Some(word) = self.random.pick(self.words) {
                    overwrite(bytes, at, word.as_bytes());
                }
            }
            12 => {
                if let Some(other) = self.random.pick(corpus) {
                    let from = self.random.below(other.len() + 1);
                    let taken = self.random.length(other.len() - from);
                    bytes.splice(
                        at..at + self.random.length(len - at),
                        other[from..from + taken].to_vec(),
                    );
                }
            }
            13 | 14 => self.replace_digits(bytes, at),
            15 => self.repeat(bytes, at),
            _ => bytes.push(self.random.next() as u8),
        }
    }

    /// A number in binary, of any width and either order.
    fn put_number(&mut self, place: &mut [u8]) {
        let number = *self.random.pick(&NUMBERS).unwrap_or(&0);
        let width = 1 << self.random.below(4);
        let big = self.random.below(4) == 0;
        let little = number.to_le_bytes();
        for (index, byte) in place.iter_mut().take(width).enumerate() {
            *byte = little[if big { width - 1 - index } else { index }];
        }
    }

    fn add(&mut self, place: &mut [u8]) {
        let width = (1 << self.random.below(4)).min(place.len());
        let mut little = [0; 8];
        little[..width].copy_from_slice(&place[..width]);
        let step = self.random.below(64) as u64;
        let sum = u64::from_le_bytes(little)
            .wrapping_add(step)
            .wrapping_sub(32);
        place[..width].copy_from_slice(&sum.to_le_bytes()[..width]);
    }

    /// Another number in place of the next one that is written in digits.
    fn replace_digits(&mut self, bytes: &mut Vec<u8>, at: usize) {
        let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit) else {
            return;
        };
        let start = at + start;
        let digits = bytes[start..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit());
        let end = start + digits.count();
        let number = *self.random.pick(&DIGITS).unwrap_or(&"0");
        bytes.splice(start..end, number.bytes());
    }

    /// A piece over and over, or brackets inside each other: what is linear stays quick, what is not shows.
    fn repeat(&mut self, bytes: &mut Vec<u8>, at: usize) {
        let piece = if self.random.below(2) == 0 {
            let taken = self.random.length((bytes.len() - at).min(64)).max(1);
            bytes[at..(at + taken).min(bytes.len())].to_vec()
        } else {
            self.random
                .pick(&BRACKETS)
                .unwrap_or(&"[")
                .as_bytes()
                .to_vec()
        };
        if piece.is_empty() {
            return;
        }
        let most = LONGEST.saturating_sub(bytes.len()) / piece.len();
        let times = self.random.length(most);
        insert(bytes, at, &piece.repeat(times));
    }
}

fn insert(bytes: &mut Vec<u8>, at: usize, piece: &[u8]) {
    bytes.splice(at..at, piece.iter().copied());
}

fn overwrite(bytes: &mut [u8], at: usize, piece: &[u8]) {
    for (byte, &new) in bytes[at..].iter_mut().zip(piece) {
        *byte = new;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutants_follow_from_the_seed_and_differ_from_their_parents() {
        let corpus = vec![b"{\"a\": [1, 22, 333]}".to_vec(), b"second".to_vec()];
        let run = |seed| {
            let mut mutator = Mutator {
                random: Random::new(seed),
                words: &["true", "null"],
            };
            (0..2000)
                .map(|_| mutator.mutant(&corpus))
                .collect::<Vec<_>>()
        };
        let (first, again, other) = (run(1), run(1), run(2));
        assert_eq!(first, again);
        assert_ne!(first, other);
        assert!(first.iter().all(|mutant| mutant.len() <= LONGEST));
        let same = first
            .iter()
            .filter(|mutant| corpus.contains(mutant))
            .count();
        assert!(same < 200, "{same} of 2000 are no mutants");
        assert!(first.iter().any(|mutant| mutant.len() > 10_000));
    }
}
