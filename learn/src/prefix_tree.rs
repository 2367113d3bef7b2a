//! A tree of computed prompts: what several requests begin with is computed once.

use std::collections::HashMap;

use crate::pages::{PAGE, Pages};

// ANCHOR: prefix_tree
/// A full page of tokens behind the pages before it.
#[derive(Debug)]
struct Node {
    key: (Option<usize>, Vec<u32>),
    page: usize,
    children: usize,
    last_used: u64,
}

/// The pages of earlier prompts, found by their tokens.
#[derive(Debug, Default)]
pub struct PrefixTree {
    nodes: HashMap<usize, Node>,
    by_tokens: HashMap<(Option<usize>, Vec<u32>), usize>,
    next: usize,
    clock: u64,
}

impl PrefixTree {
    /// The pages that a prompt's beginning has already; the caller becomes one more user of each.
    pub fn find(&mut self, prompt: &[u32], pages: &mut Pages) -> Vec<usize> {
        self.clock += 1;
        let (mut found, mut parent) = (Vec::new(), None);
        for tokens in prompt.chunks_exact(PAGE) {
            let Some(&id) = self.by_tokens.get(&(parent, tokens.to_vec())) else {
                break;
            };
            if let Some(node) = self.nodes.get_mut(&id) {
                node.last_used = self.clock;
                pages.share(node.page);
                found.push(node.page);
            }
            parent = Some(id);
        }
        found
    }

    /// Keeps the full pages of a prompt that was computed; the tree becomes a user of those that are new to it.
    pub fn insert(&mut self, prompt: &[u32], computed: &[usize], pages: &mut Pages) {
        self.clock += 1;
        let mut parent = None;
        for (tokens, &page) in prompt.chunks_exact(PAGE).zip(computed) {
            let key = (parent, tokens.to_vec());
            let known = self.by_tokens.get(&key).copied();
            let id = known.unwrap_or_else(|| {
                let id = self.next;
                self.next += 1;
                pages.share(page);
                if let Some(above) = parent.and_then(|id| self.nodes.get_mut(&id)) {
                    above.children += 1;
                }
                self.by_tokens.insert(key.clone(), id);
                let node = Node {
                    key,
                    page,
                    children: 0,
                    last_used: self.clock,
                };
                self.nodes.insert(id, node);
                id
            });
            parent = Some(id);
        }
    }

    /// Gives up the page that was not used for the longest time, has nothing behind it, and has no other user.
    pub fn evict(&mut self, pages: &mut Pages) -> bool {
        let leaves = self
            .nodes
            .iter()
            .filter(|(_, node)| node.children == 0 && pages.users(node.page) == 1);
        let Some((&id, _)) = leaves.min_by_key(|(id, node)| (node.last_used, **id)) else {
            return false;
        };
        if let Some(node) = self.nodes.remove(&id) {
            self.by_tokens.remove(&node.key);
            if let Some(above) = node.key.0.and_then(|id| self.nodes.get_mut(&id)) {
                above.children -= 1;
            }
            pages.release(node.page);
        }
        true
    }
}
// ANCHOR_END: prefix_tree
