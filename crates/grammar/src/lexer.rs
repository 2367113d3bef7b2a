//! The lexer: one automaton for all lexemes, made as it is walked.
//!
//! A state is what is left of each lexeme that is still possible. Where several match, the longest is taken, except that a
//! lazy one ends as soon as it can.

use crate::regex::{Alphabet, Arena, Emptiness, Expr};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use hashbrown::HashMap;

/// A lexeme of a [`Lexer`].
pub(crate) type LexemeId = u32;

/// A state of a [`Lexer`].
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State(u32);

impl State {
    /// From here nothing matches.
    pub(crate) const DEAD: Self = Self(0);
    const UNKNOWN: Self = Self(u32::MAX);

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// What the grammar's smallest parts look like.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Lexeme {
    pub(crate) expr: Expr,
    /// It ends as soon as it can.
    pub(crate) lazy: bool,
    /// Lexemes of one part of a grammar, between which the same white space may stand.
    pub(crate) group: u8,
    /// It is the white space of its group.
    pub(crate) space: bool,
    /// The control token that it is.
    pub(crate) token: Option<u32>,
}

/// What is known of a state.
#[derive(Clone, Debug)]
struct Description {
    /// What is left of each lexeme.
    left: Box<[(LexemeId, Expr)]>,
    /// Lexemes that match here.
    accepting: Box<[LexemeId]>,
    /// Lexemes that match and can have no more bytes, where that is all there is; or lazy ones that match.
    complete: Box<[LexemeId]>,
}

/// Why a lexer gave up.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Exhausted {
    States,
    Work,
}

/// The automaton of a grammar's lexemes.
#[derive(Clone)]
pub(crate) struct Lexer {
    arena: Arena,
    emptiness: Emptiness,
    alphabet: Alphabet,
    lexemes: Vec<Lexeme>,
    numbers: HashMap<Box<[(LexemeId, Expr)]>, State>,
    states: Vec<Description>,
    /// Where each letter leads, a row for each state.
    table: Vec<State>,
    most_states: usize,
    /// Work that may be done, counted as the arena's is.
    pub(crate) work_limit: u64,
    pub(crate) exhausted: Option<Exhausted>,
}

impl Lexer {
    /// A lexer for lexemes; nothing if finding out which of them match any text takes too much work.
    pub(crate) fn new(
        mut arena: Arena,
        mut lexemes: Vec<Lexeme>,
        most_states: usize,
        work_limit: u64,
    ) -> Option<Self> {
        let alphabet = Alphabet::new(&arena);
        let mut emptiness = Emptiness::default();
        for lexeme in &mut lexemes {
            if !emptiness.some_text(&mut arena, &alphabet, lexeme.expr, work_limit)? {
                lexeme.expr = Arena::NOTHING;
            }
        }
        let mut lexer = Self {
            arena,
            emptiness,
            alphabet,
            lexemes,
            numbers: HashMap::new(),
            states: Vec::new(),
            table: Vec::new(),
            most_states,
            work_limit,
            exhausted: None,
        };
        let dead = lexer.state(Box::default());
        lexer.table.fill(dead);
        Some(lexer)
    }

    pub(crate) fn lexeme(&self, id: LexemeId) -> &Lexeme {
        &self.lexemes[id as usize]
    }

    pub(crate) fn alphabet(&self) -> &Alphabet {
        &self.alphabet
    }

    /// What was computed so far, in steps.
    pub(crate) fn work(&self) -> u64 {
        self.arena.work
    }

    /// Bytes of memory, about.
    pub(crate) fn bytes(&self) -> usize {
        let left: usize = self.states.iter().map(|state| state.left.len()).sum();
        self.arena.bytes()
            + self.emptiness.bytes()
            + self.table.len() * size_of::<State>()
            + self.states.len() * 120
            + left * 24
    }

    /// The state in which these lexemes may begin.
    pub(crate) fn start(&mut self, allowed: &[LexemeId]) -> State {
        let left = allowed.iter().map(|id| (*id, self.lexeme(*id).expr));
        let left = left.filter(|(_, expr)| *expr != Arena::NOTHING);
        let mut left: Vec<_> = left.collect();
        left.sort_unstable();
        left.dedup();
        self.state(left.into())
    }

    /// Lexemes that match in a state.
    pub(crate) fn accepting(&self, state: State) -> &[LexemeId] {
        &self.states[state.index()].accepting
    }

    /// Lexemes that end in a state whatever comes.
    pub(crate) fn complete(&self, state: State) -> &[LexemeId] {
        &self.states[state.index()].complete
    }

    /// Lexemes that are possible in a state.
    pub(crate) fn possible(&self, state: State) -> impl Iterator<Item = LexemeId> + '_ {
        self.states[state.index()].left.iter().map(|(id, _)| *id)
    }

    /// Where a byte leads.
    pub(crate) fn next(&mut self, state: State, byte: u8) -> State {
        let letter = self.alphabet.letter(byte);
        let cell = state.index() * self.alphabet.len() + letter;
        let known = self.table[cell];
        if known != State::UNKNOWN {
            return known;
        }
        let next = self.find_next(state, letter);
        if self.exhausted.is_none() {
            self.table[cell] = next;
        }
        next
    }

    fn find_next(&mut self, state: State, letter: usize) -> State {
        if self.exhausted.is_some() {
            return State::DEAD;
        }
        let byte = self.alphabet.byte(letter).unwrap_or_default();
        let mut left = Vec::new();
        for i in 0..self.states[state.index()].left.len() {
            let (id, expr) = self.states[state.index()].left[i];
            let next = self.arena.derivative(expr, byte);
            let some =
                self.emptiness
                    .some_text(&mut self.arena, &self.alphabet, next, self.work_limit);
            if some.is_none() || self.arena.work > self.work_limit {
                self.exhausted = Some(Exhausted::Work);
                return State::DEAD;
            }
            if some == Some(true) {
                left.push((id, next));
            }
        }
        self.state(left.into())
    }

    fn state(&mut self, left: Box<[(LexemeId, Expr)]>) -> State {
        if let Some(known) = self.numbers.get(&left) {
            return *known;
        }
        if self.states.len() >= self.most_states {
            self.exhausted = Some(Exhausted::States);
            return State::DEAD;
        }
        let state = State(self.states.len() as u32);
        let matching = left
            .iter()
            .filter(|(_, expr)| self.arena.is_nullable(*expr));
        let accepting: Vec<LexemeId> = matching.map(|(id, _)| *id).collect();
        let lazy = accepting.iter().filter(|id| self.lexeme(**id).lazy);
        let lazy: Vec<LexemeId> = lazy.copied().collect();
        let all_over = left.iter().all(|(_, expr)| *expr == Arena::EMPTY);
        let complete = match (lazy.as_slice(), all_over) {
            ([_, ..], _) => lazy,
            ([], true) => accepting.clone(),
            _ => Vec::new(),
        };
        self.numbers.insert(left.clone(), state);
        self.states.push(Description {
            left,
            accepting: accepting.into(),
            complete: complete.into(),
        });
        let row = vec![State::UNKNOWN; self.alphabet.len()];
        self.table.extend(row);
        state
    }
}
