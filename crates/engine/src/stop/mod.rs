//! Stop strings: text is let through only when no stop string can begin in it any more.
//!
//! Aho–Corasick over bytes. The automaton's depth is the length of the longest suffix that begins a stop string: that
//! much is held back. A stop string begins with the first byte of a character, so what is let through always ends
//! between characters. The result depends on the text only, not on how it was cut into pieces.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

#[cfg(test)]
mod tests;

/// Bytes that hardly any piece of text has more of.
const LONG: usize = 64;

/// What a piece of text gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Emit<'a> {
    /// Text that is certainly before any stop string.
    pub text: &'a str,
    /// The index of the stop string that was found; everything from its first character on is dropped.
    pub stopped: Option<usize>,
}

#[derive(Debug, Clone, Default)]
struct Node {
    /// The longest proper suffix of this node's string that is a node too.
    fallback: usize,
    depth: usize,
    /// The longest stop string that ends here: its index and length.
    ends: Option<(usize, usize)>,
}

/// Finds stop strings in a stream of text pieces.
///
/// The first stop string to be *completed* wins; of several completed by the same byte, the longest, and of equal ones
/// the first in the list. Empty stop strings are ignored.
#[derive(Debug, Clone)]
pub struct StopMatcher {
    nodes: Vec<Node>,
    edges: BTreeMap<(usize, u8), usize>,
    state: usize,
    held: String,
    ready: String,
    stopped: Option<usize>,
}

impl StopMatcher {
    /// A matcher for these strings, at the start of a text.
    #[must_use]
    pub fn new<S: AsRef<str>>(stops: &[S]) -> Self {
        let mut matcher = Self {
            nodes: vec![Node::default()],
            edges: BTreeMap::new(),
            state: 0,
            held: String::with_capacity(LONG),
            ready: String::with_capacity(LONG),
            stopped: None,
        };
        for (index, stop) in stops.iter().enumerate() {
            matcher.insert(index, stop.as_ref());
        }
        matcher.link();
        matcher
    }

    fn insert(&mut self, index: usize, stop: &str) {
        let mut at = 0;
        for (i, &byte) in stop.as_bytes().iter().enumerate() {
            at = *self.edges.entry((at, byte)).or_insert_with(|| {
                self.nodes.push(Node {
                    depth: i + 1,
                    ..Node::default()
                });
                self.nodes.len() - 1
            });
        }
        if at != 0 && self.nodes[at].ends.is_none() {
            self.nodes[at].ends = Some((index, stop.len()));
        }
    }

    /// Sets the fallbacks, shallow nodes first, because each is found through its parent's.
    fn link(&mut self) {
        let mut queue = VecDeque::from([0]);
        while let Some(parent) = queue.pop_front() {
            let edges: Vec<(u8, usize)> = self
                .edges
                .range((parent, 0)..=(parent, u8::MAX))
                .map(|(&(_, byte), &child)| (byte, child))
                .collect();
            for (byte, child) in edges {
                if parent != 0 {
                    let fallback = self.step(self.nodes[parent].fallback, byte);
                    self.nodes[child].fallback = fallback;
                    // Its own stop string is longer than any that ends in its suffix.
                    if self.nodes[child].ends.is_none() {
                        self.nodes[child].ends = self.nodes[fallback].ends;
                    }
                }
                queue.push_back(child);
            }
        }
    }

    fn step(&self, mut at: usize, byte: u8) -> usize {
        loop {
            if let Some(&next) = self.edges.get(&(at, byte)) {
                return next;
            }
            if at == 0 {
                return 0;
            }
            at = self.nodes[at].fallback;
        }
    }

    /// Takes the next piece of text. After a stop everything is dropped.
    pub fn push(&mut self, piece: &str) -> Emit<'_> {
        self.ready.clear();
        if self.stopped.is_none() {
            let seen = self.held.len();
            self.held.push_str(piece);
            let mut safe = None;
            for (i, &byte) in piece.as_bytes().iter().enumerate() {
                self.state = self.step(self.state, byte);
                if let Some((index, length)) = self.nodes[self.state].ends {
                    self.stopped = Some(index);
                    safe = Some(seen + i + 1 - length);
                    break;
                }
            }
            let safe = safe.unwrap_or(self.held.len() - self.nodes[self.state].depth);
            self.ready.push_str(&self.held[..safe]);
            if self.stopped.is_some() {
                self.held.clear();
            } else {
                self.held.drain(..safe);
            }
        }
        Emit {
            text: &self.ready,
            stopped: self.stopped,
        }
    }

    /// Ends the text: gives what was held back, and makes the matcher ready for another text.
    pub fn finish(&mut self) -> &str {
        core::mem::swap(&mut self.ready, &mut self.held);
        self.held.clear();
        self.state = 0;
        self.stopped = None;
        &self.ready
    }

    /// The text held back for now, for one who wants to save the state: pushing it to a fresh matcher restores it.
    #[must_use]
    pub fn held(&self) -> &str {
        &self.held
    }

    /// The index of the stop string that was found.
    #[must_use]
    pub fn stopped(&self) -> Option<usize> {
        self.stopped
    }
}
