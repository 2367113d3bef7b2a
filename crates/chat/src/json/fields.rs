//! Reading an object field by field, so that errors can name what is wrong or left over.
//!
//! `null` counts as absent: many client libraries write out all their defaults.

use super::Json;
use crate::budgets::VALUES_OF_A_BODY;
use crate::fault::Fault;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::ops::RangeInclusive;

/// The path of a value in a document, such as `messages[2].content`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JsonPath(String);

impl JsonPath {
    /// The document itself.
    pub fn root() -> Self {
        Self::default()
    }

    /// A field of the object at this path.
    pub fn field(&self, name: &str) -> Self {
        if self.0.is_empty() {
            Self(name.into())
        } else {
            Self(alloc::format!("{}.{name}", self.0))
        }
    }

    /// An item of the array at this path.
    pub fn item(&self, index: usize) -> Self {
        Self(alloc::format!("{}[{index}]", self.0))
    }

    /// The fault for a value of another kind than expected.
    pub fn expected(&self, what: &str, found: &Json) -> Fault {
        Fault::field(self, format_args!("must be {what}, not {}", found.kind()))
    }

    /// Reads a string.
    pub fn string(&self, value: Json) -> Result<String, Fault> {
        match value {
            Json::String(text) => Ok(text),
            other => Err(self.expected("a string", &other)),
        }
    }

    /// Reads an integer within a range.
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

    /// Reads a number within a range.
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

    /// Reads a boolean.
    pub fn boolean(&self, value: &Json) -> Result<bool, Fault> {
        match value {
            Json::Bool(value) => Ok(*value),
            other => Err(self.expected("a boolean", other)),
        }
    }

    /// Reads an array, with the paths of its items.
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

    /// Reads an array of strings.
    pub fn strings(&self, value: Json) -> Result<Vec<String>, Fault> {
        self.list(value)?
            .map(|(path, item)| path.string(item))
            .collect()
    }

    /// Reads an object.
    pub fn object(&self, value: Json) -> Result<Fields, Fault> {
        Fields::new(value, self.clone())
    }
}

impl fmt::Display for JsonPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The fields of an object that are not read yet.
#[derive(Debug)]
pub struct Fields {
    path: JsonPath,
    pairs: Vec<(String, Json)>,
}

/// Parses a request's body. One that says two things under one name is refused: another reader may take the other.
pub fn parse_body(body: &[u8]) -> Result<Json, Fault> {
    let value = Json::parse_within(body, VALUES_OF_A_BODY)
        .map_err(|error| Fault::bad_request(format_args!("the body is {error}")))?;
    match value.repeated_key() {
        Some(key) => {
            let start: String = key.chars().take(64).collect();
            let problem = format_args!("the body has the key {start:?} twice in one object");
            Err(Fault::bad_request(problem))
        }
        None => Ok(value),
    }
}

impl Fields {
    /// Reads a value that must be an object.
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

    /// Parses a document that must be an object.
    pub fn parse(body: &[u8]) -> Result<Self, Fault> {
        Self::new(parse_body(body)?, JsonPath::root())
    }

    /// The object's path.
    pub fn path(&self) -> &JsonPath {
        &self.path
    }

    /// The path of a field.
    pub fn at(&self, name: &str) -> JsonPath {
        self.path.field(name)
    }

    /// Looks at a field without taking it.
    pub fn peek(&self, name: &str) -> Option<&Json> {
        let mut pairs = self.pairs.iter().rev();
        let found = pairs.find(|(key, _)| key == name).map(|(_, value)| value);
        found.filter(|value| !value.is_null())
    }

    /// Takes a field of any type. If it occurs twice, the last one counts.
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

    /// Takes a required string.
    pub fn string(&mut self, name: &str) -> Result<String, Fault> {
        self.maybe_string(name)?.ok_or_else(|| self.missing(name))
    }

    /// Takes a string.
    pub fn maybe_string(&mut self, name: &str) -> Result<Option<String>, Fault> {
        self.take(name)
            .map(|value| self.at(name).string(value))
            .transpose()
    }

    /// Takes a boolean.
    pub fn maybe_boolean(&mut self, name: &str) -> Result<Option<bool>, Fault> {
        self.take(name)
            .map(|value| self.at(name).boolean(&value))
            .transpose()
    }

    /// Takes an integer within a range.
    pub fn maybe_integer(
        &mut self,
        name: &str,
        range: RangeInclusive<i64>,
    ) -> Result<Option<i64>, Fault> {
        self.take(name)
            .map(|value| self.at(name).integer(&value, range))
            .transpose()
    }

    /// Takes a number within a range.
    pub fn maybe_number(
        &mut self,
        name: &str,
        range: RangeInclusive<f64>,
    ) -> Result<Option<f64>, Fault> {
        self.take(name)
            .map(|value| self.at(name).number(&value, range))
            .transpose()
    }

    /// Takes an object.
    pub fn maybe_object(&mut self, name: &str) -> Result<Option<Fields>, Fault> {
        self.take(name)
            .map(|value| self.at(name).object(value))
            .transpose()
    }

    /// Takes an array, with the paths of its items; empty if absent.
    pub fn items(&mut self, name: &str) -> Result<Vec<(JsonPath, Json)>, Fault> {
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(value) => Ok(self.at(name).list(value)?.collect()),
        }
    }

    /// Takes a string that must be one of these words.
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

    /// Drops fields that do not affect the answer.
    pub fn ignore(&mut self, names: &[&str]) {
        self.pairs.retain(|(key, _)| !names.contains(&key.as_str()));
    }

    /// The fault for a required field that is missing.
    pub fn missing(&self, name: &str) -> Fault {
        Fault::field(&self.at(name), format_args!("is required"))
    }

    /// Refuses fields that were not taken, so that none is silently ignored.
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
