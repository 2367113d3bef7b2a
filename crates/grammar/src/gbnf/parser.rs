//! Reading GBNF.

use super::{Grammar, KIND, Node, NodeId, Ranges};
use crate::error::CompileError;
use crate::limits::Limits;
use crate::patterns::position;
use alloc::format;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use hashbrown::HashMap;

const LAST: u32 = char::MAX as u32;

pub(super) fn parse(source: &str, limits: &Limits) -> Result<Grammar, CompileError> {
    let mut parser = Parser {
        source,
        at: 0,
        depth: 0,
        limits,
        grammar: Grammar::default(),
        names: HashMap::new(),
        defined: Vec::new(),
    };
    parser.space(true);
    while !parser.rest().is_empty() {
        parser.rule()?;
        parser.space(true);
    }
    parser.finish()
}

struct Parser<'a> {
    source: &'a str,
    at: usize,
    depth: usize,
    limits: &'a Limits,
    grammar: Grammar,
    names: HashMap<&'a str, usize>,
    /// What each rule says, once it is defined.
    defined: Vec<(&'a str, Option<NodeId>)>,
}

impl<'a> Parser<'a> {
    fn finish(mut self) -> Result<Grammar, CompileError> {
        let unknown = |name: &str| CompileError::UnknownRule {
            kind: KIND,
            name: name.to_string(),
        };
        for (name, node) in &self.defined {
            self.grammar.rules.push(node.ok_or_else(|| unknown(name))?);
        }
        self.grammar.root = *self.names.get("root").ok_or_else(|| unknown("root"))?;
        // Whoever began such a rule could never end.
        let limit = self.limits.repeats;
        for ((name, _), length) in self.defined.iter().zip(shortest(&self.grammar)) {
            let name = || name.to_string();
            match length {
                None => {
                    let (kind, name) = (KIND, name());
                    return Err(CompileError::Endless { kind, name });
                }
                Some(length) if length > limit => {
                    let (kind, name) = (KIND, name());
                    return Err(CompileError::LongText { kind, name, limit });
                }
                Some(_) => {}
            }
        }
        for rule in 0..self.grammar.rules.len() {
            loop_for_tail(&mut self.grammar, rule);
        }
        Ok(self.grammar)
    }

    fn rule(&mut self) -> Result<(), CompileError> {
        let name = self.name()?;
        self.space(false);
        let Some(rest) = self.rest().strip_prefix("::=") else {
            return Err(self.wrong("a rule's name is followed by ::="));
        };
        self.at = self.source.len() - rest.len();
        self.space(true);
        let body = self.alternatives(false)?;
        let rule = self.rule_named(name);
        match &mut self.defined[rule].1 {
            Some(_) => {
                return Err(CompileError::DuplicateRule {
                    kind: KIND,
                    name: name.to_string(),
                });
            }
            slot => *slot = Some(body),
        }
        match self.peek() {
            None | Some('\n' | '\r') => Ok(()),
            Some(_) => Err(self.wrong("a rule ends with its line")),
        }
    }

    fn rule_named(&mut self, name: &'a str) -> usize {
        *self.names.entry(name).or_insert_with(|| {
            self.defined.push((name, None));
            self.defined.len() - 1
        })
    }

    fn alternatives(&mut self, nested: bool) -> Result<NodeId, CompileError> {
        let mut all = vec![self.sequence(nested)?];
        loop {
            // A line may begin with the bar.
            let before = self.at;
            self.space(true);
            if self.peek() != Some('|') {
                self.at = before;
                break;
            }
            self.at += 1;
            self.space(true);
            all.push(self.sequence(nested)?);
        }
        Ok(match all.as_slice() {
            [one] => *one,
            _ => self.grammar.add(Node::Alt(all)),
        })
    }

    fn sequence(&mut self, nested: bool) -> Result<NodeId, CompileError> {
        let mut items: Vec<NodeId> = Vec::new();
        loop {
            let item = match self.peek() {
                Some('"') => self.literal()?,
                Some('[') => {
                    let ranges = self.class()?;
                    self.grammar.add(Node::Chars(ranges))
                }
                Some('.') => {
                    self.at += 1;
                    self.grammar.add(Node::Chars(vec![(0, LAST)]))
                }
                Some('(') => self.group()?,
                Some('*' | '+' | '?' | '{') => {
                    let Some(last) = items.pop() else {
                        return Err(self.wrong("there is nothing to repeat"));
                    };
                    self.repeat(last)?
                }
                Some('<' | '!') => {
                    return Err(self.wrong("special tokens cannot be asked for"));
                }
                Some(c) if is_name(c) => {
                    let name = self.name()?;
                    let rule = self.rule_named(name);
                    self.grammar.add(Node::Rule(rule))
                }
                _ => break,
            };
            items.push(item);
            self.space(nested);
        }
        Ok(match items.as_slice() {
            [one] => *one,
            _ => self.grammar.add(Node::Seq(items)),
        })
    }

    fn group(&mut self) -> Result<NodeId, CompileError> {
        self.depth += 1;
        if self.depth > self.limits.depth {
            let (line, column) = position(self.source, self.at);
            return Err(CompileError::TooDeep {
                place: format!("line {line}, column {column}"),
                limit: self.limits.depth,
            });
        }
        self.at += 1;
        self.space(true);
        let inner = self.alternatives(true)?;
        self.space(true);
        if self.peek() != Some(')') {
            return Err(self.wrong("a group has no end"));
        }
        self.at += 1;
        self.depth -= 1;
        Ok(inner)
    }

    fn repeat(&mut self, of: NodeId) -> Result<NodeId, CompileError> {
        let sign = self.peek();
        self.at += 1;
        let (least, most) = match sign {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            _ => {
                self.space(true);
                let least = self.count()?;
                self.space(true);
                let most = match self.peek() {
                    Some(',') => {
                        self.at += 1;
                        self.space(true);
                        match self.peek() {
                            Some('}') => None,
                            _ => Some(self.count()?),
                        }
                    }
                    _ => Some(least),
                };
                self.space(true);
                if self.peek() != Some('}') {
                    return Err(self.wrong("a number of repetitions has no end"));
                }
                self.at += 1;
                (least, most)
            }
        };
        if most.is_some_and(|most| most < least) {
            return Err(self.wrong("at most must not be less than at least"));
        }
        Ok(self.grammar.add(Node::Repeat(of, least, most)))
    }

    fn count(&mut self) -> Result<u32, CompileError> {
        let rest = self.rest();
        let end = rest
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(rest.len());
        let digits = rest.get(..end).unwrap_or_default();
        if digits.is_empty() {
            return Err(self.wrong("a number is missing"));
        }
        let count = digits.parse().unwrap_or(u64::MAX);
        if count > self.limits.repeats {
            let (line, column) = position(self.source, self.at);
            return Err(CompileError::TooManyRepeats {
                place: format!("line {line}, column {column}"),
                count,
                limit: self.limits.repeats,
            });
        }
        self.at += end;
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }

    fn literal(&mut self) -> Result<NodeId, CompileError> {
        self.at += 1;
        let mut chars = Vec::new();
        loop {
            match self.peek() {
                None | Some('\n') => return Err(self.wrong("a text has no end")),
                Some('"') => break,
                Some(_) => {
                    let c = self.character()?;
                    chars.push(self.grammar.add(Node::Chars(vec![(c, c)])));
                }
            }
        }
        self.at += 1;
        Ok(match chars.as_slice() {
            [one] => *one,
            _ => self.grammar.add(Node::Seq(chars)),
        })
    }

    fn class(&mut self) -> Result<Ranges, CompileError> {
        self.at += 1;
        let inverse = self.peek() == Some('^');
        if inverse {
            self.at += 1;
        }
        let mut ranges = Vec::new();
        loop {
            match self.peek() {
                None | Some('\n') => return Err(self.wrong("a set of characters has no end")),
                Some(']') => break,
                Some(_) => {}
            }
            let from = self.character()?;
            let to = match self.rest().as_bytes() {
                [b'-', next, ..] if *next != b']' => {
                    self.at += 1;
                    self.character()?
                }
                _ => from,
            };
            if to < from {
                return Err(self.wrong("a range ends before it begins"));
            }
            ranges.push((from, to));
        }
        self.at += 1;
        let ranges = if inverse {
            complement(joined(ranges))
        } else {
            joined(ranges)
        };
        if ranges.is_empty() {
            Err(self.wrong("a set of no characters matches nothing"))
        } else {
            Ok(ranges)
        }
    }

    fn character(&mut self) -> Result<u32, CompileError> {
        let Some(c) = self.peek() else {
            return Err(self.wrong("a character is missing"));
        };
        self.at += c.len_utf8();
        if c != '\\' {
            return Ok(c as u32);
        }
        let start = self.at - 1;
        let escaped = self.escape();
        if escaped.is_none() {
            self.at = start;
        }
        escaped.ok_or_else(|| self.wrong("the escape names no character"))
    }

    /// The character after a backslash.
    fn escape(&mut self) -> Option<u32> {
        let escape = self.peek()?;
        self.at += escape.len_utf8();
        match escape {
            'n' => Some('\n' as u32),
            'r' => Some('\r' as u32),
            't' => Some('\t' as u32),
            '\\' | '"' | '[' | ']' | '-' | '^' | '/' => Some(escape as u32),
            'x' => self.hex(2),
            'u' => self.hex(4),
            'U' => self.hex(8),
            _ => None,
        }
    }

    fn hex(&mut self, digits: usize) -> Option<u32> {
        let text = self.rest().get(..digits)?;
        let digit = text.bytes().all(|b| b.is_ascii_hexdigit());
        let code = u32::from_str_radix(text, 16).ok().filter(|_| digit)?;
        self.at += digits;
        char::from_u32(code).map(u32::from)
    }

    fn name(&mut self) -> Result<&'a str, CompileError> {
        let rest = self.rest();
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        match rest.get(..end) {
            Some(name) if !name.is_empty() => {
                self.at += end;
                Ok(name)
            }
            _ => Err(self.wrong("a rule's name is missing")),
        }
    }

    /// Skips spaces and comments; ends of lines, too, where they mean nothing.
    fn space(&mut self, lines: bool) {
        while let Some(c) = self.peek() {
            match c {
                ' ' | '\t' => self.at += 1,
                '\r' | '\n' if lines => self.at += 1,
                '#' => self.at += self.rest().find('\n').unwrap_or(self.rest().len()),
                _ => break,
            }
        }
    }

    fn rest(&self) -> &'a str {
        self.source.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn wrong(&self, reason: &'static str) -> CompileError {
        let (line, column) = position(self.source, self.at);
        CompileError::Syntax {
            kind: KIND,
            line,
            column,
            reason,
        }
    }
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

/// Ranges in order, without overlap.
fn joined(mut ranges: Ranges) -> Ranges {
    ranges.sort_unstable();
    let mut out: Ranges = Vec::with_capacity(ranges.len());
    for (from, to) in ranges {
        match out.last_mut() {
            Some(last) if from <= last.1.saturating_add(1) => last.1 = last.1.max(to),
            _ => out.push((from, to)),
        }
    }
    out
}

fn complement(ranges: Ranges) -> Ranges {
    let mut out = Vec::with_capacity(ranges.len() + 1);
    let mut next = 0;
    for (from, to) in ranges {
        if from > next {
            out.push((next, from - 1));
        }
        next = to.saturating_add(1);
    }
    if next <= LAST {
        out.push((next, LAST));
    }
    out
}

/// The characters of the shortest text that satisfies each rule; nothing where no text of finite length does.
fn shortest(grammar: &Grammar) -> Vec<Option<u64>> {
    let mut lengths: Vec<Option<u64>> = vec![None; grammar.nodes.len()];
    loop {
        let mut changed = false;
        for node in 0..grammar.nodes.len() {
            let now = match &grammar.nodes[node] {
                Node::Chars(_) => Some(1),
                Node::Repeat(_, 0, _) => Some(0),
                Node::Rule(rule) => lengths[grammar.rules[*rule]],
                Node::Seq(items) => items.iter().try_fold(0u64, |sum, item| {
                    lengths[*item].map(|length| sum.saturating_add(length))
                }),
                Node::Alt(items) => items.iter().filter_map(|item| lengths[*item]).min(),
                Node::Repeat(item, least, _) => {
                    lengths[*item].map(|length| length.saturating_mul(u64::from(*least)))
                }
            };
            changed |= now != lengths[node];
            lengths[node] = now;
        }
        if !changed {
            return grammar.rules.iter().map(|body| lengths[*body]).collect();
        }
    }
}

/// `ws ::= ([ \t] ws)?` and its like are loops: a rule that uses itself only at the very end of what it says.
fn loop_for_tail(grammar: &mut Grammar, rule: usize) {
    let mut branches = Vec::new();
    alternatives(grammar, grammar.rules[rule], &mut branches);
    let (mut again, mut last) = (Vec::new(), Vec::new());
    for branch in branches {
        let Some(branch) = branch else {
            last.push(Vec::new());
            continue;
        };
        let items = match &grammar.nodes[branch] {
            Node::Seq(items) => items.clone(),
            _ => vec![branch],
        };
        match items.split_last() {
            Some((tail, before)) if grammar.nodes[*tail] == Node::Rule(rule) => {
                again.push(before.to_vec());
            }
            _ => last.push(items),
        }
    }
    let all = again.iter().chain(&last).flatten();
    if again.is_empty() || last.is_empty() || all.copied().any(|node| uses(grammar, node, rule)) {
        return;
    }
    let mut join = |branches: Vec<Vec<NodeId>>| {
        let branches = branches
            .into_iter()
            .map(|items| grammar.add(Node::Seq(items)))
            .collect();
        grammar.add(Node::Alt(branches))
    };
    let (again, last) = (join(again), join(last));
    let again = grammar.add(Node::Repeat(again, 0, None));
    grammar.rules[rule] = grammar.add(Node::Seq(vec![again, last]));
}

/// The branches of a node; `None` is the empty one.
fn alternatives(grammar: &Grammar, node: NodeId, out: &mut Vec<Option<NodeId>>) {
    match &grammar.nodes[node] {
        Node::Alt(branches) => {
            for branch in branches {
                alternatives(grammar, *branch, out);
            }
        }
        Node::Repeat(inner, 0, Some(1)) => {
            alternatives(grammar, *inner, out);
            out.push(None);
        }
        _ => out.push(Some(node)),
    }
}

fn uses(grammar: &Grammar, node: NodeId, rule: usize) -> bool {
    grammar.nodes[node] == Node::Rule(rule)
        || grammar
            .children(node)
            .iter()
            .any(|child| uses(grammar, *child, rule))
}
