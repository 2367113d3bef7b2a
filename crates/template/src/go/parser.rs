//! From tokens to the parts of a Go template. Variables and functions that do not exist are errors here already.

use super::ast::{Ast, Branch, Node, Operand, Pipeline, Setting};
use super::error::{GoError, GoFault};
use super::functions::Function;
use super::lexer::{Token, tokens};
use crate::jinja::{LimitKind, Limits};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Parses a template; also gives the names of all fields that it reads.
pub(super) fn parse(source: &str, limits: &Limits) -> Result<(Ast, BTreeSet<String>), GoError> {
    if source.len() > limits.source_bytes {
        let fault = GoFault::Limit(LimitKind::Source, limits.source_bytes as u64);
        return Err(GoError { line: 1, fault });
    }
    let mut parser = Parser {
        tokens: tokens(source)?,
        at: 0,
        variables: [Arc::from("$")].into(),
        loops: 0,
        depth: 0,
        // Half of the levels, as the source nests in values that nest in it.
        deepest: limits.depth / 2,
        ast: Ast::default(),
        fields: BTreeSet::new(),
    };
    let (nodes, end) = parser.nodes()?;
    match end {
        Ending::Template => {}
        Ending::End => return Err(parser.unexpected("text or an action")),
        Ending::Else | Ending::ElseIf | Ending::ElseWith => {
            return Err(parser.unexpected("text or an action"));
        }
    }
    parser.ast.root = nodes;
    Ok((parser.ast, parser.fields))
}

/// What ends a list of nodes.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Ending {
    Template,
    End,
    Else,
    /// The condition follows.
    ElseIf,
    ElseWith,
}

#[derive(Copy, Clone, PartialEq, Eq)]
enum Control {
    If,
    With,
    Range,
}

struct Parser {
    tokens: Vec<(Token, u32)>,
    at: usize,
    variables: Vec<Arc<str>>,
    loops: u32,
    depth: u32,
    deepest: u32,
    ast: Ast,
    fields: BTreeSet<String>,
}

impl Parser {
    fn peek(&self) -> &Token {
        self.tokens
            .get(self.at)
            .map_or(&Token::End, |(token, _)| token)
    }

    fn line(&self) -> u32 {
        let last = self.tokens.last();
        let here = self.tokens.get(self.at).or(last);
        here.map_or(1, |&(_, line)| line)
    }

    fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    fn spaces(&mut self) {
        while *self.peek() == Token::Space {
            self.at += 1;
        }
    }

    fn fail<T>(&self, fault: GoFault) -> Result<T, GoError> {
        let line = self.line();
        Err(GoError { line, fault })
    }

    fn unexpected(&self, expected: &'static str) -> GoError {
        GoError {
            line: self.line(),
            fault: GoFault::Expected {
                expected,
                found: self.peek().shown(),
            },
        }
    }

    fn need(&mut self, token: &Token, expected: &'static str) -> Result<(), GoError> {
        self.spaces();
        if self.peek() != token {
            return Err(self.unexpected(expected));
        }
        self.at += 1;
        Ok(())
    }

    fn deeper(&mut self) -> Result<(), GoError> {
        self.depth += 1;
        if self.depth > self.deepest {
            self.fail(GoFault::Limit(LimitKind::Depth, self.deepest.into()))
        } else {
            Ok(())
        }
    }

    /// Nodes up to what ends them, which is taken.
    fn nodes(&mut self) -> Result<(Vec<Node>, Ending), GoError> {
        self.deeper()?;
        let mut nodes = Vec::new();
        loop {
            match self.next() {
                Token::Text(text) => nodes.push(Node::Text(text)),
                Token::End => {
                    self.at -= 1;
                    self.depth -= 1;
                    return Ok((nodes, Ending::Template));
                }
                // The lexer gives nothing else outside of actions.
                _ => {
                    self.spaces();
                    if let Some(ending) = self.ending()? {
                        self.depth -= 1;
                        return Ok((nodes, ending));
                    }
                    nodes.extend(self.action()?);
                }
            }
        }
    }

    fn word(&self) -> &str {
        match self.peek() {
            Token::Word(word) => word,
            _ => "",
        }
    }

    fn ending(&mut self) -> Result<Option<Ending>, GoError> {
        match self.word() {
            "end" => {
                self.at += 1;
                self.need(&Token::Right, "}} after end")?;
                Ok(Some(Ending::End))
            }
            "else" => {
                self.at += 1;
                self.spaces();
                let ending = match self.word() {
                    "if" => Ending::ElseIf,
                    "with" => Ending::ElseWith,
                    _ => {
                        self.need(&Token::Right, "}} after else")?;
                        return Ok(Some(Ending::Else));
                    }
                };
                self.at += 1;
                Ok(Some(ending))
            }
            _ => Ok(None),
        }
    }

    /// An action after its `{{`.
    fn action(&mut self) -> Result<Option<Node>, GoError> {
        let line = self.line();
        let word = self.word().to_string();
        let control = match word.as_str() {
            "if" => Some(Control::If),
            "with" => Some(Control::With),
            "range" => Some(Control::Range),
            _ => None,
        };
        if let Some(control) = control {
            self.at += 1;
            return self.control(control).map(Some);
        }
        match word.as_str() {
            "define" => {
                self.at += 1;
                self.define()?;
                Ok(None)
            }
            "template" | "block" => {
                self.at += 1;
                self.template(line, word == "block").map(Some)
            }
            "break" | "continue" => {
                self.at += 1;
                self.need(&Token::Right, "}} after break or continue")?;
                if self.loops == 0 {
                    return self.fail(GoFault::Expected {
                        expected: "range around it",
                        found: word,
                    });
                }
                let leaves = word == "break";
                Ok(Some(if leaves { Node::Break } else { Node::Continue }))
            }
            _ => {
                let pipeline = self.pipeline(&Token::Right, 1)?;
                Ok(Some(Node::Action(pipeline)))
            }
        }
    }

    fn control(&mut self, control: Control) -> Result<Node, GoError> {
        self.deeper()?;
        let mark = self.variables.len();
        let most = if control == Control::Range { 2 } else { 1 };
        let pipeline = self.pipeline(&Token::Right, most)?;
        self.loops += u32::from(control == Control::Range);
        let (then, ending) = self.nodes()?;
        self.loops -= u32::from(control == Control::Range);
        let otherwise = match (ending, control) {
            (Ending::End, _) => Vec::new(),
            (Ending::Else, _) => {
                let (nodes, ending) = self.nodes()?;
                if ending != Ending::End {
                    return Err(self.unexpected("{{end}}"));
                }
                nodes
            }
            // One end is for all of a chain.
            (Ending::ElseIf, Control::If) => [self.control(Control::If)?].into(),
            (Ending::ElseWith, Control::With) => [self.control(Control::With)?].into(),
            _ => return Err(self.unexpected("{{end}}")),
        };
        self.variables.truncate(mark);
        self.depth -= 1;
        let branch = Branch {
            pipeline,
            then,
            otherwise,
        };
        Ok(match control {
            Control::If => Node::If(branch),
            Control::With => Node::With(branch),
            Control::Range => Node::Range(branch),
        })
    }

    fn name(&mut self) -> Result<String, GoError> {
        self.spaces();
        match self.peek() {
            Token::String(name) => {
                let name = name.to_string();
                self.at += 1;
                Ok(name)
            }
            _ => Err(self.unexpected("the name of a template in quotes")),
        }
    }

    fn define(&mut self) -> Result<(), GoError> {
        let name = self.name()?;
        self.need(&Token::Right, "}} after the name")?;
        self.body(name)
    }

    /// What stands between a definition and its end: nothing of what is around it is known there.
    fn body(&mut self, name: String) -> Result<(), GoError> {
        let outer = core::mem::replace(&mut self.variables, [Arc::from("$")].into());
        let loops = core::mem::take(&mut self.loops);
        let (nodes, ending) = self.nodes()?;
        if ending != Ending::End {
            return Err(self.unexpected("{{end}}"));
        }
        self.variables = outer;
        self.loops = loops;
        self.ast.defined.insert(name, nodes);
        Ok(())
    }

    fn template(&mut self, line: u32, defines: bool) -> Result<Node, GoError> {
        let name = self.name()?;
        self.spaces();
        let data = match self.peek() {
            Token::Right if !defines => {
                self.at += 1;
                None
            }
            _ => Some(self.pipeline(&Token::Right, 1)?),
        };
        if defines {
            self.body(name.clone())?;
        }
        Ok(Node::Template { line, name, data })
    }

    /// Commands up to `end`, which is taken, after declarations of `most` variables.
    fn pipeline(&mut self, end: &Token, most: usize) -> Result<Pipeline, GoError> {
        self.deeper()?;
        self.spaces();
        let line = self.line();
        let (setting, variables) = self.declarations(most)?;
        let mut commands: Vec<Vec<Operand>> = Vec::new();
        loop {
            self.spaces();
            if self.peek() == end {
                break;
            }
            commands.push(self.command(end)?);
        }
        let runs = |command: &Vec<Operand>| {
            !matches!(
                command.first(),
                Some(
                    Operand::Dot
                        | Operand::Nil
                        | Operand::Bool(_)
                        | Operand::Int(_)
                        | Operand::Float(_)
                        | Operand::Text(_)
                )
            )
        };
        let nothing = |command: &Vec<Operand>| matches!(command.first(), Some(Operand::Nil));
        // What is given to a value would be lost, and nil is only good as an argument.
        if commands.first().is_none_or(nothing) || !commands.iter().skip(1).all(runs) {
            return Err(self.unexpected("a value or a function"));
        }
        self.at += 1;
        self.depth -= 1;
        Ok(Pipeline {
            line,
            setting,
            variables,
            commands,
        })
    }

    fn declarations(&mut self, most: usize) -> Result<(Setting, Vec<Arc<str>>), GoError> {
        let mut variables = Vec::new();
        let start = self.at;
        while let Token::Variable(name) = self.peek().clone() {
            self.at += 1;
            self.spaces();
            match self.peek() {
                Token::Comma if variables.len() + 1 < most => {
                    variables.push(name);
                    self.at += 1;
                    self.spaces();
                }
                Token::Declare => {
                    variables.push(name);
                    self.at += 1;
                    self.variables.extend(variables.iter().cloned());
                    return Ok((Setting::Declare, variables));
                }
                Token::Assign => {
                    variables.push(name);
                    self.at += 1;
                    for name in &variables {
                        self.known(name)?;
                    }
                    return Ok((Setting::Assign, variables));
                }
                _ if variables.is_empty() => break,
                _ => return Err(self.unexpected(":= or =")),
            }
        }
        if !variables.is_empty() {
            return Err(self.unexpected("a variable"));
        }
        // It was a value.
        self.at = start;
        Ok((Setting::Declare, variables))
    }

    fn known(&self, name: &Arc<str>) -> Result<(), GoError> {
        if self.variables.contains(name) {
            Ok(())
        } else {
            self.fail(GoFault::Variable(name.to_string()))
        }
    }

    fn command(&mut self, end: &Token) -> Result<Vec<Operand>, GoError> {
        let mut operands = Vec::new();
        loop {
            self.spaces();
            if let Some(operand) = self.operand()? {
                operands.push(operand);
            }
            match self.peek() {
                Token::Space => {}
                Token::Pipe => {
                    self.at += 1;
                    self.spaces();
                    // A pipe must lead somewhere.
                    if self.peek() == end {
                        return Err(self.unexpected("a function"));
                    }
                    break;
                }
                token if token == end => break,
                _ => return Err(self.unexpected("an argument")),
            }
        }
        if operands.is_empty() {
            Err(self.unexpected("a value"))
        } else {
            Ok(operands)
        }
    }

    fn operand(&mut self) -> Result<Option<Operand>, GoError> {
        let term = match self.peek().clone() {
            Token::Dot => Operand::Dot,
            Token::String(text) => Operand::Text(text),
            Token::Int(number) => Operand::Int(number),
            Token::Float(number) => Operand::Float(number),
            Token::Field(_) => Operand::Field(Vec::new()),
            Token::Variable(name) => {
                self.known(&name)?;
                Operand::Variable(name, Vec::new())
            }
            Token::Word(word) => match word.as_str() {
                "true" => Operand::Bool(true),
                "false" => Operand::Bool(false),
                "nil" => Operand::Nil,
                word => match Function::named(word) {
                    Some(function) => Operand::Function(function),
                    None => return self.fail(GoFault::Function(word.chars().take(40).collect())),
                },
            },
            Token::LeftParen => {
                self.at += 1;
                let inner = Box::new(self.pipeline(&Token::RightParen, 1)?);
                let fields = self.chain();
                return Ok(Some(if fields.is_empty() {
                    Operand::Pipeline(inner)
                } else {
                    Operand::Chain(inner, fields)
                }));
            }
            _ => return Ok(None),
        };
        if !matches!(term, Operand::Field(_)) {
            self.at += 1;
        }
        let fields = self.chain();
        match term {
            Operand::Field(_) => Ok(Some(Operand::Field(fields))),
            Operand::Variable(name, _) => Ok(Some(Operand::Variable(name, fields))),
            term if fields.is_empty() => Ok(Some(term)),
            _ => self.fail(GoFault::Character('.')),
        }
    }

    /// Fields that follow without a blank.
    fn chain(&mut self) -> Vec<String> {
        let mut fields = Vec::new();
        while let Token::Field(name) = self.peek().clone() {
            self.at += 1;
            self.fields.insert(name.clone());
            fields.push(name);
        }
        fields
    }
}
