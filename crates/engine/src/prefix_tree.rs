//! Which pages hold what: a tree over tokens, a page to a node.
//!
//! A node's page holds the keys and values of its tokens after those of the nodes above it. Nodes have [`PAGE`] tokens;
//! a leaf can have fewer. Each [`Salt`] has a tree of its own, so that nobody finds, or can time, what another left.

#[cfg(test)]
mod tests;

use crate::request::{AdapterId, ClientId, RequestId};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::Bound;
use strata_model::{KvPages, PAGE, PageId};

/// Who shares pages.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Salt {
    pub(crate) client: ClientId,
    pub(crate) adapter: Option<AdapterId>,
    /// A request whose pages are for itself only.
    pub(crate) alone: Option<RequestId>,
}

/// A node's number.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeId(u32);

struct Node {
    /// The node above; none for the first page of a text.
    parent: Option<NodeId>,
    salt: Salt,
    tokens: Box<[u32]>,
    page: PageId,
    children: Children,
    /// When it was last of use.
    used: u64,
}

/// By their tokens, in order: those that have most in common with some tokens stand next to where these would.
type Children = BTreeMap<Box<[u32]>, NodeId>;

/// What was found of a text.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Positions.
    pub(crate) len: usize,
    /// The node of the last whole page.
    pub(crate) node: Option<NodeId>,
}

/// The tree. It is a user of each of its pages.
#[derive(Default)]
pub(crate) struct PrefixTree {
    nodes: Vec<Option<Node>>,
    /// Numbers that can be used again.
    vacant: Vec<NodeId>,
    roots: BTreeMap<Salt, Children>,
    /// Nodes without children, the longest unused first.
    leaves: BTreeSet<(u64, NodeId)>,
    tick: u64,
}

impl PrefixTree {
    /// Pages in the tree.
    pub(crate) fn pages(&self) -> usize {
        self.nodes.len() - self.vacant.len()
    }

    /// Finds the longest beginning of `tokens`; its pages are added to `pages`, of which the last may be wanted in part.
    pub(crate) fn find(&mut self, salt: Salt, tokens: &[u32], pages: &mut Vec<PageId>) -> Found {
        self.tick += 1;
        let mut found = Found::default();
        loop {
            let rest = &tokens[found.len..];
            let Some(children) = self.children(salt, found.node) else {
                return found;
            };
            let exact = rest.get(..PAGE).and_then(|chunk| children.get(chunk));
            let (node, len) = match exact {
                Some(&node) => (node, PAGE),
                None => match nearest(children, &rest[..rest.len().min(PAGE)]) {
                    Some(best) => best,
                    None => return found,
                },
            };
            self.touch(node);
            pages.push(self.node(node).page);
            found.len += len;
            if len < PAGE {
                return found;
            }
            found.node = Some(node);
        }
    }

    /// How much of `tokens` is known, in whole pages.
    pub(crate) fn known(&self, salt: Salt, tokens: &[u32]) -> usize {
        let (mut len, mut node) = (0, None);
        for chunk in tokens.chunks_exact(PAGE) {
            let children = self.children(salt, node);
            let Some(&next) = children.and_then(|children| children.get(chunk)) else {
                break;
            };
            node = Some(next);
            len += PAGE;
        }
        len
    }

    /// The node of a whole page after `parent`. If there was none, `page` becomes its page. If its page is another,
    /// that one holds the same.
    pub(crate) fn insert(
        &mut self,
        salt: Salt,
        parent: Option<NodeId>,
        tokens: &[u32],
        page: PageId,
        kv: &mut KvPages,
    ) -> (NodeId, PageId) {
        debug_assert_eq!(tokens.len(), PAGE);
        self.tick += 1;
        let known = self
            .children(salt, parent)
            .and_then(|children| children.get(tokens));
        if let Some(&node) = known {
            self.touch(node);
            return (node, self.node(node).page);
        }
        self.drop_beginnings(salt, parent, tokens, kv);
        (self.add(salt, parent, tokens, page, kv), page)
    }

    /// Keeps the last page of a text, of which only the beginning is filled, unless the tree has that already.
    pub(crate) fn insert_tail(
        &mut self,
        salt: Salt,
        parent: Option<NodeId>,
        tokens: &[u32],
        page: PageId,
        kv: &mut KvPages,
    ) {
        self.tick += 1;
        let known = self
            .children(salt, parent)
            .and_then(|children| nearest(children, tokens));
        match known {
            Some((node, len)) if len == tokens.len() => self.touch(node),
            _ => {
                self.drop_beginnings(salt, parent, tokens, kv);
                self.add(salt, parent, tokens, page, kv);
            }
        }
    }

    /// The leaf that was not of use for longest and that nobody but the tree holds.
    pub(crate) fn coldest(&self, kv: &KvPages) -> Option<NodeId> {
        let leaves = self.leaves.iter().map(|&(_, node)| node);
        leaves
            .into_iter()
            .find(|&node| kv.users(self.node(node).page) == 1)
    }

    /// A node's salt, and the tokens of the nodes above it and of itself, from the first.
    pub(crate) fn path(&self, node: NodeId) -> (Salt, Vec<&[u32]>) {
        let mut chunks = Vec::new();
        let mut at = Some(node);
        while let Some(id) = at {
            let node = self.node(id);
            chunks.push(&*node.tokens);
            at = node.parent;
        }
        chunks.reverse();
        (self.node(node).salt, chunks)
    }

    /// A node's page.
    pub(crate) fn page(&self, node: NodeId) -> PageId {
        self.node(node).page
    }

    /// All nodes.
    pub(crate) fn all(&self) -> impl Iterator<Item = NodeId> {
        (0..self.nodes.len() as u32)
            .map(NodeId)
            .filter(|id| self.nodes[id.0 as usize].is_some())
    }

    /// Takes a leaf out of the tree and gives its page up.
    pub(crate) fn remove(&mut self, leaf: NodeId, kv: &mut KvPages) {
        let Some(node) = self.nodes[leaf.0 as usize].take() else {
            return;
        };
        debug_assert!(node.children.is_empty(), "only leaves are removed");
        self.leaves.remove(&(node.used, leaf));
        self.vacant.push(leaf);
        kv.release(node.page);
        match node.parent {
            Some(parent) => {
                let above = self.node_mut(parent);
                above.children.remove(&node.tokens);
                if above.children.is_empty() {
                    let used = above.used;
                    self.leaves.insert((used, parent));
                }
            }
            None => {
                if let Some(children) = self.roots.get_mut(&node.salt) {
                    children.remove(&node.tokens);
                    if children.is_empty() {
                        self.roots.remove(&node.salt);
                    }
                }
            }
        }
    }

    /// Gives up all pages of a salt that nobody but the tree holds. A text that holds a page holds those before it,
    /// and counts on its node.
    pub(crate) fn clear(&mut self, salt: Salt, kv: &mut KvPages) {
        let mut nodes: Vec<NodeId> = match self.roots.get(&salt) {
            Some(children) => children.values().copied().collect(),
            None => return,
        };
        let mut at = 0;
        while let Some(&id) = nodes.get(at) {
            nodes.extend(self.node(id).children.values());
            at += 1;
        }
        // Children before their parents.
        for &id in nodes.iter().rev() {
            let node = self.node(id);
            if node.children.is_empty() && kv.users(node.page) == 1 {
                self.remove(id, kv);
            }
        }
    }

    /// All salts.
    pub(crate) fn salts(&self) -> Vec<Salt> {
        self.roots.keys().copied().collect()
    }

    fn add(
        &mut self,
        salt: Salt,
        parent: Option<NodeId>,
        tokens: &[u32],
        page: PageId,
        kv: &mut KvPages,
    ) -> NodeId {
        kv.retain(page);
        let node = Node {
            parent,
            salt,
            tokens: tokens.into(),
            page,
            children: Children::new(),
            used: self.tick,
        };
        let id = match self.vacant.pop() {
            Some(id) => {
                self.nodes[id.0 as usize] = Some(node);
                id
            }
            None => {
                self.nodes.push(Some(node));
                NodeId(self.nodes.len() as u32 - 1)
            }
        };
        self.leaves.insert((self.tick, id));
        match parent {
            Some(parent) => {
                let above = self.node_mut(parent);
                above.children.insert(tokens.into(), id);
                let used = above.used;
                self.leaves.remove(&(used, parent));
            }
            None => {
                self.roots
                    .entry(salt)
                    .or_default()
                    .insert(tokens.into(), id);
            }
        }
        id
    }

    /// Removes part-filled leaves that the page of `tokens` makes superfluous.
    fn drop_beginnings(
        &mut self,
        salt: Salt,
        parent: Option<NodeId>,
        tokens: &[u32],
        kv: &mut KvPages,
    ) {
        loop {
            let below = (Bound::Unbounded, Bound::Excluded(tokens));
            let before = self
                .children(salt, parent)
                .and_then(|children| children.range::<[u32], _>(below).next_back());
            match before {
                Some((known, &node)) if known.len() < PAGE && tokens.starts_with(known) => {
                    self.remove(node, kv);
                }
                _ => return,
            }
        }
    }

    fn children(&self, salt: Salt, parent: Option<NodeId>) -> Option<&Children> {
        match parent {
            Some(parent) => Some(&self.node(parent).children),
            None => self.roots.get(&salt),
        }
    }

    fn touch(&mut self, id: NodeId) {
        let tick = self.tick;
        let node = self.node_mut(id);
        let used = core::mem::replace(&mut node.used, tick);
        if node.children.is_empty() {
            self.leaves.remove(&(used, id));
            self.leaves.insert((tick, id));
        }
    }

    fn node(&self, id: NodeId) -> &Node {
        self.nodes[id.0 as usize]
            .as_ref()
            .expect("a node that is in the tree")
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        self.nodes[id.0 as usize]
            .as_mut()
            .expect("a node that is in the tree")
    }
}

/// The child that has most tokens in common with some, if any, and how many.
fn nearest(children: &Children, tokens: &[u32]) -> Option<(NodeId, usize)> {
    let from = (Bound::Included(tokens), Bound::Unbounded);
    let to = (Bound::Unbounded, Bound::Excluded(tokens));
    let after = children.range::<[u32], _>(from).next();
    let before = children.range::<[u32], _>(to).next_back();
    let common = |known: &[u32]| known.iter().zip(tokens).take_while(|(a, b)| a == b).count();
    let after = after.map(|(known, &node)| (node, common(known)));
    let before = before.map(|(known, &node)| (node, common(known)));
    let best = match (after, before) {
        (Some(a), Some(b)) if b.1 > a.1 => Some(b),
        (Some(a), _) => Some(a),
        (None, b) => b,
    };
    best.filter(|&(_, len)| len > 0)
}
