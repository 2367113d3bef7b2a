//! Grammars without context: symbols, rules, and how they are put together.

use crate::lexer::{Lexeme, LexemeId};
use crate::regex::{Arena, Expr};
use alloc::vec;
use alloc::vec::Vec;
use hashbrown::HashMap;

/// A symbol of a [`Builder`]'s grammar.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Symbol(u32);

/// What a symbol stands for.
#[derive(Clone, Debug)]
enum Meaning {
    Lexeme(LexemeId),
    /// Any of several sequences.
    Rules(Vec<Vec<Symbol>>),
}

/// Repetitions that are written out side by side.
const BLOCK: usize = 8;

/// Puts a grammar together.
pub(crate) struct Builder {
    pub(crate) arena: Arena,
    meanings: Vec<Meaning>,
    lexemes: Vec<Lexeme>,
    lexeme_numbers: HashMap<Lexeme, LexemeId>,
    symbols: HashMap<LexemeId, Symbol>,
    repeats: HashMap<(Symbol, usize, bool), Symbol>,
    /// The group of lexemes that are added, and its white space.
    group: u8,
    spaces: Vec<Option<LexemeId>>,
}

/// A place in a rule: the symbols of all rules lie one after the other, each rule with an end.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Dot {
    /// A rule of this symbol ends.
    End(u32),
    Lexeme(LexemeId),
    Symbol(u32),
}

/// A grammar that is complete.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) dots: Vec<Dot>,
    /// Where the rules of each symbol begin, those without symbols left out.
    pub(crate) rules: Vec<Vec<u32>>,
    /// Whether a symbol can be nothing.
    pub(crate) nullable: Vec<bool>,
    pub(crate) start: u32,
    /// The white space of each group.
    pub(crate) spaces: Vec<Option<LexemeId>>,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self {
            arena: Arena::new(),
            meanings: vec![Meaning::Rules(vec![Vec::new()])],
            lexemes: Vec::new(),
            lexeme_numbers: HashMap::new(),
            symbols: HashMap::new(),
            repeats: HashMap::new(),
            group: 0,
            spaces: vec![None],
        }
    }

    /// The symbol of the empty text.
    pub(crate) const EMPTY: Symbol = Symbol(0);

    /// How large the grammar is, in symbols of its rules.
    pub(crate) fn size(&self) -> usize {
        self.meanings.len()
    }

    /// Begins another part of the grammar, with white space of its own after each of its lexemes.
    pub(crate) fn begin_group(&mut self, space: Option<Expr>) {
        let known = self
            .spaces
            .iter()
            .position(|known| known.map(|id| self.lexemes[id as usize].expr) == space);
        if let Some(known) = known {
            self.group = known as u8;
            return;
        }
        self.group = self.spaces.len() as u8;
        let space = space.map(|expr| {
            self.lexeme_id(Lexeme {
                expr,
                lazy: false,
                group: self.group,
                space: true,
                token: None,
            })
        });
        self.spaces.push(space);
    }

    /// Goes on with the first part of the grammar.
    pub(crate) fn end_group(&mut self) {
        self.group = 0;
    }

    fn lexeme_id(&mut self, lexeme: Lexeme) -> LexemeId {
        let new = self.lexemes.len() as LexemeId;
        let id = *self.lexeme_numbers.entry(lexeme).or_insert(new);
        if id == new {
            self.lexemes.push(lexeme);
        }
        id
    }

    fn symbol(&mut self, meaning: Meaning) -> Symbol {
        self.meanings.push(meaning);
        Symbol(self.meanings.len() as u32 - 1)
    }

    /// A lexeme.
    pub(crate) fn lexeme(&mut self, expr: Expr) -> Symbol {
        self.any_lexeme(expr, false, None)
    }

    /// A lexeme that ends as soon as it can.
    pub(crate) fn lazy_lexeme(&mut self, expr: Expr) -> Symbol {
        self.any_lexeme(expr, true, None)
    }

    /// A control token. Its bytes are some that no text has.
    pub(crate) fn token(&mut self, id: u32) -> Symbol {
        let expr = self.arena.literal(&token_bytes(id));
        self.any_lexeme(expr, false, Some(id))
    }

    /// A text.
    pub(crate) fn text(&mut self, text: &str) -> Symbol {
        if text.is_empty() {
            return Self::EMPTY;
        }
        let expr = self.arena.literal(text.as_bytes());
        self.lexeme(expr)
    }

    fn any_lexeme(&mut self, expr: Expr, lazy: bool, token: Option<u32>) -> Symbol {
        let id = self.lexeme_id(Lexeme {
            expr,
            lazy,
            group: self.group,
            space: false,
            token,
        });
        if let Some(known) = self.symbols.get(&id) {
            return *known;
        }
        let mut symbol = self.symbol(Meaning::Lexeme(id));
        if self.arena.is_nullable(expr) {
            symbol = self.symbol(Meaning::Rules(vec![vec![symbol], Vec::new()]));
        }
        self.symbols.insert(id, symbol);
        symbol
    }

    /// One after the other.
    pub(crate) fn join(&mut self, parts: &[Symbol]) -> Symbol {
        let parts = parts.iter().copied().filter(|part| *part != Self::EMPTY);
        let parts: Vec<_> = parts.collect();
        match parts.as_slice() {
            [] => Self::EMPTY,
            [one] => *one,
            _ => self.symbol(Meaning::Rules(vec![parts])),
        }
    }

    /// One of several.
    pub(crate) fn select(&mut self, options: &[Symbol]) -> Symbol {
        match options {
            [one] => *one,
            _ => {
                let rules = options.iter().map(|option| match *option {
                    Self::EMPTY => Vec::new(),
                    option => vec![option],
                });
                let rules = rules.collect();
                self.symbol(Meaning::Rules(rules))
            }
        }
    }

    pub(crate) fn optional(&mut self, part: Symbol) -> Symbol {
        self.symbol(Meaning::Rules(vec![Vec::new(), vec![part]]))
    }

    /// A symbol whose rules follow with [`define`](Self::define).
    pub(crate) fn declare(&mut self) -> Symbol {
        self.symbol(Meaning::Rules(Vec::new()))
    }

    /// Says what a declared symbol stands for.
    pub(crate) fn define(&mut self, symbol: Symbol, meaning: Symbol) {
        self.meanings[symbol.0 as usize] = Meaning::Rules(vec![vec![meaning]]);
    }

    /// So many of a symbol one after the other, at least and at most.
    pub(crate) fn repeat(&mut self, part: Symbol, least: usize, most: Option<usize>) -> Symbol {
        let least_parts = self.exactly(part, least);
        let more = match most {
            Some(most) => self.at_most(part, most.saturating_sub(least)),
            None => {
                let more = self.declare();
                self.meanings[more.0 as usize] = Meaning::Rules(vec![Vec::new(), vec![more, part]]);
                more
            }
        };
        self.join(&[least_parts, more])
    }

    fn exactly(&mut self, part: Symbol, times: usize) -> Symbol {
        if times <= BLOCK {
            return self.join(&vec![part; times]);
        }
        if let Some(known) = self.repeats.get(&(part, times, true)) {
            return *known;
        }
        let block = self.exactly(part, BLOCK);
        let blocks = self.exactly(block, times / BLOCK);
        let rest = self.exactly(part, times % BLOCK);
        let all = self.join(&[blocks, rest]);
        self.repeats.insert((part, times, true), all);
        all
    }

    fn at_most(&mut self, part: Symbol, times: usize) -> Symbol {
        if times < BLOCK {
            let first = Self::EMPTY;
            return (0..times).fold(first, |rest, _| {
                let more = self.join(&[part, rest]);
                self.optional(more)
            });
        }
        if let Some(known) = self.repeats.get(&(part, times, false)) {
            return *known;
        }
        // Whole blocks, fewer than there may be, then less than a block; or all of them, then what is left.
        let block = self.exactly(part, BLOCK);
        let (whole, left) = (times / BLOCK, times % BLOCK);
        let fewer = self.at_most(block, whole - 1);
        let short = self.at_most(part, BLOCK - 1);
        let all = self.exactly(block, whole);
        let rest = self.at_most(part, left);
        let options = [self.join(&[fewer, short]), self.join(&[all, rest])];
        let some = self.select(&options);
        self.repeats.insert((part, times, false), some);
        some
    }

    /// The grammar of a symbol, with its lexemes and their expressions.
    pub(crate) fn finish(self, start: Symbol) -> (Rules, Vec<Lexeme>, Arena) {
        let mut rules = Rules {
            dots: Vec::new(),
            rules: vec![Vec::new(); self.meanings.len() + 1],
            nullable: vec![false; self.meanings.len() + 1],
            start: self.meanings.len() as u32,
            spaces: self.spaces,
        };
        let dot = |symbol: &Symbol| match &self.meanings[symbol.0 as usize] {
            Meaning::Lexeme(id) => Dot::Lexeme(*id),
            Meaning::Rules(_) => Dot::Symbol(symbol.0),
        };
        let last = Meaning::Rules(vec![vec![start]]);
        for (number, meaning) in self.meanings.iter().chain([&last]).enumerate() {
            let Meaning::Rules(all) = meaning else {
                continue;
            };
            for rule in all {
                if rule.is_empty() {
                    rules.nullable[number] = true;
                    continue;
                }
                rules.rules[number].push(rules.dots.len() as u32);
                rules.dots.extend(rule.iter().map(dot));
                rules.dots.push(Dot::End(number as u32));
            }
        }
        rules.find_nullable();
        (rules, self.lexemes, self.arena)
    }
}

impl Rules {
    fn find_nullable(&mut self) {
        // Who may become nullable with a symbol.
        let mut users: Vec<Vec<u32>> = vec![Vec::new(); self.nullable.len()];
        for (number, rules) in self.rules.iter().enumerate() {
            for rule in rules {
                for dot in &self.dots[*rule as usize..] {
                    match dot {
                        Dot::Symbol(symbol) => users[*symbol as usize].push(number as u32),
                        Dot::Lexeme(_) => {}
                        Dot::End(_) => break,
                    }
                }
            }
        }
        let known = (0..self.nullable.len()).filter(|symbol| self.nullable[*symbol]);
        let mut changed: Vec<usize> = known.collect();
        while let Some(symbol) = changed.pop() {
            for user in core::mem::take(&mut users[symbol]) {
                let user = user as usize;
                if !self.nullable[user]
                    && self.rules[user].iter().any(|rule| self.can_vanish(*rule))
                {
                    self.nullable[user] = true;
                    changed.push(user);
                } else if !self.nullable[user] {
                    users[symbol].push(user as u32);
                }
            }
        }
    }

    fn can_vanish(&self, rule: u32) -> bool {
        let dots = self.dots[rule as usize..].iter();
        let mut dots = dots.take_while(|dot| !matches!(dot, Dot::End(_)));
        dots.all(|dot| matches!(dot, Dot::Symbol(symbol) if self.nullable[*symbol as usize]))
    }
}

/// The bytes that stand for a control token: no text has the first one.
pub(crate) fn token_bytes(id: u32) -> Vec<u8> {
    let mut bytes = alloc::format!(" [{id}]").into_bytes();
    bytes[0] = 0xff;
    bytes
}
