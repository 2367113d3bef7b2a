//! Source to tokens, by the rules of Jinja's lexer with `trim_blocks` and `lstrip_blocks` on and
//! `keep_trailing_newline` off.
mod literal;

use super::error::{SyntaxFault, TemplateError};
use alloc::string::String;
use alloc::vec::Vec;

/// A token and the line it starts on.
#[derive(Clone, Debug)]
pub(crate) struct Token {
    pub(crate) line: u32,
    pub(crate) kind: TokenKind,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum TokenKind {
    Data(String),
    VariableBegin,
    VariableEnd,
    BlockBegin,
    BlockEnd,
    Name(String),
    Str(String),
    Int(i64),
    Float(f64),
    Op(Op),
    Eof,
}

/// Operators and punctuation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Add,
    Sub,
    Mul,
    Div,
    FloorDiv,
    Mod,
    Pow,
    Tilde,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Assign,
    Dot,
    Comma,
    Colon,
    Semicolon,
    Pipe,
    LParen,
    RParen,
    LBracket,
    RBracket,
    LBrace,
    RBrace,
}

/// Longest first, as the lexer must try them.
const OPERATORS: [(&str, Op); 26] = [
    ("//", Op::FloorDiv),
    ("**", Op::Pow),
    ("==", Op::Eq),
    ("!=", Op::Ne),
    (">=", Op::Ge),
    ("<=", Op::Le),
    ("+", Op::Add),
    ("-", Op::Sub),
    ("/", Op::Div),
    ("*", Op::Mul),
    ("%", Op::Mod),
    ("~", Op::Tilde),
    ("[", Op::LBracket),
    ("]", Op::RBracket),
    ("(", Op::LParen),
    (")", Op::RParen),
    ("{", Op::LBrace),
    ("}", Op::RBrace),
    (">", Op::Gt),
    ("<", Op::Lt),
    ("=", Op::Assign),
    (".", Op::Dot),
    (":", Op::Colon),
    ("|", Op::Pipe),
    (",", Op::Comma),
    (";", Op::Semicolon),
];

impl TokenKind {
    /// How an error message names the token.
    pub(crate) fn describe(&self) -> String {
        match self {
            TokenKind::Data(_) => "template text".into(),
            TokenKind::VariableBegin => "'{{'".into(),
            TokenKind::VariableEnd => "'}}'".into(),
            TokenKind::BlockBegin => "'{%'".into(),
            TokenKind::BlockEnd => "'%}'".into(),
            TokenKind::Name(name) => alloc::format!("'{name}'"),
            TokenKind::Str(_) => "a string".into(),
            TokenKind::Int(_) | TokenKind::Float(_) => "a number".into(),
            TokenKind::Op(op) => {
                let text = OPERATORS.iter().find(|(_, o)| o == op).map_or("", |o| o.0);
                alloc::format!("'{text}'")
            }
            TokenKind::Eof => "the end of the template".into(),
        }
    }
}

/// Python's idea of white space, which also `\s` and `strip` use.
pub(crate) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// The tokens of a template, without the final end.
pub(crate) fn tokenize(source: &str) -> Result<Vec<Token>, TemplateError> {
    let source = normalize(source);
    let mut lexer = Lexer {
        rest: &source,
        line: 1,
        line_starting: true,
        tokens: Vec::new(),
    };
    lexer.run()?;
    let line = lexer.line;
    lexer.tokens.push(Token {
        line,
        kind: TokenKind::Eof,
    });
    Ok(lexer.tokens)
}

/// All line ends as `\n`, and one at the very end dropped.
fn normalize(source: &str) -> String {
    let mut text = String::with_capacity(source.len());
    let mut chars = source.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\r' {
            chars.next_if_eq(&'\n');
            text.push('\n');
        } else {
            text.push(c);
        }
    }
    if text.ends_with('\n') {
        text.pop();
    }
    text
}

/// The sign after an opening or before a closing delimiter.
#[derive(Clone, Copy, PartialEq)]
enum Sign {
    Minus,
    Plus,
    None,
}

#[derive(Clone, Copy, PartialEq)]
enum Tag {
    Variable,
    Block,
    Comment,
}

struct Lexer<'s> {
    rest: &'s str,
    line: u32,
    /// Whether what was read last ended a line.
    line_starting: bool,
    tokens: Vec<Token>,
}

impl<'s> Lexer<'s> {
    fn fail<T>(&self, fault: SyntaxFault) -> Result<T, TemplateError> {
        Err(TemplateError::Syntax {
            line: self.line,
            fault,
        })
    }

    fn emit(&mut self, kind: TokenKind) {
        self.tokens.push(Token {
            line: self.line,
            kind,
        });
    }

    /// Moves over `bytes` of the source and counts its lines.
    fn advance(&mut self, bytes: usize) {
        let (taken, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        let lines = taken.bytes().filter(|&b| b == b'\n').count();
        self.line = self
            .line
            .saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
        if let Some(last) = taken.bytes().last() {
            self.line_starting = last == b'\n';
        }
        self.rest = rest;
    }

    fn skip_space(&mut self) {
        let trimmed = self.rest.trim_start_matches(is_space);
        self.advance(self.rest.len() - trimmed.len());
    }

    fn run(&mut self) -> Result<(), TemplateError> {
        while !self.rest.is_empty() {
            let Some((at, tag)) = next_tag(self.rest) else {
                let text = self.rest;
                self.emit(TokenKind::Data(text.into()));
                self.advance(text.len());
                break;
            };
            let text = self.rest.get(..at).unwrap_or("");
            let after = self.rest.get(at + 2..).unwrap_or("");
            let (sign, signed) = sign(after);
            let raw = (tag == Tag::Block).then(|| raw_begin(after)).flatten();
            let kept = self.kept(text, sign, tag);
            if !kept.is_empty() {
                self.emit(TokenKind::Data(kept.into()));
            }
            self.advance(at);
            if let Some(len) = raw {
                self.advance(2 + len);
                self.raw()?;
                continue;
            }
            match tag {
                Tag::Comment => {
                    self.advance(2 + signed);
                    self.comment()?;
                }
                Tag::Variable => {
                    self.emit(TokenKind::VariableBegin);
                    self.advance(2 + signed);
                    self.expression(tag)?;
                }
                Tag::Block => {
                    self.emit(TokenKind::BlockBegin);
                    self.advance(2 + signed);
                    self.expression(tag)?;
                }
            }
        }
        Ok(())
    }

    /// The text before a tag, less the white space that the tag takes away.
    fn kept(&self, text: &'s str, sign: Sign, tag: Tag) -> &'s str {
        if sign == Sign::Minus {
            return text.trim_end_matches(is_space);
        }
        if sign == Sign::Plus || tag == Tag::Variable {
            return text;
        }
        let line_start = text.rfind('\n').map_or(0, |at| at + 1);
        let (before, indent) = text.split_at_checked(line_start).unwrap_or((text, ""));
        if (line_start > 0 || self.line_starting) && indent.chars().all(is_space) {
            before
        } else {
            text
        }
    }

    fn comment(&mut self) -> Result<(), TemplateError> {
        let Some(end) = self.rest.find("#}") else {
            if self.rest.is_empty() {
                return Ok(());
            }
            return self.fail(SyntaxFault::OpenComment);
        };
        let before = self.rest.get(..end).unwrap_or("").bytes().last();
        self.advance(end + 2);
        match before {
            Some(b'-') => self.skip_space(),
            Some(b'+') => {}
            _ => self.skip_newline(),
        }
        Ok(())
    }

    fn skip_newline(&mut self) {
        if self.rest.starts_with('\n') {
            self.advance(1);
        }
    }

    /// Everything to `{% endraw %}` is text.
    fn raw(&mut self) -> Result<(), TemplateError> {
        let mut from = 0;
        while let Some(found) = self.rest.get(from..).and_then(|rest| rest.find("{%")) {
            let at = from + found;
            let after = self.rest.get(at + 2..).unwrap_or("");
            let (sign, signed) = sign(after);
            let inner = after
                .get(signed..)
                .unwrap_or("")
                .trim_start_matches(is_space);
            if let Some(end) = inner.strip_prefix("endraw") {
                let end = end.trim_start_matches(is_space);
                let (close, end) = match end.as_bytes().first() {
                    Some(b'-') => (Sign::Minus, end.get(1..).unwrap_or("")),
                    Some(b'+') => (Sign::Plus, end.get(1..).unwrap_or("")),
                    _ => (Sign::None, end),
                };
                if let Some(rest) = end.strip_prefix("%}") {
                    let text = self.rest.get(..at).unwrap_or("");
                    let kept = self.kept(text, sign, Tag::Block);
                    if !kept.is_empty() {
                        self.emit(TokenKind::Data(kept.into()));
                    }
                    self.advance(self.rest.len() - rest.len());
                    match close {
                        Sign::Minus => self.skip_space(),
                        Sign::Plus => {}
                        Sign::None => self.skip_newline(),
                    }
                    return Ok(());
                }
            }
            from = at + 2;
        }
        if self.rest.is_empty() {
            return Ok(());
        }
        self.fail(SyntaxFault::OpenRaw)
    }

    /// The tokens inside `{{ … }}` or `{% … %}`.
    fn expression(&mut self, tag: Tag) -> Result<(), TemplateError> {
        let mut open: Vec<Op> = Vec::new();
        while !self.rest.is_empty() {
            if open.is_empty() && self.close(tag) {
                return Ok(());
            }
            let before = self.rest.len();
            self.skip_space();
            if self.rest.len() != before {
                continue;
            }
            if let Some((kind, len)) = literal::number(self.rest, self.after_dot()) {
                let Some(kind) = kind else {
                    return self.fail(SyntaxFault::Number);
                };
                self.emit(kind);
                self.advance(len);
            } else if let Some(len) = literal::name(self.rest) {
                let name = self.rest.get(..len).unwrap_or("");
                self.emit(TokenKind::Name(name.into()));
                self.advance(len);
            } else if self.rest.starts_with(['\'', '"']) {
                let Some(len) = literal::string_len(self.rest) else {
                    return self.fail(SyntaxFault::OpenString);
                };
                let body = self.rest.get(1..len - 1).unwrap_or("");
                let Some(text) = literal::unescape(body) else {
                    return self.fail(SyntaxFault::Escape);
                };
                self.emit(TokenKind::Str(text));
                self.advance(len);
            } else {
                self.operator(&mut open)?;
            }
        }
        Ok(())
    }

    fn after_dot(&self) -> bool {
        matches!(
            self.tokens.last().map(|token| &token.kind),
            Some(TokenKind::Op(Op::Dot))
        )
    }

    /// Reads the closing delimiter of `tag` if it is next.
    fn close(&mut self, tag: Tag) -> bool {
        let (end, kind) = match tag {
            Tag::Variable => ("}}", TokenKind::VariableEnd),
            _ => ("%}", TokenKind::BlockEnd),
        };
        let plain = self.rest.starts_with(end);
        let signed = self.rest.get(1..).is_some_and(|rest| rest.starts_with(end));
        let minus = signed && self.rest.starts_with('-');
        let plus = signed && self.rest.starts_with('+') && tag == Tag::Block;
        if !(plain || minus || plus) {
            return false;
        }
        self.emit(kind);
        self.advance(if plain { 2 } else { 3 });
        if minus {
            self.skip_space();
        } else if plain && tag == Tag::Block {
            self.skip_newline();
        }
        true
    }

    fn operator(&mut self, open: &mut Vec<Op>) -> Result<(), TemplateError> {
        let found = OPERATORS
            .iter()
            .find(|(text, _)| self.rest.starts_with(text));
        let Some(&(text, op)) = found else {
            let c = self.rest.chars().next().unwrap_or(' ');
            return self.fail(SyntaxFault::Character(c));
        };
        match op {
            Op::LBrace => open.push(Op::RBrace),
            Op::LParen => open.push(Op::RParen),
            Op::LBracket => open.push(Op::RBracket),
            Op::RBrace | Op::RParen | Op::RBracket if open.pop() != Some(op) => {
                let c = text.chars().next().unwrap_or(' ');
                return self.fail(SyntaxFault::Bracket(c));
            }
            _ => {}
        }
        self.emit(TokenKind::Op(op));
        self.advance(text.len());
        Ok(())
    }
}

/// The next opening delimiter and where it is.
fn next_tag(text: &str) -> Option<(usize, Tag)> {
    let bytes = text.as_bytes();
    bytes
        .windows(2)
        .enumerate()
        .find_map(|(at, pair)| match pair {
            b"{{" => Some((at, Tag::Variable)),
            b"{%" => Some((at, Tag::Block)),
            b"{#" => Some((at, Tag::Comment)),
            _ => None,
        })
}

fn sign(after: &str) -> (Sign, usize) {
    match after.as_bytes().first() {
        Some(b'-') => (Sign::Minus, 1),
        Some(b'+') => (Sign::Plus, 1),
        _ => (Sign::None, 0),
    }
}

/// The length of `… raw %}` after `{%`, with the white space that a `-` takes.
fn raw_begin(after: &str) -> Option<usize> {
    let (_, signed) = sign(after);
    let inner = after.get(signed..)?.trim_start_matches(is_space);
    let end = inner.strip_prefix("raw")?.trim_start_matches(is_space);
    let rest = match end.strip_prefix("-%}") {
        Some(rest) => rest.trim_start_matches(is_space),
        None => end.strip_prefix("%}")?,
    };
    Some(after.len() - rest.len())
}
