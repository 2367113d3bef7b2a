//! Reading Lark and regular expressions as far as it takes to bound them, and to refuse what has no place in a
//! stranger's grammar; `llguidance` does the parsing. Writing them, too.

use serde_json::Value;

use crate::error::CompileError;
use crate::limits::Limits;
use crate::{layout, schema};

const KIND: &str = "Lark grammar";

/// Where a regular expression stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Regexes {
    /// In a schema: it is looked for in the text.
    Schema,
    /// By itself or in a grammar: it matches all of the text.
    Whole,
}

/// Bounds the nesting and the repetitions of a regular expression.
pub(crate) fn check_regex(
    regex: &str,
    place: &str,
    limits: &Limits,
    kind: Regexes,
) -> Result<(), CompileError> {
    let mut class = false;
    // For each open group, how often what is in it repeats; and how often what came last does.
    let mut groups = vec![1u64];
    let mut last = 1;
    let mut chars = regex.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => {
                chars.next();
                last = 1;
            }
            '[' => class = true,
            ']' => class = false,
            _ if class => last = 1,
            '(' => groups.push(1),
            ')' if groups.len() > 1 => last = groups.pop().unwrap_or(1),
            '{' => {
                let rest = regex.get(at + 1..).unwrap_or_default();
                let is_count = |c: char| c.is_ascii_digit() || matches!(c, ',' | ' ');
                let end = rest.find(|c| !is_count(c)).unwrap_or(rest.len());
                last = check_repeats(&rest[..end], last, place, limits)?;
            }
            '}' | '*' | '+' | '?' => {}
            c if c.is_ascii_digit() || c == ',' => {}
            _ => last = 1,
        }
        if let Some(group) = groups.last_mut() {
            *group = last.max(*group);
        }
        if groups.len() > limits.depth + 1 {
            return Err(CompileError::TooDeep {
                place: place.to_string(),
                limit: limits.depth,
            });
        }
    }
    let longest = match kind {
        Regexes::Schema => limits.source / 4,
        Regexes::Whole => limits.source,
    };
    if regex.len() > longest {
        Err(CompileError::TooLong {
            bytes: regex.len(),
            limit: longest,
        })
    } else {
        Ok(())
    }
}

/// How often something repeats with these counts on top of its own.
fn check_repeats(
    counts: &str,
    inner: u64,
    place: &str,
    limits: &Limits,
) -> Result<u64, CompileError> {
    let counts = counts.split(|c: char| !c.is_ascii_digit());
    let counts = counts.filter(|count| !count.is_empty());
    let most = counts.map(|count| count.parse().unwrap_or(u64::MAX)).max();
    let count = inner.saturating_mul(most.unwrap_or(1).max(1));
    if count > limits.repeats {
        Err(CompileError::TooManyRepeats {
            place: place.to_string(),
            count,
            limit: limits.repeats,
        })
    } else {
        Ok(count)
    }
}

/// The whole text: anchors at the ends say nothing more, and the library knows none.
pub(crate) fn without_anchors(regex: &str) -> &str {
    let regex = regex.strip_prefix('^').unwrap_or(regex);
    let Some(rest) = regex.strip_suffix('$') else {
        return regex;
    };
    let escapes = rest.len() - rest.trim_end_matches('\\').len();
    // In `a|b$` the anchor belongs to one branch; that is for the library to refuse.
    if escapes % 2 == 0 && !rest.contains('|') {
        rest
    } else {
        regex
    }
}

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
                let schema = schema::prepare_value(self.json()?, layout::LINES, self.limits)?;
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

/// The line and the column of a byte, from 1.
pub(crate) fn position(source: &str, at: usize) -> (usize, usize) {
    let before = source.get(..at).unwrap_or(source);
    let line = before.matches('\n').count() + 1;
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let column = before.get(start..).unwrap_or_default().chars().count() + 1;
    (line, column)
}
