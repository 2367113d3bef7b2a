//! Cuts a Go template into text and the tokens of its actions. Blanks count inside actions: they part arguments.

use super::error::{GoError, GoFault, OnLine, Run};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    Text(Arc<str>),
    /// `{{`
    Left,
    /// `}}`
    Right,
    Space,
    Word(String),
    /// `.Name`
    Field(String),
    /// `$` or `$name`
    Variable(Arc<str>),
    Dot,
    String(Arc<str>),
    Int(i64),
    Float(f64),
    Pipe,
    LeftParen,
    RightParen,
    Comma,
    Declare,
    Assign,
    End,
}

impl Token {
    /// For messages.
    pub(super) fn shown(&self) -> String {
        let text = match self {
            Self::Text(_) => "text",
            Self::Left => "{{",
            Self::Right => "}}",
            Self::Space => "a blank",
            Self::Word(word) => word,
            Self::Field(name) => name,
            Self::Variable(name) => name,
            Self::Dot => ".",
            Self::String(_) => "a string",
            Self::Int(_) | Self::Float(_) => "a number",
            Self::Pipe => "|",
            Self::LeftParen => "(",
            Self::RightParen => ")",
            Self::Comma => ",",
            Self::Declare => ":=",
            Self::Assign => "=",
            Self::End => "the end of the template",
        };
        text.chars().take(40).collect()
    }
}

const BLANKS: [char; 4] = [' ', '\t', '\r', '\n'];

/// All tokens with their lines.
pub(super) fn tokens(source: &str) -> Result<Vec<(Token, u32)>, GoError> {
    let mut lexer = Lexer {
        rest: source,
        line: 1,
        out: Vec::new(),
    };
    lexer.run()?;
    Ok(lexer.out)
}

struct Lexer<'a> {
    rest: &'a str,
    line: u32,
    out: Vec<(Token, u32)>,
}

impl<'a> Lexer<'a> {
    fn take(&mut self, bytes: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(bytes);
        let lines = taken.bytes().filter(|&byte| byte == b'\n').count();
        self.line = self
            .line
            .saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
        self.rest = rest;
        taken
    }

    fn push(&mut self, token: Token) {
        self.out.push((token, self.line));
    }

    fn run(&mut self) -> Result<(), GoError> {
        loop {
            let Some(at) = self.rest.find("{{") else {
                let text = self.take(self.rest.len());
                self.text(text);
                self.push(Token::End);
                return Ok(());
            };
            let text = self.take(at);
            let inside = &self.rest[2..];
            let trims = inside.starts_with('-') && inside[1..].starts_with(BLANKS);
            let text = if trims {
                text.trim_end_matches(BLANKS)
            } else {
                text
            };
            self.text(text);
            self.take(if trims { 4 } else { 2 });
            let line = self.line;
            if self.rest.starts_with("/*") {
                self.comment().on(line)?;
            } else {
                self.push(Token::Left);
                self.action().on(line)?;
            }
        }
    }

    fn text(&mut self, text: &str) {
        if !text.is_empty() {
            self.push(Token::Text(text.into()));
        }
    }

    fn comment(&mut self) -> Run<()> {
        let end = self.rest.find("*/").ok_or(GoFault::OpenComment)?;
        self.take(end + 2);
        match self.closes() {
            Some(trims) => {
                self.close(trims);
                Ok(())
            }
            None => Err(GoFault::OpenComment),
        }
    }

    /// Whether the action ends here, and if so, whether the blanks after it go.
    fn closes(&self) -> Option<bool> {
        let mut letters = self.rest.chars();
        if letters.next().is_some_and(|c| BLANKS.contains(&c))
            && letters.as_str().starts_with("-}}")
        {
            return Some(true);
        }
        self.rest.starts_with("}}").then_some(false)
    }

    fn close(&mut self, trims: bool) {
        self.take(if trims { 4 } else { 2 });
        if trims {
            let blanks = self.rest.len() - self.rest.trim_start_matches(BLANKS).len();
            self.take(blanks);
        }
    }

    fn action(&mut self) -> Run<()> {
        loop {
            if let Some(trims) = self.closes() {
                self.push(Token::Right);
                self.close(trims);
                return Ok(());
            }
            let Some(first) = self.rest.chars().next() else {
                return Err(GoFault::OpenAction);
            };
            let second = self.rest[first.len_utf8()..].chars().next();
            match first {
                c if BLANKS.contains(&c) => self.blanks(),
                '|' => self.sign(Token::Pipe),
                '(' => self.sign(Token::LeftParen),
                ')' => self.sign(Token::RightParen),
                ',' => self.sign(Token::Comma),
                '=' => self.sign(Token::Assign),
                ':' if second == Some('=') => {
                    self.take(1);
                    self.sign(Token::Declare);
                }
                '"' => self.quoted()?,
                '`' => self.raw()?,
                '\'' => self.character()?,
                '$' => {
                    let name = self.name(1);
                    self.push(Token::Variable(name.into()));
                    self.ended()?;
                }
                '.' if !second.is_some_and(|c| c.is_ascii_digit()) => {
                    let token = match self.name(1) {
                        "." => Token::Dot,
                        name => Token::Field(name[1..].to_string()),
                    };
                    self.push(token);
                    self.ended()?;
                }
                '+' | '-' | '.' | '0'..='9' => self.number()?,
                c if c == '_' || c.is_alphabetic() => {
                    let word = self.name(0).to_string();
                    self.push(Token::Word(word));
                    self.ended()?;
                }
                other => return Err(GoFault::Character(other)),
            }
        }
    }

    fn sign(&mut self, token: Token) {
        self.take(1);
        self.push(token);
    }

    /// One token for all blanks but the one that may belong to the end of the action.
    fn blanks(&mut self) {
        while self.rest.starts_with(BLANKS) && self.closes().is_none() {
            self.take(1);
        }
        self.push(Token::Space);
    }

    /// A name after `signs` bytes that begin it.
    fn name(&mut self, signs: usize) -> &'a str {
        let letter = |c: char| c == '_' || c.is_alphanumeric();
        let body = &self.rest[signs..];
        let end = body.find(|c| !letter(c)).unwrap_or(body.len());
        self.take(signs + end)
    }

    /// A name must be followed by something that cannot be a part of it.
    fn ended(&self) -> Run<()> {
        match self.rest.chars().next() {
            None => Ok(()),
            Some(c) if BLANKS.contains(&c) || ".,|:)(".contains(c) => Ok(()),
            Some(_) if self.rest.starts_with("}}") => Ok(()),
            Some(c) => Err(GoFault::Character(c)),
        }
    }

    fn raw(&mut self) -> Run<()> {
        let end = self.rest[1..].find('`').ok_or(GoFault::OpenString)?;
        let text = self.take(end + 2);
        // Go leaves carriage returns out of such strings.
        let text: String = text[1..=end].chars().filter(|&c| c != '\r').collect();
        self.push(Token::String(text.into()));
        Ok(())
    }

    fn quoted(&mut self) -> Run<()> {
        let body = self.until('"')?;
        let text = String::from_utf8(unescape(body, '"')?).map_err(|_| GoFault::Escape)?;
        self.push(Token::String(text.into()));
        Ok(())
    }

    fn character(&mut self) -> Run<()> {
        let body = self.until('\'')?;
        let text = String::from_utf8(unescape(body, '\'')?).map_err(|_| GoFault::Escape)?;
        let mut letters = text.chars();
        match (letters.next(), letters.next()) {
            (Some(letter), None) => self.push(Token::Int(i64::from(u32::from(letter)))),
            _ => return Err(GoFault::Escape),
        }
        Ok(())
    }

    /// What stands between quotes.
    fn until(&mut self, quote: char) -> Run<&'a str> {
        let mut escaped = false;
        for (at, c) in self.rest[1..].char_indices() {
            match c {
                '\n' => break,
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                c if c == quote => {
                    let whole = self.take(at + 2);
                    return Ok(&whole[1..=at]);
                }
                _ => {}
            }
        }
        Err(GoFault::OpenString)
    }

    fn number(&mut self) -> Run<()> {
        let sign = usize::from(self.rest.starts_with(['+', '-']));
        let body = &self.rest[sign..];
        let mut end = 0;
        let mut before = ' ';
        for c in body.chars() {
            let hex = body.starts_with("0x") || body.starts_with("0X");
            let signed = matches!(c, '+' | '-') && matches!(before, 'e' | 'E') && !hex;
            if !(c.is_ascii_alphanumeric() || c == '.' || c == '_' || signed) {
                break;
            }
            before = c;
            end += 1;
        }
        let text = self.take(sign + end);
        let wrong = || GoFault::Number(text.chars().take(40).collect());
        let token = number(text).ok_or_else(wrong)?;
        self.push(token);
        Ok(())
    }
}

fn number(text: &str) -> Option<Token> {
    let plain: String = text.chars().filter(|&c| c != '_').collect();
    let (negative, digits) = match plain.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, plain.strip_prefix('+').unwrap_or(&plain)),
    };
    let lower = digits.to_ascii_lowercase();
    let based = [("0x", 16), ("0b", 2), ("0o", 8)]
        .into_iter()
        .find_map(|(prefix, base)| Some((lower.strip_prefix(prefix)?, base)));
    let octal = lower.len() > 1 && lower.starts_with('0') && !lower.contains(['.', 'e']);
    let (digits, base) = match based {
        Some(found) => found,
        None if octal => (&lower[1..], 8),
        None => (lower.as_str(), 10),
    };
    if digits.is_empty() || digits.starts_with(['+', '-']) {
        return None;
    }
    if base == 10 && lower.contains(['.', 'e']) {
        // Rust also reads words such as `inf`.
        let known = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | '+' | '-');
        let number: f64 = lower.chars().all(known).then(|| lower.parse().ok())??;
        let number = if negative { -number } else { number };
        return number.is_finite().then_some(Token::Float(number));
    }
    let number = i128::from_str_radix(digits, base).ok()?;
    i64::try_from(if negative { -number } else { number })
        .ok()
        .map(Token::Int)
}

/// The bytes of a string in Go's notation.
fn unescape(body: &str, quote: char) -> Run<Vec<u8>> {
    let mut out = Vec::with_capacity(body.len());
    let mut letters = body.chars();
    while let Some(c) = letters.next() {
        if c != '\\' {
            out.extend(c.encode_utf8(&mut [0; 4]).bytes());
            continue;
        }
        let escape = letters.next().ok_or(GoFault::Escape)?;
        let mut digits = |count: usize, base: u32, first: u32| {
            (0..count).try_fold(first, |value, _| {
                let digit = letters.next()?.to_digit(base)?;
                value.checked_mul(base)?.checked_add(digit)
            })
        };
        let byte = match escape {
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 11,
            '\\' => b'\\',
            c if c == quote => quote as u8,
            'x' => {
                let value = digits(2, 16, 0).ok_or(GoFault::Escape)?;
                value as u8
            }
            '0'..='7' => {
                let first = escape.to_digit(8).unwrap_or(0);
                let value = digits(2, 8, first).ok_or(GoFault::Escape)?;
                u8::try_from(value).map_err(|_| GoFault::Escape)?
            }
            'u' | 'U' => {
                let count = if escape == 'u' { 4 } else { 8 };
                let letter = digits(count, 16, 0).and_then(char::from_u32);
                let letter = letter.ok_or(GoFault::Escape)?;
                out.extend(letter.encode_utf8(&mut [0; 4]).bytes());
                continue;
            }
            _ => return Err(GoFault::Escape),
        };
        out.push(byte);
    }
    Ok(out)
}
