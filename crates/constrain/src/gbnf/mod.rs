//! llama.cpp's grammars, GBNF (`grammars/README.md` there), rewritten as Lark.
//!
//! GBNF is about characters; Lark is about terminals, and the longest one that matches is taken. Made of single
//! characters, a grammar would mean the same but cost a step of the parser for each character of each token. So parts
//! without recursion become terminals, as large as they can be while no text is lost by taking the longest
//! ([`terminals`]).

mod alphabet;
mod parser;
mod terminals;
mod writer;

use std::collections::HashMap;

use crate::error::CompileError;
use crate::limits::Limits;

const KIND: &str = "GBNF grammar";

/// Characters, from and to.
type Ranges = Vec<(u32, u32)>;

/// A part of a grammar, by its place in [`Grammar::nodes`].
type NodeId = usize;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Node {
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
struct Grammar {
    nodes: Vec<Node>,
    /// What each rule says.
    rules: Vec<NodeId>,
    root: usize,
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

    /// The nodes that a node is made of, rules aside.
    fn children(&self, node: NodeId) -> &[NodeId] {
        match &self.nodes[node] {
            Node::Chars(_) | Node::Rule(_) => &[],
            Node::Seq(children) | Node::Alt(children) => children,
            Node::Repeat(child, ..) => std::slice::from_ref(child),
        }
    }
}

/// The same grammar in Lark.
pub(crate) fn to_lark(source: &str, limits: &Limits) -> Result<String, CompileError> {
    let grammar = parser::parse(source, limits)?;
    let terminals = terminals::choose(&grammar, limits.deadline())?;
    Ok(writer::write(&grammar, &terminals))
}

#[cfg(test)]
mod tests {
    use super::to_lark;
    use crate::limits::Limits;

    fn lark(source: &str) -> String {
        to_lark(source, &Limits::default()).unwrap()
    }

    #[test]
    fn a_grammar_without_recursion_is_one_terminal() {
        let written = lark("root ::= \"a\" x+\nx ::= [b-d] | \"ee\"");
        assert_eq!(written.lines().count(), 2, "{written}");
    }

    #[test]
    fn what_runs_into_what_follows_is_taken_apart_and_the_rest_is_not() {
        let source = "root ::= x\nx ::= name y | text\ny ::= \"b\" | \"(\" y \")\"\n\
                      name ::= [a-c]+\ntext ::= \"'\" [^']* \"'\"";
        let written = lark(source);
        let text = r"[\x{27}-\x{27}](?:[\x{0}-\x{26}\x{28}-\x{10ffff}]){0,}[\x{27}-\x{27}]";
        assert!(written.contains(&format!("/{text}/")), "{written}");
        assert!(
            !written.contains("/(?:[\\x{61}-\\x{63}]){1,}/"),
            "{written}"
        );
        assert!(written.contains("/[\\x{61}-\\x{63}]/"), "{written}");
    }
}
