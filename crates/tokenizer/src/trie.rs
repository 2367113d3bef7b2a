//! A prefix tree over tokens' bytes, for everything that looks for the tokens a text begins with.
//!
//! Nodes lie in breadth-first order, so that a node's children are neighbours and need no list of their own: node `i`
//! has the children `first[i]..first[i + 1]`, sorted by their byte.

use alloc::vec::Vec;

use super::error::TokenizerError;
use super::table::NONE;

/// The longest token a tree may hold: at each place of a text at most this many steps are taken.
pub(crate) const MAX_TOKEN_BYTES: usize = 4096;

#[derive(Clone, Debug)]
pub(crate) struct Trie {
    first: Vec<u32>,
    labels: Vec<u8>,
    values: Vec<u32>,
}

impl Trie {
    /// A tree of these tokens. Of equal ones the lowest id stays; empty ones are left out.
    pub(crate) fn new(mut tokens: Vec<(&[u8], u32)>) -> Result<Self, TokenizerError> {
        if let Some((bytes, id)) = tokens.iter().find(|(b, _)| b.len() > MAX_TOKEN_BYTES) {
            return Err(TokenizerError::TokenTooLong {
                id: *id,
                len: bytes.len(),
                limit: MAX_TOKEN_BYTES,
            });
        }
        tokens.sort_unstable();
        let mut trie = Trie {
            first: Vec::new(),
            labels: alloc::vec![0],
            values: alloc::vec![NONE],
        };
        // The tokens below each node of the level being laid out, and of the next one.
        let mut level = alloc::vec![(0, tokens.len())];
        let mut depth = 0;
        while !level.is_empty() {
            let mut next = Vec::new();
            for (start, end) in level {
                trie.first.push(trie.labels.len() as u32);
                let below = tokens.get(start..end).unwrap_or(&[]);
                let byte_at = |i: usize| below.get(i).and_then(|(b, _)| b.get(depth));
                let mut i = below.partition_point(|(b, _)| b.len() <= depth);
                while let Some(label) = byte_at(i) {
                    let from = i;
                    while byte_at(i) == Some(label) {
                        i += 1;
                    }
                    let value = below
                        .get(from)
                        .filter(|(b, _)| b.len() == depth + 1)
                        .map_or(NONE, |(_, id)| *id);
                    trie.labels.push(*label);
                    trie.values.push(value);
                    next.push((start + from, start + i));
                }
            }
            level = next;
            depth += 1;
        }
        trie.first.push(trie.labels.len() as u32);
        Ok(trie)
    }

    pub(crate) const ROOT: u32 = 0;

    /// The child of a node along a byte.
    #[inline]
    pub(crate) fn child(&self, node: u32, byte: u8) -> Option<u32> {
        let first = *self.first.get(node as usize)? as usize;
        let end = *self.first.get(node as usize + 1)? as usize;
        let labels = self.labels.get(first..end)?;
        let at = labels.binary_search(&byte).ok()?;
        Some((first + at) as u32)
    }

    /// The token that ends at a node.
    #[inline]
    pub(crate) fn value(&self, node: u32) -> Option<u32> {
        self.values
            .get(node as usize)
            .copied()
            .filter(|id| *id != NONE)
    }

    /// The tokens that `text` begins with, shortest first, with their lengths.
    pub(crate) fn prefixes<'a>(
        &'a self,
        text: &'a [u8],
    ) -> impl Iterator<Item = (usize, u32)> + 'a {
        text.iter()
            .scan(Trie::ROOT, |node, byte| {
                *node = self.child(*node, *byte)?;
                Some(*node)
            })
            .enumerate()
            .filter_map(|(i, node)| Some((i + 1, self.value(node)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_come_shortest_first_and_the_lowest_id_wins() {
        let words: [(&[u8], u32); 6] = [
            (b"abc", 3),
            (b"a", 1),
            (b"ab", 9),
            (b"ab", 2),
            (b"b", 4),
            (b"", 5),
        ];
        let trie = Trie::new(words.to_vec()).unwrap();
        let found: Vec<_> = trie.prefixes(b"abcd").collect();
        assert_eq!(found, [(1, 1), (2, 2), (3, 3)]);
        assert_eq!(trie.prefixes(b"xabc").count(), 0);
        assert_eq!(trie.prefixes(b"").count(), 0);
    }

    #[test]
    fn a_token_too_long_to_bound_the_search_is_refused() {
        let long = alloc::vec![b'a'; MAX_TOKEN_BYTES + 1];
        let error = Trie::new(alloc::vec![(&long[..], 7)]).unwrap_err();
        assert!(matches!(error, TokenizerError::TokenTooLong { id: 7, .. }));
        assert!(Trie::new(alloc::vec![(&long[1..], 7)]).is_ok());
    }
}
