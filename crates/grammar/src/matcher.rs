//! A grammar at some place in a text.

use crate::layout::Layout;
use crate::lexer::State;
use crate::parser::{GaveUp, Parser};
use crate::rules::token_bytes;
use crate::trie::Inside;
use crate::vocabulary::{MARK, Vocabulary};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use hashbrown::HashMap;
use strata_engine::{Constraint, ConstraintError, TokenMask};

/// Readings that may be made for a token, and steps of work.
pub(crate) const STEP_READINGS: usize = 60_000;
pub(crate) const STEP_WORK: u64 = 400_000;
/// States that are remembered, at most, unless the limits say less.
pub(crate) const MOST_STATES: usize = 20_000;
/// Bytes of what is remembered of walks through the vocabulary.
const REMEMBERED: usize = 4 << 20;
/// Tokens before a place that may be spelled in another way with what follows.
const LOOK_BACK: usize = 4;

/// A compiled grammar at some place in a text: the engine's [`Constraint`].
///
/// What it allows depends on the tokens it has accepted and on nothing else. Where the grammar leaves no choice, the
/// tokens are those that the model's tokenizer spells the text with.
pub struct Matcher {
    vocabulary: Arc<Vocabulary>,
    parser: Parser,
    /// Bytes that must come, which the parser has read and no token has brought yet.
    ahead: Vec<u8>,
    /// The tokens that must come next. They stay as they were found, since spelling again from the middle of them could
    /// come out differently.
    forced: VecDeque<u32>,
    last: Option<u32>,
    over: bool,
    /// The layout of JSON, where that is what it is.
    layout: Option<Layout>,
    inside: HashMap<State, Arc<Inside>>,
    inside_bytes: usize,
    /// Tokens that may be forced in a row.
    most_forced: usize,
}

impl Matcher {
    /// A matcher at the beginning of a text. Fails where nothing can come.
    pub(crate) fn new(
        vocabulary: Arc<Vocabulary>,
        parser: Parser,
        layout: Option<Layout>,
        most_forced: usize,
    ) -> Result<Self, ConstraintError> {
        let mut matcher = Self {
            vocabulary,
            parser,
            ahead: Vec::new(),
            forced: VecDeque::new(),
            last: None,
            over: false,
            layout,
            inside: HashMap::new(),
            inside_bytes: 0,
            most_forced,
        };
        matcher.parser.allow(STEP_READINGS, STEP_WORK);
        matcher.find_end();
        let prefix = matcher.find_forced()?;
        if matcher.forced.is_empty() && !matcher.over {
            let mut mask = TokenMask::new(matcher.vocabulary.len());
            matcher.allow(&prefix, &mut mask)?;
        }
        matcher.check()?;
        Ok(matcher)
    }

    /// Bytes of memory that belong to this grammar, about.
    pub(crate) fn bytes(&self) -> usize {
        self.parser.bytes() + self.inside_bytes
    }

    fn end_tokens(&self) -> &[u32] {
        self.vocabulary.tokenizer().end_of_generation()
    }

    fn check(&self) -> Result<(), ConstraintError> {
        let (what, limit) = match self.parser.gave_up() {
            None => return Ok(()),
            Some(GaveUp::States) => ("states", MOST_STATES),
            Some(GaveUp::Work) => ("steps for a token", STEP_WORK as usize),
            Some(GaveUp::Readings) => ("readings for a token", STEP_READINGS),
        };
        Err(ConstraintError::Limit { what, limit })
    }

    /// Finds out whether the text is complete.
    fn find_end(&mut self) {
        let ended = self
            .last
            .is_some_and(|last| self.end_tokens().contains(&last));
        self.over = self.ahead.is_empty()
            && self.parser.is_accepting()
            && (ended || !self.parser.can_go_on());
    }

    /// Looks for tokens that must come next, if none are known. Gives the bytes with which the next token must begin.
    fn find_forced(&mut self) -> Result<Vec<u8>, ConstraintError> {
        if !self.forced.is_empty() || self.over {
            return Ok(Vec::new());
        }
        while let Some(byte) = self.parser.forced_byte() {
            if byte == MARK {
                let tokens = self.parser.tokens();
                let [token] = tokens.as_slice() else { break };
                for byte in token_bytes(*token) {
                    self.parser.push(byte);
                    self.ahead.push(byte);
                }
            } else {
                self.parser.push(byte);
                self.ahead.push(byte);
            }
            self.parser.commit();
            self.check()?;
            if self.ahead.len() > self.most_forced {
                return Err(ConstraintError::Limit {
                    what: "bytes in a row that leave no choice",
                    limit: self.most_forced,
                });
            }
        }
        self.check()?;
        if self.ahead.is_empty() {
            return Ok(Vec::new());
        }
        let (tokens, prefix) = self.spell_ahead();
        self.forced = tokens.into();
        Ok(prefix)
    }

    /// The tokens of what must come, as far as they do not depend on what follows, and the bytes that are left.
    fn spell_ahead(&mut self) -> (Vec<u32>, Vec<u8>) {
        // With the token before it, a text may be spelled in another way; then that token stands alone.
        let before: Vec<u8> = self.last.map_or_else(Vec::new, |id| self.token_bytes(id));
        let all = [before.as_slice(), &self.ahead].concat();
        let (mut tokens, mut fixed) = self.spell(&all);
        let mut skipped = 0;
        if let Some(last) = self.last {
            if tokens.first() == Some(&last) {
                fixed = fixed.max(1);
                skipped = 1;
            } else {
                (tokens, fixed) = self.spell(&self.ahead);
            }
        }
        let (uncertain, bytes) = self.uncertain(&tokens[fixed..]);
        tokens.truncate(tokens.len() - uncertain);
        tokens.drain(..skipped);
        let prefix = all[all.len() - bytes..].to_vec();
        (tokens, prefix)
    }

    /// Spells a text with control tokens in it. Says how many tokens are as they are, whatever comes.
    fn spell(&self, bytes: &[u8]) -> (Vec<u32>, usize) {
        let mut tokens = Vec::new();
        let mut fixed = 0;
        let mut rest = bytes;
        while !rest.is_empty() {
            let end = rest.iter().position(|byte| *byte == MARK);
            let (text, marked) = rest.split_at(end.unwrap_or(rest.len()));
            for token in self.vocabulary.spell(text) {
                tokens.push(token);
                if self.vocabulary.words.is_special(token) {
                    fixed = tokens.len();
                }
            }
            let number = marked.iter().position(|byte| *byte == b']');
            let Some(number) = number else { break };
            let digits = core::str::from_utf8(&marked[2..number]);
            if let Some(token) = digits.ok().and_then(|digits| digits.parse().ok()) {
                tokens.push(token);
                fixed = tokens.len();
            }
            rest = &marked[number + 1..];
        }
        (tokens, fixed)
    }

    /// How many of the last tokens could be others, depending on what follows, and their bytes.
    fn uncertain(&mut self, tokens: &[u32]) -> (usize, usize) {
        let from = tokens.len().saturating_sub(LOOK_BACK);
        let last = tokens[from..].iter();
        let bytes: Vec<u8> = last.flat_map(|id| self.token_bytes(*id)).collect();
        let longest = self.vocabulary.trie.longest();
        let bytes = &bytes[bytes.len().saturating_sub(longest)..];
        for from in 0..bytes.len() {
            let end = &bytes[from..];
            if !self.vocabulary.trie.goes_on(&mut self.parser, end) {
                continue;
            }
            let (mut count, mut length) = (0, 0);
            for token in tokens.iter().rev() {
                count += 1;
                length += self.token_bytes(*token).len();
                if length >= end.len() {
                    break;
                }
            }
            return (count, length);
        }
        (0, 0)
    }

    /// The bytes of a token as the parser reads them.
    fn token_bytes(&self, id: u32) -> Vec<u8> {
        match self.vocabulary.word(id) {
            [] => token_bytes(id),
            word => word.to_vec(),
        }
    }

    /// Allows the tokens that may come, of which the first bytes are known.
    fn allow(&mut self, prefix: &[u8], mask: &mut TokenMask) -> Result<(), ConstraintError> {
        self.parser.allow(STEP_READINGS, STEP_WORK);
        let vocabulary = Arc::clone(&self.vocabulary);
        let trie = &vocabulary.trie;
        if prefix.is_empty() {
            let inside = self.inside();
            let words = mask.words_mut().iter_mut();
            words
                .zip(&inside.words)
                .for_each(|(word, inside)| *word = *inside);
            trie.allow_exits(&mut self.parser, &inside, mask.words_mut());
            let tokens = self.parser.tokens();
            tokens.iter().for_each(|token| mask.allow(*token));
        } else {
            trie.allow_prefixes(prefix, mask.words_mut());
            trie.allow_after(&mut self.parser, prefix, mask.words_mut());
        }
        if self.ahead.is_empty() && self.parser.is_accepting() {
            self.end_tokens().iter().for_each(|end| mask.allow(*end));
        }
        self.check()?;
        if mask.count() == 0 {
            return Err(ConstraintError::DeadEnd);
        }
        Ok(())
    }

    /// The tokens that the lexer alone allows from here.
    fn inside(&mut self) -> Arc<Inside> {
        let state = self.parser.position().state;
        if let Some(known) = self.inside.get(&state) {
            return Arc::clone(known);
        }
        let vocabulary = Arc::clone(&self.vocabulary);
        let words = vocabulary.len().div_ceil(32);
        let inside = Arc::new(vocabulary.trie.inside(&mut self.parser, state, words));
        if self.parser.gave_up().is_none() {
            if self.inside_bytes + inside.bytes() > REMEMBERED {
                self.inside.clear();
                self.inside_bytes = 0;
            }
            self.inside_bytes += inside.bytes();
            self.inside.insert(state, Arc::clone(&inside));
        }
        inside
    }

    /// Has the parser read a token; it is where it was if that may not come.
    fn read(&mut self, token: u32) -> bool {
        if self.end_tokens().contains(&token) {
            return self.ahead.is_empty() && self.parser.is_accepting();
        }
        let bytes = self.token_bytes(token);
        let known = bytes.len().min(self.ahead.len());
        let (same, new) = bytes.split_at(known);
        if !self.ahead.starts_with(same) {
            return false;
        }
        let depth = self.parser.depth();
        if !new.iter().all(|byte| self.parser.push(*byte)) {
            self.parser.back_to(depth);
            return false;
        }
        self.parser.commit();
        self.ahead.drain(..known);
        true
    }
}

impl Clone for Matcher {
    fn clone(&self) -> Self {
        Self {
            vocabulary: Arc::clone(&self.vocabulary),
            parser: self.parser.clone(),
            ahead: self.ahead.clone(),
            forced: self.forced.clone(),
            layout: self.layout.clone(),
            inside: self.inside.clone(),
            ..*self
        }
    }
}

impl fmt::Debug for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Matcher")
            .field("forced", &self.forced)
            .field("complete", &self.is_complete())
            .finish_non_exhaustive()
    }
}

impl Constraint for Matcher {
    fn allowed(&mut self, mask: &mut TokenMask) -> Result<(), ConstraintError> {
        self.parser.allow(STEP_READINGS, STEP_WORK);
        let prefix = self.find_forced()?;
        if let Some(token) = self.forced.front() {
            mask.allow(*token);
            return Ok(());
        }
        if self.over {
            self.end_tokens().iter().for_each(|end| mask.allow(*end));
            return Ok(());
        }
        // Where nothing was forced anew, what must come first is what was left before.
        self.allow(&prefix, mask)?;
        if let Some(layout) = &self.layout {
            layout.restrict(mask);
        }
        Ok(())
    }

    fn accept(&mut self, token: u32) -> Result<(), ConstraintError> {
        let refused = Err(ConstraintError::Token { token });
        if self.forced.front().is_some_and(|front| *front != token) {
            return refused;
        }
        if self.is_complete() {
            return if self.end_tokens().contains(&token) {
                Ok(())
            } else {
                refused
            };
        }
        if self
            .layout
            .as_ref()
            .is_some_and(|layout| layout.bans(token))
        {
            return refused;
        }
        self.parser.allow(STEP_READINGS, STEP_WORK);
        let read = self.read(token);
        self.check()?;
        if !read {
            return refused;
        }
        self.last = Some(token);
        self.find_end();
        self.check()?;
        if let Some(layout) = &mut self.layout {
            layout.accept(token);
        }
        self.forced.pop_front();
        Ok(())
    }

    fn forced(&mut self, out: &mut Vec<u32>) -> Result<(), ConstraintError> {
        self.parser.allow(STEP_READINGS, STEP_WORK);
        self.find_forced()?;
        out.extend(&self.forced);
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.over && self.forced.is_empty()
    }

    fn fork(&self) -> Box<dyn Constraint> {
        Box::new(self.clone())
    }
}
