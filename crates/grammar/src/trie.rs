//! The tokens of a vocabulary as a tree of their bytes.

use crate::lexer::State;
use crate::parser::Parser;
use alloc::vec;
use alloc::vec::Vec;

/// A byte of tokens: the nodes of the tree lie in order, each before those below it.
#[derive(Copy, Clone, Debug)]
struct Node {
    byte: u8,
    /// How many bytes lead to it.
    depth: u16,
    /// The node after all those below it.
    next: u32,
    /// Its tokens: several may be spelled alike.
    tokens: (u32, u32),
}

/// A vocabulary's tree.
#[derive(Debug)]
pub(crate) struct Trie {
    nodes: Vec<Node>,
    tokens: Vec<u32>,
    longest: usize,
}

/// What a walk from a lexer's state finds without the parser's help.
#[derive(Debug)]
pub(crate) struct Inside {
    /// Tokens within one lexeme: token t is bit t % 32 of word t / 32.
    pub(crate) words: Vec<u32>,
    /// Nodes at which a lexeme ends, with the state before them.
    exits: Vec<(u32, State)>,
}

impl Inside {
    pub(crate) fn bytes(&self) -> usize {
        self.words.len() * 4 + self.exits.len() * 8
    }
}

impl Trie {
    /// The tree of words, those without bytes left out.
    pub(crate) fn new(words: &[Vec<u8>]) -> Self {
        let spelled = (0..words.len() as u32).filter(|id| !words[*id as usize].is_empty());
        let mut order: Vec<u32> = spelled.collect();
        order.sort_by(|a, b| words[*a as usize].cmp(&words[*b as usize]));
        let mut trie = Self {
            nodes: Vec::new(),
            tokens: order.clone(),
            longest: words.iter().map(Vec::len).max().unwrap_or(0),
        };
        let mut path: Vec<u32> = Vec::new();
        let mut before: &[u8] = &[];
        for (place, id) in order.iter().enumerate() {
            let word = &words[*id as usize];
            let common = word.iter().zip(before).take_while(|(a, b)| a == b).count();
            for done in path.drain(common..) {
                trie.nodes[done as usize].next = trie.nodes.len() as u32;
            }
            for (depth, byte) in word.iter().enumerate().skip(common) {
                path.push(trie.nodes.len() as u32);
                trie.nodes.push(Node {
                    byte: *byte,
                    depth: (depth + 1).min(u16::MAX.into()) as u16,
                    next: 0,
                    tokens: (place as u32, place as u32),
                });
            }
            if let Some(last) = path.last() {
                trie.nodes[*last as usize].tokens.1 = place as u32 + 1;
            }
            before = word;
        }
        let end = trie.nodes.len() as u32;
        path.iter()
            .for_each(|done| trie.nodes[*done as usize].next = end);
        trie
    }

    /// Bytes of the longest token.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    pub(crate) fn bytes(&self) -> usize {
        self.nodes.len() * size_of::<Node>() + self.tokens.len() * 4
    }

    fn tokens(&self, node: u32) -> &[u32] {
        let (from, to) = self.nodes[node as usize].tokens;
        &self.tokens[from as usize..to as usize]
    }

    /// The nodes below one, or all.
    fn below(&self, node: Option<u32>) -> (u32, u32) {
        match node {
            Some(node) => (node + 1, self.nodes[node as usize].next),
            None => (0, self.nodes.len() as u32),
        }
    }

    fn child(&self, node: Option<u32>, byte: u8) -> Option<u32> {
        let (mut at, end) = self.below(node);
        while at < end {
            let child = &self.nodes[at as usize];
            if child.byte == byte {
                return Some(at);
            }
            at = child.next;
        }
        None
    }

    /// The longest tokens of a text, one after the other; bytes that are no token are passed over.
    pub(crate) fn greedy(&self, bytes: &[u8]) -> Vec<u32> {
        let mut found = Vec::new();
        let mut from = 0;
        while from < bytes.len() {
            let (mut node, mut best, mut end) = (None, None, from + 1);
            for (i, byte) in bytes.iter().enumerate().skip(from) {
                node = self.child(node, *byte);
                let Some(node) = node else { break };
                if let Some(token) = self.tokens(node).first() {
                    (best, end) = (Some(*token), i + 1);
                }
            }
            found.extend(best);
            from = end;
        }
        found
    }

    /// Allows the tokens that begin a text.
    pub(crate) fn allow_prefixes(&self, text: &[u8], words: &mut [u32]) {
        let mut node = None;
        for byte in text {
            node = self.child(node, *byte);
            let Some(node) = node else { return };
            allow(words, self.tokens(node));
        }
    }

    /// Whether a token that begins with a text, and is longer, may come.
    pub(crate) fn goes_on(&self, parser: &mut Parser, text: &[u8]) -> bool {
        let mut node = None;
        for byte in text {
            node = self.child(node, *byte);
            if node.is_none() {
                return false;
            }
        }
        self.walk(parser, node, &mut |tokens| !tokens.is_empty())
    }

    /// Allows the tokens that begin with a text, which the parser has read, and go on as it says.
    pub(crate) fn allow_after(&self, parser: &mut Parser, text: &[u8], words: &mut [u32]) {
        let mut node = None;
        for byte in text {
            node = self.child(node, *byte);
            if node.is_none() {
                return;
            }
        }
        self.walk(parser, node, &mut |tokens| {
            allow(words, tokens);
            false
        });
    }

    /// Walks the nodes below one as far as the parser goes, until somebody has seen enough.
    fn walk(
        &self,
        parser: &mut Parser,
        from: Option<u32>,
        seen: &mut dyn FnMut(&[u32]) -> bool,
    ) -> bool {
        let bottom = parser.depth();
        let above = from.map_or(0, |node| self.nodes[node as usize].depth as usize);
        let (mut at, end) = self.below(from);
        let mut enough = false;
        while at < end && !enough {
            let node = &self.nodes[at as usize];
            parser.back_to(bottom + node.depth as usize - above - 1);
            if parser.push(node.byte) {
                enough = seen(self.tokens(at));
                at += 1;
            } else {
                at = node.next;
            }
        }
        parser.back_to(bottom);
        enough
    }

    /// Finds the tokens that a lexer in a state could take.
    pub(crate) fn inside(&self, parser: &mut Parser, state: State, words: usize) -> Inside {
        let mut inside = Inside {
            words: vec![0; words],
            exits: Vec::new(),
        };
        let lexer = &mut parser.lexer;
        let mut states = vec![state];
        let mut at = 0;
        while at < self.nodes.len() as u32 {
            let node = &self.nodes[at as usize];
            states.truncate(node.depth as usize);
            let before = states.last().copied().unwrap_or(state);
            let next = lexer.next(before, node.byte);
            let goes_on = next != State::DEAD;
            if goes_on && lexer.complete(next).is_empty() {
                allow(&mut inside.words, self.tokens(at));
                states.push(next);
                at += 1;
            } else {
                if goes_on || !lexer.accepting(before).is_empty() {
                    inside.exits.push((at, before));
                }
                at = node.next;
            }
        }
        inside
    }

    /// Allows the tokens with which a lexeme ends.
    pub(crate) fn allow_exits(&self, parser: &mut Parser, inside: &Inside, words: &mut [u32]) {
        let bottom = parser.depth();
        let begun = parser.position().begun;
        for (node, before) in &inside.exits {
            let first = self.nodes[*node as usize].depth == 1;
            parser.enter(*before, begun || !first);
            if parser.push(self.nodes[*node as usize].byte) {
                allow(words, self.tokens(*node));
                self.walk(parser, Some(*node), &mut |tokens| {
                    allow(words, tokens);
                    false
                });
            }
            parser.back_to(bottom);
        }
    }
}

fn allow(words: &mut [u32], tokens: &[u32]) {
    for token in tokens {
        if let Some(word) = words.get_mut(*token as usize / 32) {
            *word |= 1 << (token % 32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_tokens_are_found() {
        let words = ["a", "ab", "b", "", "abcd", "a"];
        let words: Vec<Vec<u8>> = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        let trie = Trie::new(&words);
        assert_eq!(trie.greedy(b"abcab"), [1, 1]);
        assert_eq!(trie.greedy(b"abcdb"), [4, 2]);
        let mut bits = [0];
        trie.allow_prefixes(b"abc", &mut bits);
        assert_eq!(bits, [0b10_0011]);
        assert_eq!(trie.longest(), 4);
    }
}
