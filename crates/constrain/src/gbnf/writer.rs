//! Writing Lark.

use std::fmt::Write;

use super::terminals::Terminals;
use super::{Grammar, Node, NodeId};

/// What no `char` is.
const SURROGATES: std::ops::RangeInclusive<u32> = 0xd800..=0xdfff;

pub(super) fn write(grammar: &Grammar, terminals: &Terminals) -> String {
    let mut writer = Writer {
        grammar,
        terminals,
        out: String::from("start: "),
    };
    writer.node(grammar.rules[grammar.root]);
    for rule in &terminals.rules {
        write!(writer.out, "\nr{rule}: ").ok();
        writer.node(grammar.rules[*rule]);
    }
    let mut parts: Vec<_> = terminals.parts.iter().collect();
    parts.sort_unstable();
    for (part, nullable) in parts {
        writer.terminal(*part, *nullable);
    }
    writer.out.push('\n');
    writer.out
}

struct Writer<'a> {
    grammar: &'a Grammar,
    terminals: &'a Terminals,
    out: String,
}

impl Writer<'_> {
    fn node(&mut self, node: NodeId) {
        if let Some(nullable) = self.terminals.parts.get(&node) {
            let empty = self.is_empty(node);
            let sign = if *nullable { "?" } else { "" };
            if empty {
                self.out.push_str("\"\"");
            } else {
                write!(self.out, "T{node}{sign}").ok();
            }
            return;
        }
        match &self.grammar.nodes[node] {
            Node::Chars(_) => {}
            Node::Rule(rule) if self.terminals.rules.contains(rule) => {
                write!(self.out, "r{rule}").ok();
            }
            Node::Rule(rule) => self.node(self.grammar.rules[*rule]),
            Node::Seq(items) => self.list(items, " "),
            Node::Alt(items) => self.list(items, " | "),
            Node::Repeat(item, least, most) => {
                self.list(&[*item], "");
                match (least, most) {
                    (0, None) => self.out.push('*'),
                    (1, None) => self.out.push('+'),
                    (0, Some(1)) => self.out.push('?'),
                    (least, Some(most)) => {
                        write!(self.out, "~{least}..{most}").ok();
                    }
                    (least, None) => {
                        write!(self.out, "~{least}..{least} ").ok();
                        self.list(&[*item], "");
                        self.out.push('*');
                    }
                }
            }
        }
    }

    fn list(&mut self, items: &[NodeId], between: &str) {
        if items.is_empty() {
            return self.out.push_str("\"\"");
        }
        self.out.push('(');
        for (i, item) in items.iter().enumerate() {
            if i > 0 {
                self.out.push_str(between);
            }
            self.node(*item);
        }
        self.out.push(')');
    }

    /// Whether a part is nothing but the empty text.
    fn is_empty(&self, node: NodeId) -> bool {
        match &self.grammar.nodes[node] {
            Node::Chars(_) => false,
            Node::Rule(rule) => self.is_empty(self.grammar.rules[*rule]),
            Node::Seq(items) | Node::Alt(items) => items.iter().all(|item| self.is_empty(*item)),
            Node::Repeat(item, _, most) => *most == Some(0) || self.is_empty(*item),
        }
    }

    /// A terminal is never empty; where it may be, its uses say so.
    fn terminal(&mut self, node: NodeId, nullable: bool) {
        if self.is_empty(node) {
            return;
        }
        write!(self.out, "\nT{node}: ").ok();
        if nullable {
            self.out.push_str("/(?s:.+)/ & ");
        }
        self.out.push('/');
        self.regex(node);
        self.out.push('/');
    }

    fn regex(&mut self, node: NodeId) {
        match &self.grammar.nodes[node] {
            Node::Chars(ranges) => {
                self.out.push('[');
                for (from, to) in ranges {
                    self.range(*from, *to);
                }
                self.out.push(']');
            }
            Node::Rule(rule) => self.regex(self.grammar.rules[*rule]),
            Node::Seq(items) => {
                for item in items {
                    self.regex(*item);
                }
            }
            Node::Alt(items) => {
                self.out.push_str("(?:");
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        self.out.push('|');
                    }
                    self.regex(*item);
                }
                self.out.push(')');
            }
            Node::Repeat(item, least, most) => {
                self.out.push_str("(?:");
                self.regex(*item);
                self.out.push(')');
                match most {
                    Some(most) => write!(self.out, "{{{least},{most}}}").ok(),
                    None => write!(self.out, "{{{least},}}").ok(),
                };
            }
        }
    }

    fn range(&mut self, mut from: u32, mut to: u32) {
        if SURROGATES.contains(&from) {
            from = SURROGATES.end() + 1;
        }
        if SURROGATES.contains(&to) {
            to = SURROGATES.start() - 1;
        }
        if from <= to {
            write!(self.out, "\\x{{{from:x}}}-\\x{{{to:x}}}").ok();
        }
    }
}
