//! Reading JSON text.

use super::Json;
use alloc::string::String;
use alloc::vec::Vec;
use core::cell::Cell;
use core::fmt;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Why a text is not JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not valid JSON at line {line}, column {column}: {what}")]
pub struct JsonError {
    /// From 1.
    pub line: usize,
    /// From 1.
    pub column: usize,
    /// What is wrong there.
    pub what: String,
}

impl Json {
    /// Reads a text that is one value.
    pub fn parse(text: &[u8]) -> Result<Self, JsonError> {
        Self::parse_within(text, usize::MAX)
    }

    /// Reads a text that is one value, with at most so many values in it: a list of short ones takes many times the
    /// memory of its text.
    pub fn parse_within(text: &[u8], values: usize) -> Result<Self, JsonError> {
        let left = Cell::new(values);
        let mut deserializer = serde_json::Deserializer::from_slice(text);
        let read = Reader { left: &left }.deserialize(&mut deserializer);
        let read = read.and_then(|value| deserializer.end().map(|()| value));
        read.map_err(|error| {
            let whole = alloc::format!("{error}");
            // serde_json ends its sentence with the place, which stands at the front of ours.
            let what = whole
                .rsplit_once(" at line ")
                .map_or(&*whole, |(what, _)| what);
            JsonError {
                line: error.line(),
                column: error.column(),
                what: what.into(),
            }
        })
    }
}

/// Reads one value, and counts it.
#[derive(Copy, Clone)]
struct Reader<'c> {
    left: &'c Cell<usize>,
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        let Some(left) = self.left.get().checked_sub(1) else {
            return Err(D::Error::custom("there are too many values"));
        };
        self.left.set(left);
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Int(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Json, E> {
        if value.is_finite() {
            Ok(Json::Float(value))
        } else {
            Err(E::custom("number out of range"))
        }
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(Json::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            list.push(item);
        }
        Ok(Json::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(key) = pairs.next_key()? {
            list.push((key, pairs.next_value_seed(self)?));
        }
        Ok(Json::Object(list))
    }
}
