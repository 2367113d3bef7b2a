//! The parser: Earley's algorithm (Earley 1970; Aycock and Horspool 2002 for symbols that can be nothing) over the lexemes
//! that the lexer finds, a byte at a time.
//!
//! Bytes can be taken back. Rows that were made for bytes that were taken back stay until others take their place, so that
//! walking a tree of tokens makes each row once.

use crate::lexer::{Exhausted, LexemeId, Lexer, State};
use crate::rules::{Dot, Rules};
use alloc::sync::Arc;
use alloc::vec::Vec;
use hashbrown::HashSet;

/// A rule that was followed up to a place, from a row on.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
struct Item {
    dot: u32,
    origin: u32,
}

/// Which lexemes ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Ended {
    /// The longest that match in a state.
    Longest(State),
    /// Those that could have no more bytes in a state.
    Complete(State),
}

/// All that may have been said up to a place.
#[derive(Clone, Debug)]
struct Row {
    items: (u32, u32),
    /// Where the lexer begins.
    start: State,
    /// What ended before it.
    after: Option<Ended>,
}

/// Where the parser is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    row: u32,
    pub(crate) state: State,
    /// Whether a lexeme has begun.
    pub(crate) begun: bool,
}

/// Why a parser gave up.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum GaveUp {
    States,
    Work,
    Readings,
}

/// A grammar somewhere in a text.
#[derive(Clone)]
pub(crate) struct Parser {
    rules: Arc<Rules>,
    pub(crate) lexer: Lexer,
    items: Vec<Item>,
    rows: Vec<Row>,
    /// Where it is, after each byte that can be taken back.
    positions: Vec<Position>,
    /// Readings that may be made before it gives up.
    readings: usize,
    gave_up: bool,
    scratch: Scratch,
}

/// What making a row needs.
#[derive(Clone, Default)]
struct Scratch {
    seen: HashSet<Item>,
    allowed: Vec<LexemeId>,
}

/// Readings of a row, at most.
const MOST_IN_ROW: usize = 4000;

impl Parser {
    pub(crate) fn new(rules: Arc<Rules>, lexer: Lexer, readings: usize) -> Self {
        let mut parser = Self {
            rules,
            lexer,
            items: Vec::new(),
            rows: Vec::new(),
            positions: Vec::new(),
            readings,
            gave_up: false,
            scratch: Scratch::default(),
        };
        for rule in parser.rules.rules[parser.rules.start as usize].clone() {
            parser.add(Item {
                dot: rule,
                origin: 0,
            });
        }
        parser.complete_row(0, 0);
        // White space stands behind lexemes only.
        let start = parser.lexer.start(&parser.scratch.allowed);
        parser.rows.push(Row {
            items: (0, parser.items.len() as u32),
            start,
            after: None,
        });
        parser.positions.push(Position {
            row: 0,
            state: start,
            begun: false,
        });
        parser
    }

    /// Lets it do so much more before it gives up.
    pub(crate) fn allow(&mut self, readings: usize, work: u64) {
        self.readings = readings;
        self.lexer.work_limit = self.lexer.work().saturating_add(work);
    }

    /// Why it gave up, if it did. What it says from then on means nothing.
    pub(crate) fn gave_up(&self) -> Option<GaveUp> {
        match self.lexer.exhausted {
            Some(Exhausted::States) => Some(GaveUp::States),
            Some(Exhausted::Work) => Some(GaveUp::Work),
            None => self.gave_up.then_some(GaveUp::Readings),
        }
    }

    pub(crate) fn position(&self) -> Position {
        self.positions.last().copied().unwrap_or(Position {
            row: 0,
            state: State::DEAD,
            begun: false,
        })
    }

    /// How many bytes can be taken back.
    pub(crate) fn depth(&self) -> usize {
        self.positions.len()
    }

    /// Takes bytes back.
    pub(crate) fn back_to(&mut self, depth: usize) {
        self.positions.truncate(depth.max(1));
    }

    /// Keeps the bytes that came for good.
    pub(crate) fn commit(&mut self) {
        let last = self.position();
        self.positions.clear();
        self.positions.push(last);
    }

    /// Goes on as if more of the lexeme had come, up to a state.
    pub(crate) fn enter(&mut self, state: State, begun: bool) {
        let row = self.position().row;
        self.positions.push(Position { row, state, begun });
    }

    /// Takes a byte; says no, and stays, where it may not come.
    pub(crate) fn push(&mut self, byte: u8) -> bool {
        let Position { row, state, .. } = self.position();
        let next = self.lexer.next(state, byte);
        let to = |row, state, begun| Position { row, state, begun };
        let position = if next == State::DEAD {
            if self.lexer.accepting(state).is_empty() || !self.end(row, Ended::Longest(state)) {
                return false;
            }
            let start = self.rows[row as usize + 1].start;
            let next = self.lexer.next(start, byte);
            if next == State::DEAD {
                return false;
            }
            if self.lexer.complete(next).is_empty() {
                to(row + 1, next, true)
            } else if self.end(row + 1, Ended::Complete(next)) {
                to(row + 2, self.rows[row as usize + 2].start, false)
            } else {
                return false;
            }
        } else if self.lexer.complete(next).is_empty() {
            to(row, next, true)
        } else if self.end(row, Ended::Complete(next)) {
            to(row + 1, self.rows[row as usize + 1].start, false)
        } else {
            return false;
        };
        self.positions.push(position);
        true
    }

    /// Whether the text may end here.
    pub(crate) fn is_accepting(&mut self) -> bool {
        let Position { row, state, begun } = self.position();
        if !begun {
            return self.accepts(row);
        }
        !self.lexer.accepting(state).is_empty()
            && self.end(row, Ended::Longest(state))
            && self.accepts(row + 1)
    }

    /// Whether anything may follow.
    pub(crate) fn can_go_on(&self) -> bool {
        let Position { row, begun, .. } = self.position();
        let items = self.items_of(row).iter();
        let mut dots = items.map(|item| self.rules.dots[item.dot as usize]);
        begun || dots.any(|dot| matches!(dot, Dot::Lexeme(_)))
    }

    /// The control tokens that may come next, apart from the bytes of text.
    pub(crate) fn tokens(&mut self) -> Vec<u32> {
        let Position { row, state, begun } = self.position();
        let mut at = state;
        if begun {
            if self.lexer.accepting(state).is_empty() || !self.end(row, Ended::Longest(state)) {
                return Vec::new();
            }
            at = self.rows[row as usize + 1].start;
        }
        let possible = self.lexer.possible(at);
        possible
            .filter_map(|id| self.lexer.lexeme(id).token)
            .collect()
    }

    /// The one byte that can come, if there is no choice and the text may not end.
    pub(crate) fn forced_byte(&mut self) -> Option<u8> {
        if self.is_accepting() {
            return None;
        }
        let state = self.position().state;
        let ends = !self.lexer.accepting(state).is_empty();
        let letters = self.lexer.alphabet().len();
        let mut found = None;
        // Bytes that go on with a lexeme can always come.
        for pass in [false, ends] {
            for letter in 0..letters {
                let byte = self.lexer.alphabet().byte(letter)?;
                let goes_on = self.lexer.next(state, byte) != State::DEAD;
                let comes = if pass {
                    !goes_on && self.may_come(byte)
                } else {
                    goes_on
                };
                if comes {
                    if found.is_some() || self.lexer.alphabet().size(letter) > 1 {
                        return None;
                    }
                    found = Some(byte);
                }
            }
            if !ends {
                break;
            }
        }
        found.filter(|byte| self.may_come(*byte))
    }

    fn may_come(&mut self, byte: u8) -> bool {
        let depth = self.depth();
        let comes = self.push(byte);
        self.back_to(depth);
        comes
    }

    fn items_of(&self, row: u32) -> &[Item] {
        let (from, to) = self.rows[row as usize].items;
        &self.items[from as usize..to as usize]
    }

    fn accepts(&self, row: u32) -> bool {
        let end = Dot::End(self.rules.start);
        let mut items = self.items_of(row).iter();
        items.any(|item| self.rules.dots[item.dot as usize] == end)
    }

    /// Makes the row that follows a row when lexemes end.
    fn end(&mut self, row: u32, ended: Ended) -> bool {
        let next = row as usize + 1;
        if self
            .rows
            .get(next)
            .is_some_and(|row| row.after == Some(ended))
        {
            return true;
        }
        self.rows.truncate(next);
        let (first, end) = self.rows[row as usize].items;
        self.items.truncate(end as usize);
        let lexemes = match ended {
            Ended::Longest(state) => self.lexer.accepting(state),
            Ended::Complete(state) => self.lexer.complete(state),
        };
        let lexemes = lexemes.to_vec();
        let space = lexemes.iter().find(|id| self.lexer.lexeme(**id).space);
        let start = if let Some(space) = space.copied() {
            // Nothing has changed, except that there is no second space.
            for i in first..end {
                self.items.push(self.items[i as usize]);
            }
            let start = self.rows[row as usize].start;
            let possible = self.lexer.possible(start).filter(|id| *id != space);
            let possible: Vec<LexemeId> = possible.collect();
            self.lexer.start(&possible)
        } else {
            let Some(group) = lexemes.first().map(|id| self.lexer.lexeme(*id).group) else {
                return false;
            };
            self.scratch.seen.clear();
            for i in first..end {
                let item = self.items[i as usize];
                if let Dot::Lexeme(id) = self.rules.dots[item.dot as usize]
                    && lexemes.contains(&id)
                {
                    self.add(Item {
                        dot: item.dot + 1,
                        ..item
                    });
                }
            }
            if self.items.len() == end as usize {
                return false;
            }
            self.complete_row(end as usize, next as u32);
            let mut allowed = core::mem::take(&mut self.scratch.allowed);
            if let Some(space) = self.rules.spaces[group as usize]
                && allowed
                    .iter()
                    .any(|id| self.lexer.lexeme(*id).group == group)
            {
                allowed.push(space);
            }
            let start = self.lexer.start(&allowed);
            self.scratch.allowed = allowed;
            start
        };
        let made = self.items.len() - end as usize;
        self.readings = self.readings.saturating_sub(made);
        if self.readings == 0 || made > MOST_IN_ROW {
            self.gave_up = true;
            return false;
        }
        self.rows.push(Row {
            items: (end, self.items.len() as u32),
            start,
            after: Some(ended),
        });
        true
    }

    fn add(&mut self, item: Item) {
        if self.scratch.seen.insert(item) {
            self.items.push(item);
        }
    }

    /// Adds to the last row's items, which begin at `first`, all that follows from them, and finds out which lexemes may
    /// come next.
    fn complete_row(&mut self, first: usize, row: u32) {
        let rules = Arc::clone(&self.rules);
        self.scratch.allowed.clear();
        let mut at = first;
        while at < self.items.len() {
            if self.items.len() - first > MOST_IN_ROW {
                // The row will not be used.
                return;
            }
            let item = self.items[at];
            at += 1;
            let advanced = Item {
                dot: item.dot + 1,
                ..item
            };
            match rules.dots[item.dot as usize] {
                Dot::Lexeme(id) => self.scratch.allowed.push(id),
                Dot::Symbol(symbol) => {
                    for rule in &rules.rules[symbol as usize] {
                        self.add(Item {
                            dot: *rule,
                            origin: row,
                        });
                    }
                    if rules.nullable[symbol as usize] {
                        self.add(advanced);
                    }
                }
                // What is nothing was passed over where it was expected.
                Dot::End(_) if item.origin == row => {}
                Dot::End(symbol) => {
                    let (from, to) = self.rows[item.origin as usize].items;
                    for i in from..to {
                        let waiting = self.items[i as usize];
                        if rules.dots[waiting.dot as usize] == Dot::Symbol(symbol) {
                            self.add(Item {
                                dot: waiting.dot + 1,
                                ..waiting
                            });
                        }
                    }
                }
            }
        }
        self.scratch.allowed.sort_unstable();
        self.scratch.allowed.dedup();
    }

    /// Bytes of memory, about.
    pub(crate) fn bytes(&self) -> usize {
        self.lexer.bytes()
            + self.items.len() * size_of::<Item>()
            + self.rows.len() * size_of::<Row>()
            + self.rules.dots.len() * 8
    }
}
