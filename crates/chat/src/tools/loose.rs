//! Calls that are not JSON but nearly: Gemma 4's, `call:name{key:<|"|>text<|"|>,other:1}`, and Python's, which LFM2 writes,
//! `[name(key="text", other=1)]`. They are brought into JSON's form and read as such.

use super::block::Named;
use crate::json::Json;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// Gemma's quotation mark.
const QUOTE: &str = "<|\"|>";

/// How deep lists and objects may stand in each other.
const DEEPEST: usize = 64;

/// What is left to read.
struct Loose<'t> {
    rest: &'t str,
}

impl<'t> Loose<'t> {
    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    /// Takes a mark, if it comes next.
    fn take(&mut self, mark: &str) -> bool {
        self.skip_space();
        match self.rest.strip_prefix(mark) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// A name, or a number: letters, digits and what may stand between them.
    fn word(&mut self) -> Option<&'t str> {
        self.skip_space();
        let inside = |c: char| c.is_alphanumeric() || "_-.+".contains(c);
        let end = self.rest.find(|c| !inside(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        (!word.is_empty()).then_some(word)
    }

    /// A text between quotation marks of any kind, if one comes next.
    fn text(&mut self) -> Option<String> {
        if self.take(QUOTE) {
            let (text, rest) = self.rest.split_once(QUOTE)?;
            self.rest = rest;
            return Some(text.to_string());
        }
        let quote = self.rest.chars().next().filter(|c| "\"'".contains(*c))?;
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                c if c == quote => {
                    self.rest = &self.rest[at + 1..];
                    return Some(text);
                }
                '\\' => match chars.next()?.1 {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    'r' => text.push('\r'),
                    'u' => {
                        let digits: String = chars.by_ref().take(4).map(|(_, c)| c).collect();
                        let code = u32::from_str_radix(&digits, 16).ok()?;
                        text.push(char::from_u32(code)?);
                    }
                    other => text.push(other),
                },
                c => text.push(c),
            }
        }
        None
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        if depth > DEEPEST {
            return None;
        }
        if self.take("[") {
            let mut items = Vec::new();
            while !self.take("]") {
                items.push(self.value(depth + 1)?);
                self.take(",");
            }
            return Some(Json::Array(items));
        }
        if self.take("{") {
            return self.pairs(":", "}", depth);
        }
        self.skip_space();
        if let Some(text) = self.text() {
            return Some(Json::String(text));
        }
        let word = self.word()?;
        Json::parse(match word {
            "True" => b"true",
            "False" => b"false",
            "None" => b"null",
            word => word.as_bytes(),
        })
        .ok()
    }

    /// Keys and values up to an end.
    fn pairs(&mut self, between: &str, end: &str, depth: usize) -> Option<Json> {
        let mut pairs = Vec::new();
        while !self.take(end) {
            self.skip_space();
            let key = match self.text() {
                Some(key) => key,
                None => self.word()?.to_string(),
            };
            self.take(between).then_some(())?;
            pairs.push((key, self.value(depth + 1)?));
            self.take(",");
        }
        Some(Json::Object(pairs))
    }
}

/// `call:name{…}`, once or several times.
pub(crate) fn gemma(text: &str) -> Option<Vec<Named>> {
    let mut loose = Loose { rest: text };
    let mut calls = Vec::new();
    while loose.take("call:") {
        let name = loose.word()?.to_string();
        loose.take("{").then_some(())?;
        calls.push((name, loose.pairs(":", "}", 0)?));
    }
    let whole = loose.rest.trim().is_empty() && !calls.is_empty();
    whole.then_some(calls)
}

/// `[name(key=value, …), …]`.
pub(crate) fn python(text: &str) -> Option<Vec<Named>> {
    let mut loose = Loose { rest: text };
    loose.take("[").then_some(())?;
    let mut calls = Vec::new();
    while !loose.take("]") {
        let name = loose.word()?.to_string();
        loose.take("(").then_some(())?;
        calls.push((name, loose.pairs("=", ")", 0)?));
        loose.take(",");
    }
    let whole = loose.rest.trim().is_empty() && !calls.is_empty();
    whole.then_some(calls)
}

/// `name(key=value, …)` on a line each.
pub(crate) fn python_lines(text: &str) -> Option<Vec<Named>> {
    let mut loose = Loose { rest: text };
    let mut calls = Vec::new();
    while !loose.rest.trim().is_empty() {
        let name = loose.word()?.to_string();
        loose.take("(").then_some(())?;
        calls.push((name, loose.pairs("=", ")", 0)?));
    }
    (!calls.is_empty()).then_some(calls)
}

/// A list, an object or a constant as Python writes it.
pub(crate) fn literal(text: &str) -> Option<Json> {
    let is_one = text.starts_with(['[', '{']) || ["True", "False", "None"].contains(&text);
    let mut loose = Loose { rest: text };
    let value = is_one.then(|| loose.value(0))??;
    loose.rest.trim().is_empty().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(calls: Option<Vec<Named>>) -> String {
        let calls = calls.expect("calls");
        let one = |(name, arguments): Named| alloc::format!("{name} {arguments}");
        calls.into_iter().map(one).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn gemma_quotes_with_marks_of_its_own() {
        let text =
            "call:find_flights{from:<|\"|>São \"Paulo\"<|\"|>,stops:[1,2],open:true,who:{age:3}}";
        assert_eq!(
            shown(gemma(text)),
            r#"find_flights {"from":"São \"Paulo\"","stops":[1,2],"open":true,"who":{"age":3}}"#
        );
        for bad in ["", "call:f", "call:f{a}", "call:f{a:1", "call:f{} more"] {
            assert_eq!(gemma(bad), None, "{bad}");
        }
    }

    #[test]
    fn python_calls_are_read() {
        let text = r#"[f(a="x, \"y\"", b=-1.5, c=None), g(), h(k=['it\'s', True])]"#;
        assert_eq!(
            shown(python(text)),
            r#"f {"a":"x, \"y\"","b":-1.5,"c":null}; g {}; h {"k":["it's",true]}"#
        );
        for bad in ["[]", "f(a=1)", "[f(1)]", "[f(a=1]", "[f(a=1)] and more"] {
            assert_eq!(python(bad), None, "{bad}");
        }
        let lines = "f(a='x', b=[1])\ng()\n";
        assert_eq!(shown(python_lines(lines)), r#"f {"a":"x","b":[1]}; g {}"#);
        for bad in ["", "f", "f(a=1)\nand more", "f(1)"] {
            assert_eq!(python_lines(bad), None, "{bad}");
        }
        let deep = alloc::format!("[f(a={})]", "[".repeat(5000));
        assert_eq!(python(&deep), None);
    }
}
