//! Bytes that no expression tells apart, taken together.

use super::{Arena, ByteSet};
use alloc::vec::Vec;

/// The letters of an arena's expressions and all their derivatives.
#[derive(Clone)]
pub(crate) struct Alphabet {
    letters: [u8; 256],
    /// A byte of each letter, and how many there are.
    bytes: Vec<(u8, u16)>,
    /// Nodes of the arena that were looked at.
    seen: usize,
}

impl Alphabet {
    pub(crate) fn new(arena: &Arena) -> Self {
        let mut alphabet = Self {
            letters: [0; 256],
            bytes: Vec::from([(0, 256)]),
            seen: 0,
        };
        // Digits and the point tell multiples.
        for byte in b".0123456789" {
            alphabet.cut(&ByteSet::of(&[*byte]));
        }
        alphabet.refine(arena);
        alphabet
    }

    /// Takes in the expressions that are new.
    pub(crate) fn refine(&mut self, arena: &Arena) {
        for set in arena.byte_sets(self.seen) {
            self.cut(&set);
        }
        self.seen = arena.len();
    }

    /// Cuts each letter in what a set has of it and what it has not.
    fn cut(&mut self, set: &ByteSet) {
        if self.bytes.len() == 256 {
            return;
        }
        let mut inside = [0u16; 256];
        for byte in set.iter() {
            inside[self.letter(byte)] += 1;
        }
        let mut fresh = [None; 256];
        for byte in set.iter() {
            let letter = self.letter(byte);
            if inside[letter] < self.bytes[letter].1 {
                let new = *fresh[letter].get_or_insert_with(|| {
                    self.bytes.push((byte, inside[letter]));
                    self.bytes.len() - 1
                });
                self.letters[byte as usize] = new as u8;
            }
        }
        for (letter, new) in fresh.iter().enumerate() {
            if new.is_some() {
                self.bytes[letter].1 -= inside[letter];
                let mut rest = 0..=255u8;
                let first = rest.find(|byte| self.letter(*byte) == letter);
                self.bytes[letter].0 = first.unwrap_or_default();
            }
        }
    }

    /// How many letters there are.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The letter of a byte.
    pub(crate) fn letter(&self, byte: u8) -> usize {
        self.letters[byte as usize] as usize
    }

    /// A byte of a letter.
    pub(crate) fn byte(&self, letter: usize) -> Option<u8> {
        self.bytes.get(letter).map(|(byte, _)| *byte)
    }

    /// How many bytes a letter has.
    pub(crate) fn size(&self, letter: usize) -> usize {
        self.bytes[letter].1 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_what_sets_tell_apart() {
        let mut arena = Arena::new();
        arena.bytes_of(ByteSet::range(b'a', b'm'));
        arena.bytes_of(ByteSet::range(b'k', b'z'));
        let alphabet = Alphabet::new(&arena);
        let same = |a: u8, b: u8| alphabet.letter(a) == alphabet.letter(b);
        assert!(same(b'a', b'j') && same(b'k', b'm') && same(b'n', b'z') && same(0, 255));
        assert!(!same(b'j', b'k') && !same(b'm', b'n') && !same(b'a', b'A') && !same(b'0', b'1'));
        let sizes: usize = (0..alphabet.len())
            .map(|letter| alphabet.size(letter))
            .sum();
        assert_eq!(sizes, 256);
        for letter in 0..alphabet.len() {
            assert_eq!(alphabet.letter(alphabet.byte(letter).unwrap()), letter);
        }
    }
}
