//! Reading JSON text.

use super::Json;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

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
        serde_json::from_slice(text).map_err(|error| {
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

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
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
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Json::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut pairs: A) -> Result<Json, A::Error> {
        let mut list = Vec::new();
        while let Some(pair) = pairs.next_entry()? {
            list.push(pair);
        }
        Ok(Json::Object(list))
    }
}
