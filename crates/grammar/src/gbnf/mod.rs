//! llama.cpp's grammars, GBNF (`grammars/README.md` there), cut into terminals.
//!
//! GBNF is about characters; matching is about terminals, of which the longest that matches is taken. Made of single
//! characters, a grammar would mean the same but cost a step of the parser for each character of each token. So parts
//! without recursion become terminals, as large as they can be while no text is lost by taking the longest
//! ([`terminals`]).

mod alphabet;
mod parser;
mod terminals;

use crate::error::CompileError;
use crate::limits::Limits;
use alloc::vec::Vec;
use hashbrown::HashMap;

pub use terminals::Terminals;

const KIND: &str = "GBNF grammar";

/// Characters, from and to.
pub type Ranges = Vec<(u32, u32)>;

/// A part of a grammar, by its place in [`Grammar::nodes`].
pub type NodeId = usize;

/// A part of a grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// One character of a set.
    Chars(Ranges),
    /// What a rule says.
    Rule(usize),
    /// One after the other.
    Seq(Vec<NodeId>),
    /// One of several.
    Alt(Vec<NodeId>),
    /// Again and again; without end if there is no second number.
    Repeat(NodeId, u32, Option<u32>),
}

/// Rules over nodes.
#[derive(Debug, Default)]
pub struct Grammar {
    /// The parts.
    pub nodes: Vec<Node>,
    /// What each rule says.
    pub rules: Vec<NodeId>,
    /// The rule that an answer follows.
    pub root: usize,
    /// The node of each set of characters: a long text has few that differ.
    sets: HashMap<Ranges, NodeId>,
}

impl Grammar {
    fn add(&mut self, node: Node) -> NodeId {
        let new = self.nodes.len();
        if let Node::Chars(ranges) = &node {
            if let Some(same) = self.sets.get(ranges) {
                return *same;
            }
            self.sets.insert(ranges.clone(), new);
        }
        self.nodes.push(node);
        new
    }

    /// Whether a part is nothing but the empty text.
    pub fn is_empty(&self, node: NodeId) -> bool {
        match &self.nodes[node] {
            Node::Chars(_) => false,
            Node::Rule(rule) => self.is_empty(self.rules[*rule]),
            Node::Seq(items) | Node::Alt(items) => items.iter().all(|item| self.is_empty(*item)),
            Node::Repeat(item, _, most) => *most == Some(0) || self.is_empty(*item),
        }
    }

    /// The nodes that a node is made of, rules aside.
    fn children(&self, node: NodeId) -> &[NodeId] {
        match &self.nodes[node] {
            Node::Chars(_) | Node::Rule(_) => &[],
            Node::Seq(children) | Node::Alt(children) => children,
            Node::Repeat(child, ..) => core::slice::from_ref(child),
        }
    }
}

/// What choosing terminals may take.
pub struct Effort<'a> {
    /// Asked now and then whether to go on.
    pub check: &'a dyn Fn() -> Result<(), CompileError>,
    /// States of automata that may be looked at.
    pub most: u64,
}

/// Reads a grammar and chooses its terminals.
pub fn read(
    source: &str,
    limits: &Limits,
    effort: &Effort<'_>,
) -> Result<(Grammar, Terminals), CompileError> {
    let grammar = parser::parse(source, limits)?;
    let terminals = terminals::choose(&grammar, effort)?;
    Ok((grammar, terminals))
}
