//! JSON values that keep the order of their keys: a schema or a tool's arguments come back as they were written.
//!
//! Text is read by `serde_json`, which bounds nesting at 128, and written here without spaces.

mod fields;
mod read;
mod write;

pub use fields::{Fields, JsonPath, parse_body};
pub use read::JsonError;

use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec::Vec;

/// A JSON value.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Json {
    /// `null`.
    #[default]
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number past `i64`.
    Large(u64),
    /// Any other number; finite.
    Float(f64),
    /// Text.
    String(String),
    /// A list.
    Array(Vec<Json>),
    /// Keys with values, in the order in which they were written.
    Object(Vec<(String, Json)>),
}

impl Json {
    /// An object of these pairs.
    pub fn object<const N: usize>(pairs: [(&str, Json); N]) -> Self {
        Self::Object(pairs.map(|(key, value)| (key.to_owned(), value)).into())
    }

    /// A list of these values.
    pub fn array(items: impl IntoIterator<Item = Json>) -> Self {
        Self::Array(items.into_iter().collect())
    }

    /// A key that some object in it has twice.
    pub fn repeated_key(&self) -> Option<&str> {
        match self {
            Self::Array(items) => items.iter().find_map(Self::repeated_key),
            Self::Object(pairs) => {
                let mut keys: Vec<&str> = pairs.iter().map(|(key, _)| key.as_str()).collect();
                keys.sort_unstable();
                let twice = keys.array_windows().find(|[a, b]| a == b);
                let inside = || pairs.iter().find_map(|(_, value)| value.repeated_key());
                twice.map(|[key, _]| *key).or_else(inside)
            }
            _ => None,
        }
    }

    /// Adds a pair to an object; anything else stays as it is.
    pub fn push(&mut self, key: &str, value: impl Into<Json>) {
        if let Self::Object(pairs) = self {
            pairs.push((key.to_owned(), value.into()));
        }
    }

    /// The object with one more pair.
    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Json>) -> Self {
        self.push(key, value);
        self
    }

    /// The value of a key of an object. The last one counts if a key comes twice, as in most readers.
    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Self::Object(pairs) => pairs.iter().rev().find(|(k, _)| k == key).map(|(_, v)| v),
            _ => None,
        }
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The items of a list.
    pub fn as_array(&self) -> Option<&[Json]> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The pairs of an object.
    pub fn as_object(&self) -> Option<&[(String, Json)]> {
        match self {
            Self::Object(pairs) => Some(pairs),
            _ => None,
        }
    }

    /// Whether it is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// What kind of value it is, in words.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Int(_) | Self::Large(_) => "an integer",
            Self::Float(_) => "a number",
            Self::String(_) => "a string",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Json {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<u64> for Json {
    fn from(value: u64) -> Self {
        i64::try_from(value).map_or(Self::Large(value), Self::Int)
    }
}

impl From<u32> for Json {
    fn from(value: u32) -> Self {
        Self::Int(value.into())
    }
}

impl From<usize> for Json {
    fn from(value: usize) -> Self {
        (value as u64).into()
    }
}

/// A number that is not finite has no form in JSON and becomes `null`.
impl From<f64> for Json {
    fn from(value: f64) -> Self {
        if value.is_finite() {
            Self::Float(value)
        } else {
            Self::Null
        }
    }
}

/// The shortest decimal that reads back as the same `f32`, not the widened one.
impl From<f32> for Json {
    fn from(value: f32) -> Self {
        let text = alloc::format!("{value}");
        text.parse::<f64>().map_or(Self::Null, Self::from)
    }
}

impl From<&str> for Json {
    fn from(value: &str) -> Self {
        Self::String(value.to_owned())
    }
}

impl From<String> for Json {
    fn from(value: String) -> Self {
        Self::String(value)
    }
}

impl<T: Into<Json>> From<Vec<T>> for Json {
    fn from(items: Vec<T>) -> Self {
        Self::Array(items.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Json>> From<Option<T>> for Json {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

#[cfg(test)]
mod tests;
