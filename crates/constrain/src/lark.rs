//! Reading Lark as far as it takes to bound it, and to refuse what has no place in a stranger's grammar; `llguidance` does
//! the parsing. Writing it, too.

use serde_json::Value;
use strata_grammar::patterns::{Regexes, check_regex, check_repeats, position};
use strata_grammar::{CompileError, LINES, Limits, schema};

use crate::source::with_style;

const KIND: &str = "Lark grammar";

/// A text as a string of Lark.
pub(crate) fn literal(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A text as a regular expression between slashes that matches just it.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            c if c.is_ascii_alphanumeric() || c == '_' || c == ' ' => out.push(c),
            c => out.push_str(&format!("\\x{{{:x}}}", c as u32)),
        }
    }
    out
}

/// Checks a stranger's grammar, and gives it back with its schemas prepared.
pub(crate) fn prepare(source: &str, limits: &Limits) -> Result<String, CompileError> {
    let mut scan = Scan {
        source,
        at: 0,
        depth: 0,
        out: String::with_capacity(source.len()),
        limits,
    };
    scan.run()?;
    Ok(scan.out)
}

struct Scan<'a> {
    source: &'a str,
    at: usize,
    depth: usize,
    out: String,
    limits: &'a Limits,
}

impl<'a> Scan<'a> {
    fn run(&mut self) -> Result<(), CompileError> {
        while let Some(c) = self.rest().chars().next() {
            match c {
                '"' => {
                    let end = self
                        .quoted('"')
                        .ok_or_else(|| self.wrong("a string has no end"))?;
                    self.copy(end);
                }
                '/' if self.rest().starts_with("//") => self.copy_line(),
                '#' => self.copy_line(),
                '/' => {
                    let end = self
                        .quoted('/')
                        .ok_or_else(|| self.wrong("a regular expression has no end"))?;
                    let place = self.place();
                    let regex = self
                        .rest()
                        .get(1..end.saturating_sub(1))
                        .unwrap_or_default();
                    check_regex(regex, &place, self.limits, Regexes::Whole)?;
                    self.copy(end);
                }
                '%' => self.directive()?,
                '<' => {
                    return Err(self.wrong("special tokens cannot be asked for"));
                }
                '@' => return Err(self.wrong("there are no other grammars to refer to")),
                '(' | '[' | '{' => {
                    self.depth += 1;
                    if self.depth > self.limits.depth {
                        return Err(CompileError::TooDeep {
                            place: self.place(),
                            limit: self.limits.depth,
                        });
                    }
                    self.copy(1);
                }
                ')' | ']' | '}' => {
                    self.depth = self.depth.saturating_sub(1);
                    self.copy(1);
                }
                c if c.is_ascii_digit() => self.number()?,
                c if c.is_alphabetic() || c == '_' => self.word()?,
                c => self.copy(c.len_utf8()),
            }
        }
        Ok(())
    }

    fn rest(&self) -> &'a str {
        self.source.get(self.at..).unwrap_or_default()
    }

    fn copy(&mut self, bytes: usize) {
        self.out
            .push_str(self.rest().get(..bytes).unwrap_or_default());
        self.at += bytes;
    }

    fn copy_line(&mut self) {
        let end = self.rest().find('\n').unwrap_or(self.rest().len());
        self.copy(end);
    }

    fn copy_while(&mut self, of: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !of(c)).unwrap_or(rest.len());
        self.copy(end);
        rest.get(..end).unwrap_or_default()
    }

    /// Where the string or expression that begins here ends.
    fn quoted(&self, quote: char) -> Option<usize> {
        let mut escaped = false;
        for (at, c) in self.rest().char_indices().skip(1) {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '\n' if quote == '"' => return None,
                c if c == quote => return Some(at + 1),
                _ => {}
            }
        }
        None
    }

    fn number(&mut self) -> Result<(), CompileError> {
        let place = self.place();
        let digits = self.copy_while(|c| c.is_ascii_digit());
        check_repeats(digits, 1, &place, self.limits).map(|_| ())
    }

    /// Names of rules stay; names of attributes, which an equals sign follows, must be those that have an effect here.
    fn word(&mut self) -> Result<(), CompileError> {
        let start = self.at;
        let word = self.copy_while(|c| c.is_alphanumeric() || c == '_' || c == '-');
        let attribute = self.rest().trim_start_matches([' ', '\t']).starts_with('=');
        if attribute && !matches!(word, "max_tokens" | "lazy" | "suffix" | "capture") {
            self.at = start;
            Err(self.wrong("the attribute has no effect here"))
        } else {
            Ok(())
        }
    }

    fn directive(&mut self) -> Result<(), CompileError> {
        let start = self.at;
        self.copy(1);
        let name = self.copy_while(|c| c.is_ascii_alphanumeric());
        match name {
            "json" => {
                let schema = with_style(schema::prepare_value(self.json()?, self.limits)?, LINES);
                self.out.push_str(&format!(" {schema}"));
            }
            "llguidance" => {
                let options = self.json()?;
                let bytes = options.get("allow_invalid_utf8").is_some();
                if bytes {
                    self.at = start;
                    return Err(self.wrong("text is always UTF-8"));
                }
                self.out.push_str(&format!(" {options}"));
            }
            "regex" => {
                let regex = self.json()?;
                self.out.push_str(&format!(" {regex}"));
            }
            "ignore" | "import" | "lark" => {}
            _ => {
                self.at = start;
                return Err(self.wrong("the directive is not supported"));
            }
        }
        Ok(())
    }

    /// The JSON value that begins here; it is read but not copied.
    fn json(&mut self) -> Result<Value, CompileError> {
        let mut values = serde_json::Deserializer::from_str(self.rest()).into_iter::<Value>();
        match values.next() {
            Some(Ok(value)) => {
                self.at += values.byte_offset();
                Ok(value)
            }
            _ => Err(self.wrong("a JSON value must follow")),
        }
    }

    fn position(&self) -> (usize, usize) {
        position(self.source, self.at)
    }

    fn place(&self) -> String {
        let (line, column) = self.position();
        format!("line {line}, column {column}")
    }

    fn wrong(&self, reason: &'static str) -> CompileError {
        let (line, column) = self.position();
        CompileError::Syntax {
            kind: KIND,
            line,
            column,
            reason,
        }
    }
}
