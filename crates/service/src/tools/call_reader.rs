//! Calls in JSON, read as they are written: a call is known by its name once its arguments begin, and these can be told
//! piece by piece.
//!
//! Only what most models write is followed: objects with a name and then arguments, one after another or in a list.
//! Whatever is written otherwise is left to whoever reads the whole.

use alloc::string::String;
use strata_wire::json::Json;

/// What is known of calls by now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The arguments of a call of this tool begin.
    Begin(String),
    /// The next of the arguments' text.
    Arguments(String),
    /// They are complete.
    End,
}

/// Follows the text of an object up to its last brace.
#[derive(Debug, Default)]
pub(crate) struct ObjectReader {
    depth: usize,
    place: InText,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
enum InText {
    #[default]
    Outside,
    Inside,
    /// After a backslash.
    Escaped,
}

impl InText {
    fn take(&mut self, c: char) {
        *self = match (*self, c) {
            (Self::Inside, '\\') => Self::Escaped,
            (Self::Inside, '"') => Self::Outside,
            (Self::Outside, '"') | (Self::Escaped, _) => Self::Inside,
            (place, _) => place,
        };
    }
}

impl ObjectReader {
    /// Whether its first brace was read.
    pub(crate) fn has_begun(&self) -> bool {
        self.depth > 0
    }

    /// Takes a character of the object, its first brace included, and writes it as JSON has it. Says whether it was the
    /// last.
    pub(crate) fn take(&mut self, c: char, out: &mut String) -> bool {
        let outside = self.place == InText::Outside;
        if !outside && c < ' ' {
            // Models write line breaks into texts, which JSON does not allow.
            let escaped = Json::from(c.encode_utf8(&mut [0; 4]) as &str).text();
            out.push_str(escaped.trim_matches('"'));
            return false;
        }
        out.push(c);
        self.place.take(c);
        match c {
            '{' | '[' if outside => self.depth += 1,
            '}' | ']' if outside => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        outside && self.depth == 0
    }
}

/// Reads calls as they are written.
#[derive(Debug, Default)]
pub(crate) struct CallReader {
    state: State,
    key: String,
    name: Option<String>,
    /// Whether this call's arguments were told.
    told: bool,
    /// Calls that were told, the last perhaps in part.
    calls: usize,
    /// Bytes read up to the end of the last call that was told.
    end: usize,
    read: usize,
}

#[derive(Debug, Default)]
enum State {
    /// Between calls.
    #[default]
    Between,
    /// Before a key, or the end of the call.
    BeforeKey,
    Key(String, InText),
    Colon,
    BeforeValue,
    Name(String, InText),
    /// In a value that does not matter here.
    Other(usize, InText),
    Arguments(ObjectReader),
    AfterValue,
    /// This is written in another way.
    Lost,
}

impl CallReader {
    /// Calls that were told, the last perhaps in part.
    pub(crate) fn calls(&self) -> usize {
        self.calls
    }

    /// Bytes read up to the end of the last call that was told.
    pub(crate) fn end(&self) -> usize {
        self.end
    }

    /// Bytes read.
    pub(crate) fn read(&self) -> usize {
        self.read
    }

    /// Whether the last call's arguments are incomplete.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, State::Arguments(_))
    }

    /// Takes more text. Only calls of these tools are told.
    pub(crate) fn feed(&mut self, text: &str, tools: &[String], tell: &mut dyn FnMut(Part)) {
        let mut written = String::new();
        for c in text.chars() {
            self.read += c.len_utf8();
            if let State::Arguments(object) = &mut self.state {
                if object.take(c, &mut written) {
                    tell(Part::Arguments(core::mem::take(&mut written)));
                    tell(Part::End);
                    self.told = true;
                    self.end = self.read;
                    self.state = State::AfterValue;
                }
                continue;
            }
            self.step(c, tools);
            if let State::Arguments(object) = &mut self.state {
                object.take(c, &mut written);
                self.calls += 1;
                tell(Part::Begin(self.name.take().unwrap_or_default()));
            } else if self.told && matches!(self.state, State::Between) {
                self.end = self.read;
            }
        }
        if !written.is_empty() {
            tell(Part::Arguments(written));
        }
    }

    fn step(&mut self, c: char, tools: &[String]) {
        let blank = c.is_ascii_whitespace();
        let state = core::mem::replace(&mut self.state, State::Lost);
        self.state = match (state, c) {
            (State::Between, '{') => {
                self.name = None;
                self.told = false;
                State::BeforeKey
            }
            (State::Between, '[' | ']' | ',' | ';') => State::Between,
            (State::BeforeKey, '"') => State::Key(String::new(), InText::Inside),
            (State::BeforeKey | State::AfterValue, '}') => State::Between,
            (State::AfterValue, ',') => State::BeforeKey,
            (State::Key(text, place), c) => match string(text, place, c) {
                Ok((text, place)) => State::Key(text, place),
                Err(text) => {
                    self.key = text;
                    State::Colon
                }
            },
            (State::Name(text, place), c) => match string(text, place, c) {
                Ok((text, place)) => State::Name(text, place),
                Err(text) => {
                    self.name = Json::parse(alloc::format!("\"{text}\"").as_bytes())
                        .ok()
                        .and_then(|name| name.as_str().map(String::from));
                    State::AfterValue
                }
            },
            (State::Colon, ':') => State::BeforeValue,
            (State::BeforeValue, c) if !blank => self.value(c, tools),
            (State::Other(0, InText::Outside), ',') => State::BeforeKey,
            (State::Other(0, InText::Outside), '}') => State::Between,
            (State::Other(depth, mut place), c) => {
                let outside = place == InText::Outside;
                place.take(c);
                match c {
                    '{' | '[' if outside => State::Other(depth + 1, place),
                    '}' | ']' if outside => State::Other(depth.saturating_sub(1), place),
                    _ => State::Other(depth, place),
                }
            }
            (state, _) if blank => state,
            _ => State::Lost,
        };
    }

    /// The state after the first character of a value.
    fn value(&self, c: char, tools: &[String]) -> State {
        let known = self.name.as_ref().is_some_and(|name| tools.contains(name));
        match (self.key.as_str(), c) {
            ("name" | "tool_name", '"') if self.name.is_none() => {
                State::Name(String::new(), InText::Inside)
            }
            ("arguments" | "parameters" | "args", '{') if known && !self.told => {
                State::Arguments(ObjectReader::default())
            }
            (_, '"') => State::Other(0, InText::Inside),
            (_, '{' | '[') => State::Other(1, InText::Outside),
            _ => State::Other(0, InText::Outside),
        }
    }
}

/// A text in quotes with one more character; given back as an error when it ends.
fn string(mut text: String, mut place: InText, c: char) -> Result<(String, InText), String> {
    place.take(c);
    if place == InText::Outside {
        return Err(text);
    }
    text.push(c);
    Ok((text, place))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;
    use alloc::vec::Vec;

    fn read(text: &str, step: usize) -> Vec<(String, String, bool)> {
        let (mut reader, tools) = (CallReader::default(), ["f".to_string(), "g".to_string()]);
        let mut calls: Vec<(String, String, bool)> = Vec::new();
        let chars: Vec<char> = text.chars().collect();
        for piece in chars.chunks(step) {
            let piece: String = piece.iter().collect();
            reader.feed(&piece, &tools, &mut |part| match part {
                Part::Begin(name) => calls.push((name, String::new(), false)),
                Part::Arguments(text) => calls.last_mut().unwrap().1.push_str(&text),
                Part::End => calls.last_mut().unwrap().2 = true,
            });
        }
        assert_eq!(reader.read(), text.len());
        calls
    }

    #[test]
    fn arguments_are_told_as_they_are_written() {
        for step in [1, 2, 5, 100] {
            let one = read(
                "\n{\"id\": [1, {\"x\": \"}\"}], \"name\": \"f\", \"arguments\": {\"a\": \"}\\\"]{\", \"b\": [{}]}}\n",
                step,
            );
            let text = "{\"a\": \"}\\\"]{\", \"b\": [{}]}";
            assert_eq!(one, [("f".into(), text.into(), true)]);
            let two = read(
                "[{\"name\":\"f\",\"parameters\":{}}, {\"name\":\"g\",\"arguments\":{\"é\":\"漢\n😀\"}}]",
                step,
            );
            assert_eq!(two[0], ("f".into(), "{}".into(), true));
            assert_eq!(two[1], ("g".into(), "{\"é\":\"漢\\n😀\"}".into(), true));
            let cut = read("{\"name\":\"f\",\"arguments\":{\"a\":[1", step);
            assert_eq!(cut, [("f".into(), "{\"a\":[1".into(), false)]);
        }
    }

    #[test]
    fn what_is_written_otherwise_is_left_alone() {
        for text in [
            "",
            "hello {\"name\":\"f\",\"arguments\":{}}",
            "{\"name\":\"unknown\",\"arguments\":{}}",
            "{\"arguments\":{},\"name\":\"f\"}",
            "{\"name\":\"f\",\"arguments\":\"{}\"}",
            "{\"name\":\"f\",\"arguments\":[1]}",
            "{\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":{}}}",
            "{\"name\":3,\"arguments\":{}}",
            "{name:\"f\"}",
        ] {
            assert_eq!(read(text, 1), [], "{text}");
        }
    }
}
