//! DRY's sequence breakers from text: the token sequences that spell it, whichever token it begins in.

use alloc::vec;
use alloc::vec::Vec;

/// Longer tails are cut: the breaker is then found a little early.
const MAX_TAIL: usize = 20;

/// The token sequences that contain a text: each token that has all of it inside, and each token that ends with its
/// beginning, followed by the tokens of the rest. `vocabulary` gives every token with its bytes, and `tokenize` the
/// tokens of a text without any special ones.
///
/// Scans the vocabulary: make them once for a model and a list of texts, not for each request.
pub fn breakers<'a>(
    text: &str,
    vocabulary: impl IntoIterator<Item = (u32, &'a [u8])>,
    mut tokenize: impl FnMut(&str) -> Vec<u32>,
) -> Vec<Vec<u32>> {
    let bytes = text.as_bytes();
    let mut sequences = Vec::new();
    if bytes.is_empty() {
        return sequences;
    }
    for (token, piece) in vocabulary {
        if piece.windows(bytes.len()).any(|window| window == bytes) {
            sequences.push(vec![token]);
            continue;
        }
        for length in 1..=piece.len().min(bytes.len() - 1) {
            // A rest that begins inside a character is no text.
            let Some(rest) = text.get(length..) else {
                continue;
            };
            if piece.ends_with(&bytes[..length]) {
                let mut sequence = vec![token];
                sequence.extend(tokenize(rest).into_iter().take(MAX_TAIL));
                sequences.push(sequence);
            }
        }
    }
    sequences.sort_unstable();
    sequences.dedup();
    sequences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_begin_a_breaker_is_found() {
        let pieces = ["a", "b", "ab", "xaba", "aab", "ba", "é", "bab!"];
        let vocabulary = || (0..).zip(pieces.iter().map(|p| p.as_bytes()));
        let letters = |rest: &str| {
            let token = |c: char| pieces.iter().position(|&p| p.starts_with(c)).unwrap() as u32;
            rest.chars().map(token).collect()
        };
        let found = breakers("abab", vocabulary(), letters);
        let expected: [&[u32]; 6] = [
            &[0, 1, 0, 1],
            &[2, 0, 1],
            &[3, 1],
            &[3, 1, 0, 1],
            &[4, 0, 1],
            &[5, 1, 0, 1],
        ];
        assert_eq!(found, expected);
        assert_eq!(
            breakers("b!", vocabulary(), letters_none),
            [[1], [2], [4], [7]]
        );
        assert!(breakers("", vocabulary(), letters_none).is_empty());
        // The first byte of é is the start of è: a rest of half a character is passed over.
        let half: &[u8] = &[0xC3];
        assert!(breakers("è", [(9, half)], letters_none).is_empty());
    }

    fn letters_none(_: &str) -> Vec<u32> {
        Vec::new()
    }
}
