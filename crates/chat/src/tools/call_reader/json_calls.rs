//! Objects with a name and then arguments, one after another or in a list.

use super::super::object_reader::InText;
use super::Step;
use crate::json::Json;
use alloc::string::String;

/// The text around the arguments of such calls.
#[derive(Debug, Default)]
pub(super) struct JsonCalls {
    state: State,
    key: String,
    name: Option<String>,
    /// Whether this call was told.
    told: bool,
    /// Whether this is the object under a call's `function`.
    inner: bool,
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
    Arguments,
    AfterValue,
    /// This is written in another way.
    Lost,
}

impl JsonCalls {
    pub(super) fn step(&mut self, c: char, tools: &[String]) -> Step {
        let state = core::mem::replace(&mut self.state, State::Lost);
        self.state = self.next(state, c, tools);
        match self.state {
            State::Arguments => Step::Begin(self.name.take().unwrap_or_default()),
            State::Between if self.told => Step::Past,
            _ => Step::Within,
        }
    }

    pub(super) fn end_arguments(&mut self) {
        self.told = true;
        self.state = State::AfterValue;
    }

    fn next(&mut self, state: State, c: char, tools: &[String]) -> State {
        let blank = c.is_ascii_whitespace();
        match (state, c) {
            (State::Between, '{') => {
                self.name = None;
                self.told = false;
                State::BeforeKey
            }
            (State::Between, '[' | ']' | ',' | ';') => State::Between,
            (State::BeforeKey, '"') => State::Key(String::new(), InText::Inside),
            (State::BeforeKey | State::AfterValue, '}') => self.leave(),
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
            (State::Other(0, InText::Outside), '}') => self.leave(),
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
        }
    }

    /// The state after a brace that ends an object.
    fn leave(&mut self) -> State {
        if core::mem::take(&mut self.inner) {
            return State::AfterValue;
        }
        if self.told {
            State::Between
        } else {
            // Calls are told in their order: those after one that has to be read as a whole wait for it.
            State::Lost
        }
    }

    /// The state after the first character of a value.
    fn value(&mut self, c: char, tools: &[String]) -> State {
        let known = self.name.as_ref().is_some_and(|name| tools.contains(name));
        match (self.key.as_str(), c) {
            ("name" | "tool_name", '"') if self.name.is_none() && !self.told => {
                State::Name(String::new(), InText::Inside)
            }
            ("arguments" | "parameters" | "args", '{') if known && !self.told => State::Arguments,
            ("function", '{') if self.name.is_none() && !self.told && !self.inner => {
                self.inner = true;
                State::BeforeKey
            }
            ("tool_calls", '[') if self.name.is_none() && !self.told && !self.inner => {
                State::Between
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
