//! GBNF, written as Lark.

use std::fmt::Write;

use strata_grammar::gbnf::{self, Effort, Grammar, Node, NodeId, Terminals};
use strata_grammar::{CompileError, Limits};

use crate::limits::Deadline;

/// What no `char` is.
const SURROGATES: std::ops::RangeInclusive<u32> = 0xd800..=0xdfff;

/// The same grammar in Lark.
pub(crate) fn to_lark(source: &str, limits: &Limits) -> Result<String, CompileError> {
    let deadline = Deadline::of(limits);
    let effort = Effort {
        check: &|| deadline.check(),
        most: u64::MAX,
    };
    let (grammar, terminals) = gbnf::read(source, limits, &effort)?;
    Ok(write(&grammar, &terminals))
}

fn write(grammar: &Grammar, terminals: &Terminals) -> String {
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
            let empty = self.grammar.is_empty(node);
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

    /// A terminal is never empty; where it may be, its uses say so.
    fn terminal(&mut self, node: NodeId, nullable: bool) {
        if self.grammar.is_empty(node) {
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

#[cfg(test)]
mod tests {
    use super::to_lark;
    use strata_grammar::Limits;

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
