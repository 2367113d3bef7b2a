//! Taking an object apart field by field, so that what is wrong or left over can be named.
//!
//! A field that is absent or `null` counts as not given, as in every client library that writes its defaults out.

use super::Json;
use crate::fault::Fault;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::RangeInclusive;

/// Where in a body something stands: `messages[2].content`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JsonPath(String);

impl JsonPath {
    /// The body itself.
    pub fn root() -> Self {
        Self::default()
    }

    /// A field of what stands here.
    pub fn field(&self, name: &str) -> Self {
        if self.0.is_empty() {
            Self(name.into())
        } else {
            Self(alloc::format!("{}.{name}", self.0))
        }
    }

    /// An item of the list that stands here.
    pub fn item(&self, index: usize) -> Self {
        Self(alloc::format!("{}[{index}]", self.0))
    }

    /// What was expected here and what was found.
    pub fn expected(&self, what: &str, found: &Json) -> Fault {
        Fault::field(self, format_args!("must be {what}, not {}", found.kind()))
    }

    /// A text, or a fault that names the path.
    pub fn string(&self, value: Json) -> Result<String, Fault> {
        match value {
            Json::String(text) => Ok(text),
            other => Err(self.expected("a string", &other)),
        }
    }

    /// A whole number in a range, or a fault that names the path.
    pub fn integer(&self, value: &Json, range: RangeInclusive<i64>) -> Result<i64, Fault> {
        let number = match *value {
            Json::Int(number) => Some(number),
            // Many clients write 5.0 for 5.
            Json::Float(number) if number as i64 as f64 == number => Some(number as i64),
            Json::Large(_) | Json::Float(_) => None,
            ref other => return Err(self.expected("an integer", other)),
        };
        number
            .filter(|number| range.contains(number))
            .ok_or_else(|| {
                let (low, high) = (range.start(), range.end());
                match *high {
                    i64::MAX => {
                        Fault::field(self, format_args!("must be an integer of at least {low}"))
                    }
                    _ => Fault::field(
                        self,
                        format_args!("must be an integer from {low} to {high}"),
                    ),
                }
            })
    }

    /// A number in a range, or a fault that names the path.
    pub fn number(&self, value: &Json, range: RangeInclusive<f64>) -> Result<f64, Fault> {
        let number = match *value {
            Json::Int(number) => number as f64,
            Json::Large(number) => number as f64,
            Json::Float(number) => number,
            ref other => return Err(self.expected("a number", other)),
        };
        if range.contains(&number) {
            return Ok(number);
        }
        let (low, high) = (range.start(), range.end());
        Err(Fault::field(
            self,
            format_args!("must be a number from {low} to {high}"),
        ))
    }

    /// A truth value, or a fault that names the path.
    pub fn boolean(&self, value: &Json) -> Result<bool, Fault> {
        match value {
            Json::Bool(value) => Ok(*value),
            other => Err(self.expected("a boolean", other)),
        }
    }

    /// A list's items with their places, or a fault that names the path.
    pub fn list(
        &self,
        value: Json,
    ) -> Result<impl Iterator<Item = (JsonPath, Json)> + use<>, Fault> {
        match value {
            Json::Array(items) => {
                let path = self.clone();
                let numbered = items.into_iter().enumerate();
                Ok(numbered.map(move |(i, item)| (path.item(i), item)))
            }
            other => Err(self.expected("an array", &other)),
        }
    }

    /// A list of texts, or a fault that names the path.
    pub fn strings(&self, value: Json) -> Result<Vec<String>, Fault> {
        self.list(value)?
            .map(|(path, item)| path.string(item))
            .collect()
    }

    /// An object's fields, or a fault that names the path.
    pub fn object(&self, value: Json) -> Result<Fields, Fault> {
        Fields::new(value, self.clone())
    }
}

impl fmt::Display for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The fields of an object that have not been taken yet.
#[derive(Debug)]
pub struct Fields {
    path: JsonPath,
    pairs: Vec<(String, Json)>,
}

impl Fields {
    /// The fields of a value that must be an object.
    pub fn new(value: Json, path: JsonPath) -> Result<Self, Fault> {
        match value {
            Json::Object(pairs) => Ok(Self { path, pairs }),
            other if path == JsonPath::root() => Err(Fault::bad_request(format_args!(
                "the body must be a JSON object, not {}",
                other.kind()
            ))),
            other => Err(path.expected("an object", &other)),
        }
    }

    /// Reads a body that must be an object.
    pub fn parse(body: &[u8]) -> Result<Self, Fault> {
        let value = Json::parse(body)
            .map_err(|error| Fault::bad_request(format_args!("the body is {error}")))?;
        Self::new(value, JsonPath::root())
    }

    /// Where the object stands.
    pub fn path(&self) -> &JsonPath {
        &self.path
    }

    /// Where a field of it stands.
    pub fn at(&self, name: &str) -> JsonPath {
        self.path.field(name)
    }

    /// A field that stays where it is.
    pub fn peek(&self, name: &str) -> Option<&Json> {
        let mut pairs = self.pairs.iter().rev();
        let found = pairs.find(|(key, _)| key == name).map(|(_, value)| value);
        found.filter(|value| !value.is_null())
    }

    /// Takes a field out, whatever it is. The last one counts if it comes twice.
    pub fn take(&mut self, name: &str) -> Option<Json> {
        let mut taken = None;
        self.pairs.retain_mut(|(key, value)| {
            let found = key == name;
            if found {
                taken = Some(core::mem::take(value));
            }
            !found
        });
        taken.filter(|value| !value.is_null())
    }

    /// A text that must be there.
    pub fn string(&mut self, name: &str) -> Result<String, Fault> {
        self.maybe_string(name)?.ok_or_else(|| self.missing(name))
    }

    /// A text.
    pub fn maybe_string(&mut self, name: &str) -> Result<Option<String>, Fault> {
        self.take(name)
            .map(|value| self.at(name).string(value))
            .transpose()
    }

    /// A truth value.
    pub fn maybe_boolean(&mut self, name: &str) -> Result<Option<bool>, Fault> {
        self.take(name)
            .map(|value| self.at(name).boolean(&value))
            .transpose()
    }

    /// A whole number in a range.
    pub fn maybe_integer(
        &mut self,
        name: &str,
        range: RangeInclusive<i64>,
    ) -> Result<Option<i64>, Fault> {
        self.take(name)
            .map(|value| self.at(name).integer(&value, range))
            .transpose()
    }

    /// A number in a range.
    pub fn maybe_number(
        &mut self,
        name: &str,
        range: RangeInclusive<f64>,
    ) -> Result<Option<f64>, Fault> {
        self.take(name)
            .map(|value| self.at(name).number(&value, range))
            .transpose()
    }

    /// An object's fields.
    pub fn maybe_object(&mut self, name: &str) -> Result<Option<Fields>, Fault> {
        self.take(name)
            .map(|value| self.at(name).object(value))
            .transpose()
    }

    /// A list's items with their places; none if it is not given.
    pub fn items(&mut self, name: &str) -> Result<Vec<(JsonPath, Json)>, Fault> {
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(value) => Ok(self.at(name).list(value)?.collect()),
        }
    }

    /// One of these words.
    pub fn maybe_word<T: Copy>(
        &mut self,
        name: &str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, Fault> {
        let Some(word) = self.maybe_string(name)? else {
            return Ok(None);
        };
        let found = words.iter().find(|(known, _)| *known == word);
        found.map(|&(_, value)| Some(value)).ok_or_else(|| {
            let known: Vec<&str> = words.iter().map(|&(word, _)| word).collect();
            Fault::field(
                &self.at(name),
                format_args!("must be one of {}, not {word:?}", known.join(", ")),
            )
        })
    }

    /// Drops fields that only inform and change nothing about an answer.
    pub fn ignore(&mut self, names: &[&str]) {
        self.pairs.retain(|(key, _)| !names.contains(&key.as_str()));
    }

    /// A field that must be there is not.
    pub fn missing(&self, name: &str) -> Fault {
        Fault::field(&self.at(name), format_args!("is required"))
    }

    /// Refuses what was not taken: a field that is not honoured must not be passed over in silence.
    pub fn finish(self) -> Result<(), Fault> {
        match self.pairs.iter().find(|(_, value)| !value.is_null()) {
            None => Ok(()),
            Some((name, _)) => Err(Fault::field(
                &self.path.field(name),
                format_args!("is not supported"),
            )),
        }
    }
}
