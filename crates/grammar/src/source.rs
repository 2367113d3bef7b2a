//! From grammars to rules.

use crate::error::CompileError;
use crate::gbnf::{self, Effort, Node, NodeId, Terminals};
use crate::grammar::{CallCount, Calls, Grammar, Preamble, ToolCalls};
use crate::json::{self, Problem};
use crate::layout::{LINES, ONE_LINE};
use crate::limits::Limits;
use crate::patterns::{Regexes, check_regex, without_anchors};
use crate::regex::{ENDLESS, Expr, Reading};
use crate::rules::{Builder, Symbol};
use crate::schema;
use crate::vocabulary::Words;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use hashbrown::HashMap;
use serde_json::Value;
use strata_tokenizer::TokenKind;

type Written = Result<Symbol, CompileError>;

/// Checks a grammar and adds its rules.
pub(crate) fn write(
    builder: &mut Builder,
    grammar: &Grammar,
    words: &Words,
    limits: &Limits,
    work: u64,
) -> Written {
    let kind = grammar.kind();
    match grammar {
        Grammar::JsonObject => json(builder, &schema::object(), LINES, (kind, work)),
        Grammar::JsonSchema(source) => {
            let schema = schema::prepare(source, limits)?;
            json(builder, &schema, LINES, (kind, work))
        }
        Grammar::Regex(regex) => {
            let regex = without_anchors(regex);
            if regex.is_empty() {
                return Err(CompileError::Empty {
                    what: "the regular expression",
                });
            }
            check_regex(regex, "the regular expression", limits, Regexes::Whole)?;
            let expr = builder.arena.pattern(regex, Reading::Whole);
            let expr = expr.map_err(|error| CompileError::Refused {
                kind,
                reason: error.to_string(),
            })?;
            Ok(builder.lexeme(expr))
        }
        Grammar::Lark(_) => Err(CompileError::Unknown { kind }),
        Grammar::Gbnf(source) => {
            let effort = Effort {
                check: &|| Ok(()),
                most: 4 * work,
            };
            let (grammar, terminals) = gbnf::read(source, limits, &effort)?;
            let mut writer = GbnfWriter {
                builder,
                grammar: &grammar,
                terminals: &terminals,
                rules: HashMap::new(),
                parts: HashMap::new(),
            };
            Ok(writer.all())
        }
        Grammar::Choice(texts) => choice(builder, texts),
        Grammar::ToolCalls(calls) => tool_calls(builder, calls, words, limits, work),
    }
}

fn json(
    builder: &mut Builder,
    schema: &Value,
    space: &str,
    (kind, work): (&'static str, u64),
) -> Written {
    json::write(builder, schema, space, work).map_err(|problem| match problem {
        Problem::Never(reason) => CompileError::Refused {
            kind,
            reason: format!("no value matches: {reason}"),
        },
        Problem::Refused(reason) => CompileError::Refused { kind, reason },
        Problem::TooLarge => CompileError::TooComplex { kind, limit: work },
    })
}

fn choice(builder: &mut Builder, texts: &[String]) -> Written {
    if texts.is_empty() {
        return Err(CompileError::Empty {
            what: "the list of choices",
        });
    }
    if texts.iter().any(String::is_empty) {
        return Err(CompileError::Empty { what: "a choice" });
    }
    // One lexeme, so that a choice may begin another.
    let texts = texts.iter();
    let texts = texts.map(|text| builder.arena.literal(text.as_bytes()));
    let texts = texts.collect();
    let any = builder.arena.or(texts);
    Ok(builder.lexeme(any))
}

fn tool_calls(
    builder: &mut Builder,
    calls: &ToolCalls,
    words: &Words,
    limits: &Limits,
    work: u64,
) -> Written {
    if calls.tools.is_empty() {
        return Err(CompileError::Empty {
            what: "the list of tools",
        });
    }
    let text = calls.calls == Calls::Optional || calls.preamble == Preamble::Text;
    if text && calls.markers.begin.is_empty() {
        return Err(CompileError::Empty {
            what: "the marker in front of calls that text may precede",
        });
    }
    let mut tools = Vec::new();
    for tool in &calls.tools {
        let schema = schema::prepare(&tool.parameters, limits)?;
        let open = format!(
            "{{\"name\": {}, {}: ",
            Value::from(tool.name.as_str()),
            Value::from(calls.arguments_key.as_str())
        );
        let open = builder.text(&open);
        let arguments = json(builder, &schema, ONE_LINE, ("tool calls", work))?;
        let close = builder.text("}");
        tools.push(builder.join(&[open, arguments, close]));
    }
    let call = builder.select(&tools);
    let mut all = call;
    if calls.count == CallCount::Many {
        let between = marker(builder, &cut_marker(&calls.markers.between, words));
        let more = builder.join(&[between, call]);
        let more = builder.repeat(more, 0, None);
        all = builder.join(&[call, more]);
    }
    let end = marker(builder, &cut_marker(&calls.markers.end, words));
    let all = builder.join(&[all, end]);
    Ok(opening(
        builder,
        calls,
        &cut_marker(&calls.markers.begin, words),
        all,
    ))
}

/// What comes before the calls, or instead of them.
fn opening(builder: &mut Builder, calls: &ToolCalls, begin: &[MarkerPart], all: Symbol) -> Symbol {
    let mut starts = Vec::new();
    match (begin, calls.preamble) {
        // The token ends the text in front of it.
        ([MarkerPart::Token(_), ..], Preamble::Text) => {
            let text = builder.arena.any_text(1);
            let text = builder.lexeme(text);
            let text = builder.optional(text);
            let begin = marker(builder, begin);
            starts.push(builder.join(&[text, begin, all]));
        }
        ([MarkerPart::Text(first), rest @ ..], Preamble::Text) => {
            let text = builder.arena.any_text(0);
            let first = builder.arena.literal(first.as_bytes());
            let opening = builder.arena.seq(text, first);
            let opening = builder.lazy_lexeme(opening);
            let rest = marker(builder, rest);
            starts.push(builder.join(&[opening, rest, all]));
        }
        _ => {
            let begin = marker(builder, begin);
            starts.push(builder.join(&[begin, all]));
        }
    }
    if calls.calls == Calls::Optional {
        let arena = &mut builder.arena;
        let mut plain = arena.any_text(1);
        if let [MarkerPart::Text(first), ..] = begin {
            let any = arena.any_text(0);
            let first = arena.literal(first.as_bytes());
            let mut marked = arena.seq(first, any);
            if calls.preamble == Preamble::Text {
                marked = arena.seq(any, marked);
            }
            let unmarked = arena.not(marked);
            plain = arena.and(vec![plain, unmarked]);
        }
        starts.push(builder.lexeme(plain));
    }
    builder.select(&starts)
}

/// A part of a text around calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MarkerPart {
    /// Characters.
    Text(String),
    /// A control token.
    Token(u32),
}

/// A text around calls, cut at its control tokens.
pub fn cut_marker(text: &str, words: &Words) -> Vec<MarkerPart> {
    let tokenizer = words.tokenizer();
    let mut parts = Vec::new();
    let mut rest = text;
    for id in words.encode_markers(text) {
        if tokenizer.kind(id) != Some(TokenKind::Control) {
            continue;
        }
        let name = tokenizer.token_text(id).unwrap_or_default();
        let Some((before, after)) = rest.split_once(name).filter(|_| !name.is_empty()) else {
            continue;
        };
        if !before.is_empty() {
            parts.push(MarkerPart::Text(before.to_string()));
        }
        parts.push(MarkerPart::Token(id));
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(MarkerPart::Text(rest.to_string()));
    }
    parts
}

fn marker(builder: &mut Builder, parts: &[MarkerPart]) -> Symbol {
    let parts = parts.iter().map(|part| match part {
        MarkerPart::Text(text) => builder.text(text),
        MarkerPart::Token(id) => builder.token(*id),
    });
    let parts: Vec<Symbol> = parts.collect();
    builder.join(&parts)
}

/// Writes GBNF as rules.
struct GbnfWriter<'a> {
    builder: &'a mut Builder,
    grammar: &'a gbnf::Grammar,
    terminals: &'a Terminals,
    rules: HashMap<usize, Symbol>,
    parts: HashMap<NodeId, Symbol>,
}

impl GbnfWriter<'_> {
    fn all(&mut self) -> Symbol {
        let terminals = self.terminals;
        for rule in &terminals.rules {
            let symbol = self.builder.declare();
            self.rules.insert(*rule, symbol);
        }
        let root = self.node(self.grammar.rules[self.grammar.root]);
        for rule in &terminals.rules {
            let meaning = self.node(self.grammar.rules[*rule]);
            self.builder.define(self.rules[rule], meaning);
        }
        root
    }

    fn node(&mut self, node: NodeId) -> Symbol {
        let grammar = self.grammar;
        if let Some(nullable) = self.terminals.parts.get(&node) {
            return self.terminal(node, *nullable);
        }
        match &grammar.nodes[node] {
            Node::Chars(_) => Builder::EMPTY,
            Node::Rule(rule) => match self.rules.get(rule) {
                Some(known) => *known,
                None => self.node(grammar.rules[*rule]),
            },
            Node::Seq(items) => {
                let items: Vec<_> = items.iter().map(|item| self.node(*item)).collect();
                self.builder.join(&items)
            }
            Node::Alt(items) => {
                let items: Vec<_> = items.iter().map(|item| self.node(*item)).collect();
                self.builder.select(&items)
            }
            Node::Repeat(item, least, most) => {
                let item = self.node(*item);
                let most = most.map(|most| most as usize);
                self.builder.repeat(item, *least as usize, most)
            }
        }
    }

    /// A terminal is never empty; where it may be, it can be left out.
    fn terminal(&mut self, node: NodeId, nullable: bool) -> Symbol {
        if let Some(known) = self.parts.get(&node) {
            return *known;
        }
        let mut symbol = Builder::EMPTY;
        if !self.grammar.is_empty(node) {
            let mut expr = self.expr(node);
            if nullable {
                let some = self.builder.arena.any_text(1);
                expr = self.builder.arena.and(vec![some, expr]);
            }
            symbol = self.builder.lexeme(expr);
            if nullable {
                symbol = self.builder.optional(symbol);
            }
        }
        self.parts.insert(node, symbol);
        symbol
    }

    fn expr(&mut self, node: NodeId) -> Expr {
        let grammar = self.grammar;
        match &grammar.nodes[node] {
            Node::Chars(ranges) => {
                let ranges = ranges.iter().filter_map(|(from, to)| scalars(*from, *to));
                let ranges: Vec<_> = ranges.collect();
                self.builder.arena.characters(&ranges)
            }
            Node::Rule(rule) => self.expr(grammar.rules[*rule]),
            Node::Seq(items) => {
                let items: Vec<_> = items.iter().map(|item| self.expr(*item)).collect();
                self.builder.arena.seq_of(&items)
            }
            Node::Alt(items) => {
                let items = items.iter().map(|item| self.expr(*item)).collect();
                self.builder.arena.or(items)
            }
            Node::Repeat(item, least, most) => {
                let item = self.expr(*item);
                let most = most.unwrap_or(ENDLESS);
                self.builder.arena.repeat(item, *least, most)
            }
        }
    }
}

/// Characters from one to another, what is none between them left out.
fn scalars(from: u32, to: u32) -> Option<(char, char)> {
    let from = char::from_u32(from).unwrap_or('\u{e000}');
    let to = char::from_u32(to).unwrap_or('\u{d7ff}');
    (from <= to).then_some((from, to))
}
