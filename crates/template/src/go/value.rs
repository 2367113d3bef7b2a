//! What Go templates read and make.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A value. Objects are keyed by the names of their JSON; templates may also write these as Go's fields are called,
/// `.ToolCalls` for `tool_calls`.
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(missing_docs, reason = "plain words")]
pub enum GoValue {
    #[default]
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    Text(Arc<str>),
    List(GoList),
    Map(Arc<[(Arc<str>, GoValue)]>),
}

/// A list, or a part of one that shares its items.
#[derive(Clone, Debug)]
pub struct GoList {
    items: Arc<[GoValue]>,
    start: usize,
    end: usize,
}

impl PartialEq for GoList {
    fn eq(&self, other: &Self) -> bool {
        self.items() == other.items()
    }
}

impl GoList {
    /// The items.
    pub fn items(&self) -> &[GoValue] {
        self.items.get(self.start..self.end).unwrap_or(&[])
    }

    /// The items from `from` up to `to`, if there are so many.
    pub(super) fn part(&self, from: usize, to: usize) -> Option<Self> {
        (from <= to && to <= self.items().len()).then(|| Self {
            items: self.items.clone(),
            start: self.start + from,
            end: self.start + to,
        })
    }
}

impl GoValue {
    /// A list.
    pub fn list(items: impl IntoIterator<Item = GoValue>) -> Self {
        let items: Arc<[GoValue]> = items.into_iter().collect();
        let end = items.len();
        Self::List(GoList {
            items,
            start: 0,
            end,
        })
    }

    /// An object.
    pub fn map<K: Into<Arc<str>>>(pairs: impl IntoIterator<Item = (K, GoValue)>) -> Self {
        let pairs = pairs.into_iter().map(|(key, value)| (key.into(), value));
        Self::Map(pairs.collect())
    }

    /// What `if` makes of it: what is empty or zero is false.
    pub(super) fn truth(&self) -> bool {
        match self {
            Self::Nil => false,
            Self::Bool(truth) => *truth,
            Self::Int(number) => *number != 0,
            Self::Float(number) => *number != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::List(list) => !list.items().is_empty(),
            Self::Map(pairs) => !pairs.is_empty(),
        }
    }

    /// The word for its type.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Nil => "nothing",
            Self::Bool(_) => "a truth value",
            Self::Int(_) => "a whole number",
            Self::Float(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Map(_) => "an object",
        }
    }

    /// The member of an object under its own name, or under the one that Go gives it.
    pub(super) fn member(&self, name: &str) -> Option<&GoValue> {
        let Self::Map(pairs) = self else {
            return None;
        };
        let find = |name: &str| pairs.iter().find(|(key, _)| &**key == name);
        find(name)
            .or_else(|| find(&json_name(name)))
            .map(|(_, value)| value)
    }
}

/// `ToolCallID` as JSON has it: `tool_call_id`.
fn json_name(field: &str) -> String {
    let mut out = String::with_capacity(field.len() + 4);
    let letters: Vec<char> = field.chars().collect();
    for (at, &letter) in letters.iter().enumerate() {
        let after_lower = at > 0 && !letters[at - 1].is_ascii_uppercase();
        if letter.is_ascii_uppercase() && after_lower {
            out.push('_');
        }
        out.push(letter.to_ascii_lowercase());
    }
    out
}

impl From<bool> for GoValue {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

impl From<&str> for GoValue {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for GoValue {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}
