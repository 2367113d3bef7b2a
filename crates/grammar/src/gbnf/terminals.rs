//! Which parts of a grammar become terminals.
//!
//! Where several terminals may come, the longest that matches is taken. That loses a text only if some terminal could
//! have ended where another, or itself, still goes on: a text w of T, then a character c that may follow T, while w and c
//! begin a text of U. Such a U is taken apart, down to single characters if need be, until there is none.

use super::alphabet::{Alphabet, Automaton, Set, copies};
use super::{Effort, Grammar, KIND, Node, NodeId};
use crate::error::CompileError;
use alloc::vec;
use alloc::vec::Vec;
use hashbrown::{HashMap, HashSet};

/// A part with more characters than this, rules written out, is no terminal.
const LARGEST: usize = 1000;

/// Nor is one that has more when its repetitions are, too.
const LONGEST: usize = 1 << 16;

/// States of all automata together, about a hundred bytes each; parts that would need more are taken apart.
const STATES: usize = 100_000;

/// Steps for finding out which terminals run into each other; beyond them, all do.
const STEPS: usize = 200_000;

/// The parts that are terminals.
#[derive(Debug)]
pub struct Terminals {
    /// The parts, each with whether it matches the empty text.
    pub parts: HashMap<NodeId, bool>,
    /// Rules that are not parts of terminals.
    pub rules: Vec<usize>,
}

pub(super) fn choose(grammar: &Grammar, effort: &Effort<'_>) -> Result<Terminals, CompileError> {
    let check = effort.check;
    let mut work = effort.most;
    let alphabet = Alphabet::new(grammar);
    let sizes = Sizes::of(grammar);
    let mut apart: HashSet<NodeId> = HashSet::new();
    let mut steps = STEPS;
    let mut automata: HashMap<NodeId, Automaton> = HashMap::new();
    loop {
        check()?;
        let mut terminals = Terminals {
            parts: HashMap::new(),
            rules: Vec::new(),
        };
        terminals.visit(grammar, &sizes, &apart, grammar.rules[grammar.root]);
        let mut at = 0;
        while let Some(rule) = terminals.rules.get(at).copied() {
            at += 1;
            check()?;
            terminals.visit(grammar, &sizes, &apart, grammar.rules[rule]);
        }
        let mut states: usize = automata.values().map(Automaton::len).sum();
        let known = apart.len();
        let mut parts: Vec<_> = terminals.parts.iter_mut().collect();
        parts.sort_unstable_by_key(|(part, _)| **part);
        for (part, nullable) in parts {
            let single = matches!(grammar.nodes[*part], Node::Chars(_));
            let more = sizes.0[*part].map_or(0, |size| size.states);
            if !automata.contains_key(part) && !single && states.saturating_add(more) > STATES {
                apart.insert(*part);
                continue;
            }
            let automaton = automata.entry(*part).or_insert_with(|| {
                states = states.saturating_add(more);
                Automaton::new(grammar, &alphabet, *part)
            });
            *nullable = automaton.is_nullable();
        }
        if apart.len() > known {
            continue;
        }
        let follow = follow(grammar, &terminals, &automata, check)?;
        let before = apart.len();
        let single = |part: &NodeId| matches!(grammar.nodes[*part], Node::Chars(_));
        // Parts that can be taken apart.
        let whole = terminals.parts.keys().copied();
        let whole = whole.filter(|part| !single(part) && !apart.contains(part));
        let whole: Vec<NodeId> = whole.collect();
        if whole.len().saturating_mul(terminals.parts.len()) > STEPS {
            apart.extend(whole);
            continue;
        }
        for (part, follow) in &follow {
            check()?;
            for other in &whole {
                if !apart.contains(other)
                    && automata[part].runs_into(&automata[other], follow, (&mut steps, &mut work))
                {
                    apart.insert(*other);
                }
                if work == 0 {
                    let (kind, limit) = (KIND, effort.most);
                    return Err(CompileError::TooComplex { kind, limit });
                }
            }
        }
        if apart.len() == before {
            return Ok(terminals);
        }
    }
}

impl Terminals {
    fn visit(&mut self, grammar: &Grammar, sizes: &Sizes, apart: &HashSet<NodeId>, node: NodeId) {
        let small =
            sizes.0[node].is_some_and(|size| size.written <= LARGEST && size.repeated <= LONGEST);
        match &grammar.nodes[node] {
            Node::Chars(_) => {
                self.parts.insert(node, false);
            }
            Node::Rule(rule) if !small || apart.contains(&grammar.rules[*rule]) => {
                if !self.rules.contains(rule) {
                    self.rules.push(*rule);
                }
            }
            // One terminal for all the places that use the rule.
            Node::Rule(rule) => self.visit(grammar, sizes, apart, grammar.rules[*rule]),
            _ if small && !apart.contains(&node) => {
                self.parts.insert(node, false);
            }
            _ => {
                for child in grammar.children(node) {
                    self.visit(grammar, sizes, apart, *child);
                }
            }
        }
    }
}

/// How large each part is when its rules are written out; none where that has no end.
struct Sizes(Vec<Option<Size>>);

#[derive(Clone, Copy)]
struct Size {
    /// The characters to write down.
    written: usize,
    /// The characters of its texts.
    repeated: usize,
    /// The states of its automaton, about.
    states: usize,
}

impl Sizes {
    fn of(grammar: &Grammar) -> Self {
        // Sizes are found from the inside out, so a part that is never reached is recursive.
        let mut sizes: Vec<Option<Size>> = vec![None; grammar.nodes.len()];
        loop {
            let mut grown = false;
            for node in 0..grammar.nodes.len() {
                if sizes[node].is_none() {
                    sizes[node] = Self::one(grammar, &sizes, node);
                    grown |= sizes[node].is_some();
                }
            }
            if !grown {
                return Sizes(sizes);
            }
        }
    }

    fn one(grammar: &Grammar, sizes: &[Option<Size>], node: NodeId) -> Option<Size> {
        let mut size = Size {
            written: 1,
            repeated: 1,
            states: 2,
        };
        match &grammar.nodes[node] {
            Node::Chars(ranges) => size.written = ranges.len(),
            Node::Rule(rule) => return sizes[grammar.rules[*rule]],
            Node::Repeat(item, least, most) => {
                let times = most.unwrap_or(0).max(*least).max(1);
                size = sizes[*item]?;
                size.repeated = size.repeated.saturating_mul(times as usize);
                let copies = copies(*least, *most) as usize;
                size.states = size.states.saturating_mul(copies).saturating_add(1);
            }
            Node::Seq(items) | Node::Alt(items) => {
                for item in items {
                    let item = sizes[*item]?;
                    size.written = size.written.saturating_add(item.written);
                    size.repeated = size.repeated.saturating_add(item.repeated);
                    size.states = size.states.saturating_add(item.states);
                }
            }
        }
        Some(size)
    }
}

/// What may follow each terminal.
fn follow(
    grammar: &Grammar,
    terminals: &Terminals,
    automata: &HashMap<NodeId, Automaton>,
    check: &dyn Fn() -> Result<(), CompileError>,
) -> Result<HashMap<NodeId, Set>, CompileError> {
    let mut flow = Flow {
        grammar,
        terminals,
        automata,
        first: vec![(Set::default(), false); grammar.nodes.len()],
        follow: vec![Set::default(); grammar.nodes.len()],
    };
    let roots: Vec<NodeId> = terminals
        .rules
        .iter()
        .chain([&grammar.root])
        .map(|rule| grammar.rules[*rule])
        .collect();
    while roots
        .iter()
        .fold(false, |grown, root| flow.first(*root) | grown)
    {
        check()?;
    }
    while roots
        .iter()
        .fold(false, |grown, root| flow.follow(*root) | grown)
    {
        check()?;
    }
    let parts = terminals.parts.keys();
    Ok(parts
        .map(|part| (*part, core::mem::take(&mut flow.follow[*part])))
        .collect())
}

struct Flow<'a> {
    grammar: &'a Grammar,
    terminals: &'a Terminals,
    automata: &'a HashMap<NodeId, Automaton>,
    /// The letters that each part can begin with, and whether it can be empty.
    first: Vec<(Set, bool)>,
    follow: Vec<Set>,
}

impl Flow<'_> {
    fn first(&mut self, node: NodeId) -> bool {
        let mut set = Set::default();
        let mut nullable = false;
        let mut grown = false;
        if let Some(part) = self.terminals.parts.get(&node) {
            set = self.automata[&node].first();
            nullable = *part;
        } else {
            match &self.grammar.nodes[node] {
                Node::Chars(_) => {}
                Node::Rule(rule) => {
                    let target = self.grammar.rules[*rule];
                    // A rule that is itself a terminal has no other place where it is looked at.
                    if self.terminals.parts.contains_key(&target) {
                        grown |= self.first(target);
                    }
                    (set, nullable) = self.first[target].clone();
                }
                Node::Seq(items) => {
                    nullable = true;
                    for item in items {
                        grown |= self.first(*item);
                        if nullable {
                            set.join(&self.first[*item].0);
                        }
                        nullable &= self.first[*item].1;
                    }
                }
                Node::Alt(items) => {
                    for item in items {
                        grown |= self.first(*item);
                        set.join(&self.first[*item].0);
                        nullable |= self.first[*item].1;
                    }
                }
                Node::Repeat(item, least, _) => {
                    grown |= self.first(*item);
                    set.join(&self.first[*item].0);
                    nullable = *least == 0 || self.first[*item].1;
                }
            }
        }
        let entry = &mut self.first[node];
        grown |= entry.0.join(&set) | (nullable && !entry.1);
        entry.1 |= nullable;
        grown
    }

    fn follow(&mut self, node: NodeId) -> bool {
        if self.terminals.parts.contains_key(&node) {
            return false;
        }
        let mut grown = false;
        match &self.grammar.nodes[node] {
            Node::Chars(_) => {}
            Node::Rule(rule) => {
                let after = self.follow[node].clone();
                grown |= self.follow[self.grammar.rules[*rule]].join(&after);
            }
            Node::Seq(items) => {
                let mut after = self.follow[node].clone();
                for item in items.iter().rev() {
                    grown |= self.follow[*item].join(&after);
                    grown |= self.follow(*item);
                    let (first, nullable) = &self.first[*item];
                    if !nullable {
                        after = Set::default();
                    }
                    after.join(first);
                }
            }
            Node::Alt(items) => {
                let after = self.follow[node].clone();
                for item in items {
                    grown |= self.follow[*item].join(&after);
                    grown |= self.follow(*item);
                }
            }
            Node::Repeat(item, _, most) => {
                let mut after = self.follow[node].clone();
                if *most != Some(1) {
                    after.join(&self.first[*item].0);
                }
                grown |= self.follow[*item].join(&after);
                grown |= self.follow(*item);
            }
        }
        grown
    }
}
