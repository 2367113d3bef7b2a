//! The characters of a grammar, those that no rule tells apart taken together; sets of them, and automata over them.

use super::{Grammar, Node, NodeId};
use alloc::vec;
use alloc::vec::Vec;
use hashbrown::HashSet;

/// Cuts the characters where any set of the grammar begins or ends.
pub(super) struct Alphabet {
    /// Where each letter begins, in order.
    starts: Vec<u32>,
}

/// A set of letters or states.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Set(Vec<u64>);

impl Set {
    pub(super) fn insert(&mut self, member: usize) {
        if self.0.len() <= member / 64 {
            self.0.resize(member / 64 + 1, 0);
        }
        self.0[member / 64] |= 1 << (member % 64);
    }

    pub(super) fn contains(&self, member: usize) -> bool {
        self.0
            .get(member / 64)
            .is_some_and(|word| word >> (member % 64) & 1 == 1)
    }

    pub(super) fn meets(&self, other: &Set) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    /// Takes in another set, and says whether that added anything.
    pub(super) fn join(&mut self, other: &Set) -> bool {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        let mut grown = false;
        for (a, b) in self.0.iter_mut().zip(&other.0) {
            grown |= *b & !*a != 0;
            *a |= b;
        }
        grown
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(i, word)| {
            let mut word = *word;
            core::iter::from_fn(move || {
                let bit = word.trailing_zeros() as usize;
                // Taking the lowest bit off leaves nothing of nothing.
                let member = (word != 0).then_some(i * 64 + bit)?;
                word &= word - 1;
                Some(member)
            })
        })
    }
}

impl Alphabet {
    pub(super) fn new(grammar: &Grammar) -> Self {
        let mut starts = vec![0];
        for node in &grammar.nodes {
            if let Node::Chars(ranges) = node {
                for (from, to) in ranges {
                    starts.extend([*from, to.saturating_add(1)]);
                }
            }
        }
        starts.sort_unstable();
        starts.dedup();
        Alphabet { starts }
    }

    /// The letters of a set of characters.
    pub(super) fn letters(&self, ranges: &[(u32, u32)]) -> Set {
        let mut set = Set::default();
        for (from, to) in ranges {
            let first = self.starts.partition_point(|start| start < from);
            let end = self.starts.partition_point(|start| start <= to);
            for letter in first..end {
                set.insert(letter);
            }
        }
        set
    }
}

/// A nondeterministic automaton of a part without recursion.
///
/// Long repetitions are taken for endless ones: it then accepts more than the part, which makes what is concluded from it
/// more careful.
pub(super) struct Automaton {
    states: Vec<State>,
    start: Set,
    end: usize,
}

#[derive(Default)]
struct State {
    letters: Set,
    /// Where a letter of the set leads.
    next: Option<usize>,
    /// Where nothing at all leads.
    silent: Vec<usize>,
}

/// Repetitions up to this number are written out.
const EXACT_REPEATS: u32 = 4;

/// How often an automaton has a part that is repeated.
pub(super) fn copies(least: u32, most: Option<u32>) -> u32 {
    match most.unwrap_or(least).max(least) {
        times @ 1..=EXACT_REPEATS => times,
        _ => 1,
    }
}

impl Automaton {
    pub(super) fn new(grammar: &Grammar, alphabet: &Alphabet, node: NodeId) -> Self {
        let mut automaton = Automaton {
            states: vec![State::default()],
            start: Set::default(),
            end: 0,
        };
        automaton.end = automaton.part(grammar, alphabet, node, 0);
        let mut start = Set::default();
        start.insert(0);
        automaton.start = automaton.closed(start);
        automaton
    }

    /// How many states it has.
    pub(super) fn len(&self) -> usize {
        self.states.len()
    }

    fn state(&mut self) -> usize {
        self.states.push(State::default());
        self.states.len() - 1
    }

    /// Adds a part that begins in a state, and says where it ends.
    fn part(&mut self, grammar: &Grammar, alphabet: &Alphabet, node: NodeId, from: usize) -> usize {
        match &grammar.nodes[node] {
            Node::Chars(ranges) => {
                let begin = self.state();
                let end = self.state();
                self.states[from].silent.push(begin);
                self.states[begin].letters = alphabet.letters(ranges);
                self.states[begin].next = Some(end);
                end
            }
            Node::Rule(rule) => self.part(grammar, alphabet, grammar.rules[*rule], from),
            Node::Seq(items) => items
                .iter()
                .fold(from, |from, item| self.part(grammar, alphabet, *item, from)),
            Node::Alt(branches) => {
                let end = self.state();
                for branch in branches {
                    let last = self.part(grammar, alphabet, *branch, from);
                    self.states[last].silent.push(end);
                }
                end
            }
            Node::Repeat(item, least, most) => {
                let exact = most.unwrap_or(*least).max(*least) <= EXACT_REPEATS;
                let least = if exact { *least } else { (*least).min(1) };
                let most = most.filter(|_| exact);
                let mut at = from;
                // Where there is no end, the last one that must come is the one that comes again.
                let before = match most {
                    Some(_) => least,
                    None => least.saturating_sub(1),
                };
                for _ in 0..before {
                    at = self.part(grammar, alphabet, *item, at);
                }
                match most {
                    Some(most) => {
                        let end = self.state();
                        for _ in least..most {
                            self.states[at].silent.push(end);
                            at = self.part(grammar, alphabet, *item, at);
                        }
                        self.states[at].silent.push(end);
                        end
                    }
                    None => {
                        let again = self.state();
                        self.states[at].silent.push(again);
                        let last = self.part(grammar, alphabet, *item, again);
                        self.states[last].silent.push(again);
                        if least > 0 { last } else { again }
                    }
                }
            }
        }
    }

    fn closed(&self, states: Set) -> Set {
        let mut stack: Vec<usize> = states.iter().collect();
        let mut all = states;
        while let Some(state) = stack.pop() {
            for next in &self.states[state].silent {
                if !all.contains(*next) {
                    all.insert(*next);
                    stack.push(*next);
                }
            }
        }
        all
    }

    fn step(&self, states: &Set, letter: usize) -> Set {
        let mut next = Set::default();
        for state in states.iter() {
            let state = &self.states[state];
            if let Some(to) = state.next.filter(|_| state.letters.contains(letter)) {
                next.insert(to);
            }
        }
        self.closed(next)
    }

    /// The letters that can come in these states.
    fn letters(&self, states: &Set) -> Set {
        let mut letters = Set::default();
        for state in states.iter() {
            letters.join(&self.states[state].letters);
        }
        letters
    }

    pub(super) fn first(&self) -> Set {
        self.letters(&self.start)
    }

    pub(super) fn is_nullable(&self) -> bool {
        self.start.contains(self.end)
    }

    /// Whether a text of this part, followed by one of these letters, could also go on as a text of the other part.
    ///
    /// Says yes once the steps that are left for finding out are spent.
    pub(super) fn runs_into(
        &self,
        other: &Automaton,
        follow: &Set,
        (steps, work): (&mut usize, &mut u64),
    ) -> bool {
        let cost = (self.len() + other.len()) as u64;
        let mut seen = HashSet::new();
        let mut stack = vec![(self.start.clone(), other.start.clone())];
        let mut begun = false;
        while let Some((mine, others)) = stack.pop() {
            let theirs = other.letters(&others);
            if begun && mine.contains(self.end) && theirs.meets(follow) {
                return true;
            }
            begun = true;
            for letter in self.letters(&mine).iter().filter(|l| theirs.contains(*l)) {
                if *steps == 0 || *work == 0 {
                    return true;
                }
                *steps -= 1;
                *work = work.saturating_sub(cost);
                let pair = (self.step(&mine, letter), other.step(&others, letter));
                if seen.insert(pair.clone()) {
                    stack.push(pair);
                }
            }
        }
        false
    }
}
