//! Which pages hold what: a tree over tokens, a page to a node.
//!
//! A node's page holds the keys and values of its tokens after those of the nodes above it. Nodes have [`PAGE`] tokens;
//! a leaf can have fewer. Each [`Salt`] has a tree of its own, so that nobody finds, or can time, what another left.
//!
//! Where memory is needed, the part of a page that layers with windows see can go while the rest stays: such a node
//! lacks its windows. A sequence that ends there finds nothing to look back to; one that goes on past it, further than the windows
//! reach, does not miss it.

mod nearest;
mod states;
#[cfg(test)]
mod tests;
mod told;
mod unkept;

use crate::page_events::PageEvent;
use crate::request::{AdapterId, ClientId, Privacy, RequestId};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::ops::Bound;
use nearest::nearest;
use strata_model::{PAGE, PageId, PageLayout, PageTable, Reach, StateId};

/// Who shares pages.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Salt {
    pub(crate) client: ClientId,
    pub(crate) adapter: Option<AdapterId>,
    /// A request whose pages are for itself only.
    pub(crate) alone: Option<RequestId>,
    /// Positions of a source at the beginning, 0 without one. What is computed of it depends on all of it, so sequences share
    /// a beginning only if their sources are as long, and only past them.
    pub(crate) source: usize,
    /// Where its pages must not go.
    pub(crate) privacy: Privacy,
}

/// A node's number.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NodeId(u32);

struct Node {
    /// The node above; none for the first page of a sequence.
    parent: Option<NodeId>,
    salt: Salt,
    tokens: Box<[u32]>,
    page: PageId,
    children: Children,
    /// When it was last of use.
    used: u64,
    /// When a window last reached it; none once that part is evicted.
    seen: Option<u64>,
    /// A snapshot of the recurrent state after its last token.
    state: Option<StateId>,
    /// Whether that was taken in passing: it makes way first.
    passing: bool,
    /// A name for its tokens after those above it, for one salt.
    hash: u64,
}

/// By their tokens, in order: those that have most in common with some tokens stand next to where these would.
type Children = BTreeMap<Box<[u32]>, NodeId>;

/// What goes next, if something has to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Coldest {
    /// A leaf.
    Leaf(NodeId),
    /// A node's part for windows.
    Windows(NodeId),
}

/// The tree. It is a user of each of its pages.
pub(crate) struct PrefixTree {
    /// Positions that windows look back over, if there are any.
    window: Option<usize>,
    /// Whether a sequence can go on only from where there is a snapshot of its state.
    recurrent: bool,
    nodes: Vec<Option<Node>>,
    /// Numbers that can be used again.
    vacant: Vec<NodeId>,
    roots: BTreeMap<Salt, Children>,
    /// Nodes without children, the longest unused first.
    leaves: BTreeSet<(u64, NodeId)>,
    /// Nodes with their part for windows, the longest unseen first. Empty if there are no windows.
    sights: BTreeSet<(u64, NodeId)>,
    /// Nodes that have a snapshot.
    snapshots: BTreeSet<NodeId>,
    /// Nodes that a store, if there is one, was not offered since they got their page or their snapshot.
    unkept: Option<BTreeSet<NodeId>>,
    tick: u64,
    /// What happened to whole pages, where somebody wants to know.
    told: Option<Vec<PageEvent>>,
}

impl PrefixTree {
    /// A tree for pages of this layout. The last whole page of a sequence always counts as seen by windows: so whoever
    /// holds a sequence holds its last node as it is.
    pub(crate) fn new(layout: &PageLayout) -> Self {
        Self {
            window: layout.window().map(|window| window.max(PAGE + 1)),
            recurrent: layout.is_recurrent(),
            nodes: Vec::new(),
            vacant: Vec::new(),
            roots: BTreeMap::new(),
            leaves: BTreeSet::new(),
            sights: BTreeSet::new(),
            snapshots: BTreeSet::new(),
            unkept: None,
            tick: 0,
            told: None,
        }
    }

    /// The first position that a window reaches from the end of a sequence.
    pub(crate) fn first_seen(&self, len: usize) -> usize {
        self.window
            .map_or(0, |window| (len + 1).saturating_sub(window))
    }

    /// Pages in the tree.
    pub(crate) fn pages(&self) -> usize {
        self.nodes.len() - self.vacant.len()
    }

    /// Finds the longest beginning of `tokens`, with or without windows. `path` becomes its nodes, of which the last may be wanted
    /// in part. Gives how many positions that is.
    pub(crate) fn find(&mut self, salt: Salt, tokens: &[u32], path: &mut Vec<NodeId>) -> usize {
        self.tick += 1;
        path.clear();
        let (mut len, mut parent) = (0, None);
        while let Some(children) = self.children(salt, parent) {
            let rest = &tokens[len..];
            let exact = rest.get(..PAGE).and_then(|chunk| children.get(chunk));
            let found = match exact {
                Some(&node) => Some((node, PAGE)),
                None => nearest(children, &rest[..rest.len().min(PAGE)]),
            };
            let Some((node, positions)) = found else {
                break;
            };
            self.touch(node);
            path.push(node);
            len += positions;
            if positions < PAGE {
                break;
            }
            parent = Some(node);
        }
        self.see(&path[self.first_seen(len) / PAGE..]);
        len
    }

    /// How much of `tokens` a sequence can go on from, in whole pages.
    pub(crate) fn known(&self, salt: Salt, tokens: &[u32]) -> usize {
        let mut path = Vec::new();
        for chunk in tokens.chunks_exact(PAGE) {
            let children = self.children(salt, path.last().copied());
            let Some(&next) = children.and_then(|children| children.get(chunk)) else {
                break;
            };
            path.push(next);
        }
        self.usable(&path, path.len() * PAGE)
    }

    /// The node of a whole page after `parent`. If there was none, or one without its windows, `page` becomes its page. If its page
    /// is another, that one holds the same.
    pub(crate) fn insert(
        &mut self,
        salt: Salt,
        parent: Option<NodeId>,
        tokens: &[u32],
        page: PageId,
        table: &mut PageTable,
    ) -> (NodeId, PageId) {
        debug_assert_eq!(tokens.len(), PAGE);
        self.tick += 1;
        let known = self
            .children(salt, parent)
            .and_then(|children| children.get(tokens));
        if let Some(&node) = known {
            self.touch(node);
            if self.lacks_window(node) {
                self.refill(node, page, table);
            }
            return (node, self.node(node).page);
        }
        self.drop_beginnings(salt, parent, tokens, page, table);
        (self.add(salt, parent, tokens, page, table), page)
    }

    /// Keeps the last page of a sequence, of which only the beginning is filled, unless the tree has that already. Gives the
    /// node that ends where the sequence does.
    pub(crate) fn insert_tail(
        &mut self,
        salt: Salt,
        parent: Option<NodeId>,
        tokens: &[u32],
        page: PageId,
        table: &mut PageTable,
    ) -> Option<NodeId> {
        self.tick += 1;
        let known = self
            .children(salt, parent)
            .and_then(|children| nearest(children, tokens));
        match known {
            // A longer page has the keys and values, and another state.
            Some((node, len))
                if len == tokens.len()
                    && (!self.recurrent || self.node(node).tokens.len() == len) =>
            {
                self.touch(node);
                (self.node(node).tokens.len() == len).then_some(node)
            }
            _ => {
                self.drop_beginnings(salt, parent, tokens, page, table);
                Some(self.add(salt, parent, tokens, page, table))
            }
        }
    }

    /// What was not of use for longest and nobody but the tree holds.
    pub(crate) fn coldest(&self, table: &PageTable) -> Option<Coldest> {
        let unheld = |node: NodeId, reach| table.users(self.node(node).page, reach) == 1;
        let mut leaves = self.leaves.iter();
        let leaf = leaves.find(|&&(_, node)| unheld(node, Reach::Everything));
        let mut sights = self.sights.iter();
        let sight = sights.find(|&&(_, node)| unheld(node, Reach::Window));
        match (leaf, sight) {
            (Some(&(used, leaf)), Some(&(seen, _))) if used < seen => Some(Coldest::Leaf(leaf)),
            (_, Some(&(_, node))) => {
                let leaf = self.node(node).children.is_empty() && unheld(node, Reach::Everything);
                Some(if leaf {
                    Coldest::Leaf(node)
                } else {
                    Coldest::Windows(node)
                })
            }
            (leaf, None) => leaf.map(|&(_, leaf)| Coldest::Leaf(leaf)),
        }
    }

    /// Whether a node's part for windows is gone.
    pub(crate) fn lacks_window(&self, node: NodeId) -> bool {
        self.node(node).seen.is_none()
    }

    /// Gives a node's part for windows up.
    pub(crate) fn evict_window(&mut self, id: NodeId, table: &mut PageTable) {
        let node = self.node_mut(id);
        let page = node.page;
        if let Some(seen) = node.seen.take() {
            self.sights.remove(&(seen, id));
            table.release(page, Reach::Window);
        }
    }

    /// Gives a node without its windows another page, which holds all that its own did once.
    pub(crate) fn refill(&mut self, id: NodeId, page: PageId, table: &mut PageTable) {
        debug_assert!(self.lacks_window(id));
        table.retain(page, Reach::Everything);
        table.retain(page, Reach::Window);
        let tick = self.tick;
        let node = self.node_mut(id);
        node.seen = Some(tick);
        table.release(core::mem::replace(&mut node.page, page), Reach::Everything);
        self.sights.insert((tick, id));
    }

    /// Takes a leaf out of the tree, and nodes above it that only led to it and are of no use as an end, because they
    /// lack their windows. Gives how many they are.
    pub(crate) fn evict(&mut self, leaf: NodeId, table: &mut PageTable) -> u64 {
        let (mut next, mut evicted) = (Some(leaf), 0);
        while let Some(id) = next {
            let parent = self.node(id).parent;
            self.remove(id, table);
            evicted += 1;
            next = parent.filter(|&above| {
                let node = self.node(above);
                node.children.is_empty()
                    && node.seen.is_none()
                    && table.users(node.page, Reach::Everything) == 1
            });
        }
        evicted
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
    pub(crate) fn remove(&mut self, leaf: NodeId, table: &mut PageTable) {
        let Some(node) = self.nodes[leaf.0 as usize].take() else {
            return;
        };
        debug_assert!(node.children.is_empty(), "only leaves are removed");
        self.tell_removed(&node);
        self.leaves.remove(&(node.used, leaf));
        self.forget_unkept(leaf);
        self.vacant.push(leaf);
        if let Some(state) = node.state {
            self.snapshots.remove(&leaf);
            table.release_state(state);
        }
        if let Some(seen) = node.seen {
            self.sights.remove(&(seen, leaf));
            table.release(node.page, Reach::Window);
        }
        table.release(node.page, Reach::Everything);
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

    /// Gives up all pages of a salt that nobody but the tree holds. A sequence that holds a page holds those before it,
    /// and counts on its node.
    pub(crate) fn clear(&mut self, salt: Salt, table: &mut PageTable) {
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
            if node.children.is_empty() && table.users(node.page, Reach::Everything) == 1 {
                self.remove(id, table);
            }
        }
    }

    /// Pages that are kept for a client.
    pub(crate) fn pages_of(&self, client: ClientId) -> usize {
        let nodes = self.nodes.iter().flatten();
        nodes.filter(|node| node.salt.client == client).count()
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
        table: &mut PageTable,
    ) -> NodeId {
        table.retain(page, Reach::Everything);
        table.retain(page, Reach::Window);
        let node = Node {
            hash: self.tell_stored(salt, parent, tokens),
            parent,
            salt,
            tokens: tokens.into(),
            page,
            children: Children::new(),
            used: self.tick,
            seen: Some(self.tick),
            state: None,
            passing: false,
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
        self.add_unkept(id);
        if self.window.is_some() {
            self.sights.insert((self.tick, id));
        }
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

    /// Removes part-filled leaves that a page of `tokens` makes superfluous. Those with a snapshot are where an answer ended:
    /// they stay, unless the sequence has gone on in their own page.
    fn drop_beginnings(
        &mut self,
        salt: Salt,
        parent: Option<NodeId>,
        tokens: &[u32],
        page: PageId,
        table: &mut PageTable,
    ) {
        let Some(children) = self.children(salt, parent) else {
            return;
        };
        let below = (Bound::Unbounded, Bound::Excluded(tokens));
        let beginnings: Vec<NodeId> = children
            .range::<[u32], _>(below)
            .rev()
            .take_while(|(known, _)| known[0] == tokens[0])
            .filter(|(known, _)| known.len() < PAGE && tokens.starts_with(known))
            .map(|(_, &node)| node)
            .filter(|&id| {
                let node = self.node(id);
                node.state.is_none() || node.page == page
            })
            .collect();
        for node in beginnings {
            self.remove(node, table);
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

    /// Counts windows as having reached these nodes.
    fn see(&mut self, nodes: &[NodeId]) {
        if self.window.is_none() {
            return;
        }
        let tick = self.tick;
        for &id in nodes {
            if let Some(seen) = &mut self.node_mut(id).seen {
                let before = core::mem::replace(seen, tick);
                self.sights.remove(&(before, id));
                self.sights.insert((tick, id));
            }
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
