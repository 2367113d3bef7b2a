//! JSON schemas: what is enforced, and a refusal of everything else.
//!
//! Compilers of schemas leave out keywords that they do not know, as the standard has it, and read a few in a way that a
//! validator would not. A request that asks for a schema wants it held to, so both are errors here.

use crate::closed;
use crate::error::CompileError;
use crate::limits::Limits;
use crate::patterns::{Regexes, check_regex};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use serde_json::{Map, Value, json};

/// Keywords that are enforced and hold no schema.
const ENFORCED: [&str; 17] = [
    "type",
    "enum",
    "const",
    "required",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
];

/// Keywords that say something to readers only.
const ANNOTATIONS: [&str; 12] = [
    "$comment",
    "title",
    "description",
    "default",
    "deprecated",
    "discriminator",
    "readOnly",
    "writeOnly",
    "example",
    "examples",
    "contentMediaType",
    "contentEncoding",
];

/// The numbers that mean the same to everybody who reads JSON.
const EXACT: u64 = 1 << 53;

const DRAFTS: [&str; 5] = [
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema",
    "http://json-schema.org/draft-06/schema",
    "http://json-schema.org/draft-04/schema",
];

/// Reads a schema, checks that all of it can be enforced, and closes its objects.
pub fn prepare(source: &str, limits: &Limits) -> Result<Value, CompileError> {
    let schema = serde_json::from_str(source).map_err(|error| CompileError::NotJson {
        reason: error.classify_text(),
        line: error.line(),
        column: error.column(),
    })?;
    prepare_value(schema, limits)
}

/// The schema of any object.
pub fn object() -> Value {
    json!({"type": "object"})
}

/// The same as [`prepare`] for a schema that was read.
pub fn prepare_value(mut schema: Value, limits: &Limits) -> Result<Value, CompileError> {
    let mut place = String::from("#");
    let mut checker = Checker { limits, root: true };
    if let Value::Object(map) = &mut schema {
        checker.dialect(map)?;
    }
    checker.schema(&mut schema, &mut place, 0)?;
    closed::close(&mut schema);
    Ok(match schema {
        Value::Bool(true) => json!({}),
        schema => schema,
    })
}

trait ClassifyText {
    fn classify_text(&self) -> String;
}

impl ClassifyText for serde_json::Error {
    /// The message without its place, which is said apart.
    fn classify_text(&self) -> String {
        let text = self.to_string();
        let end = text.rfind(" at line ").unwrap_or(text.len());
        text.get(..end).unwrap_or(&text).to_string()
    }
}

struct Checker<'a> {
    limits: &'a Limits,
    root: bool,
}

impl Checker<'_> {
    /// The dialect is checked and taken off, so that each keyword that is there is enforced, whatever draft it is of.
    fn dialect(&mut self, map: &mut Map<String, Value>) -> Result<(), CompileError> {
        let Some(dialect) = map.shift_remove("$schema") else {
            return Ok(());
        };
        let known = dialect
            .as_str()
            .is_some_and(|name| DRAFTS.contains(&name.trim_end_matches('#')));
        if known {
            Ok(())
        } else {
            Err(unsupported("#", "$schema", "it names no known draft"))
        }
    }

    fn schema(
        &mut self,
        schema: &mut Value,
        place: &mut String,
        depth: usize,
    ) -> Result<(), CompileError> {
        if depth > self.limits.depth {
            return Err(CompileError::TooDeep {
                place: place.clone(),
                limit: self.limits.depth,
            });
        }
        let map = match schema {
            Value::Bool(_) => return Ok(()),
            Value::Object(map) => map,
            _ => {
                return Err(unsupported(place, "", "a schema is an object or a boolean"));
            }
        };
        let root = core::mem::replace(&mut self.root, false);
        self.counts(map, place)?;
        self.least_properties(map, place)?;
        for (keyword, value) in map.iter_mut() {
            let before = place.len();
            place.push('/');
            place.push_str(&keyword.replace('~', "~0").replace('/', "~1"));
            self.keyword(keyword, value, place, depth, root)
                .map_err(|error| located(error, place, before))?;
            place.truncate(before);
        }
        tighten_format(map);
        Ok(())
    }

    fn keyword(
        &mut self,
        keyword: &str,
        value: &mut Value,
        place: &mut String,
        depth: usize,
        root: bool,
    ) -> Result<(), CompileError> {
        match keyword {
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => self.list(value, place, depth),
            "items" if value.is_array() => self.list(value, place, depth),
            "items" | "additionalItems" | "additionalProperties" => {
                self.schema(value, place, depth + 1)
            }
            "properties" | "$defs" | "definitions" => self.map(value, place, depth),
            "patternProperties" => {
                for pattern in value.as_object().into_iter().flat_map(|map| map.keys()) {
                    check_regex(pattern, place, self.limits, Regexes::Schema)?;
                }
                self.map(value, place, depth)
            }
            "$ref" => match value.as_str() {
                Some(target) if target == "#" || target.starts_with("#/") => Ok(()),
                _ => Err(unsupported(
                    place,
                    keyword,
                    "references lead to places in the schema itself, #/…",
                )),
            },
            "$id" | "id" | "$anchor" => {
                if root && keyword != "$anchor" {
                    Ok(())
                } else {
                    Err(unsupported(
                        place,
                        keyword,
                        "parts of a schema cannot have names of their own",
                    ))
                }
            }
            "pattern" => match value.as_str() {
                Some(pattern) => check_regex(pattern, place, self.limits, Regexes::Schema),
                None => Err(unsupported(place, keyword, "it must be a string")),
            },
            "format" if *value == "unknown" => {
                Err(unsupported(place, keyword, "no such format is known"))
            }
            keyword if ENFORCED.contains(&keyword) => exact(value, place, keyword, depth, self),
            keyword if ANNOTATIONS.contains(&keyword) => Ok(()),
            keyword => Err(unsupported(place, keyword, "it cannot be enforced")),
        }
    }

    fn list(
        &mut self,
        value: &mut Value,
        place: &mut String,
        depth: usize,
    ) -> Result<(), CompileError> {
        let Some(list) = value.as_array_mut() else {
            return Err(unsupported(place, "", "it must be a list of schemas"));
        };
        for (i, schema) in list.iter_mut().enumerate() {
            let before = place.len();
            place.push_str(&format!("/{i}"));
            self.schema(schema, place, depth + 1)?;
            place.truncate(before);
        }
        Ok(())
    }

    fn map(
        &mut self,
        value: &mut Value,
        place: &mut String,
        depth: usize,
    ) -> Result<(), CompileError> {
        let Some(map) = value.as_object_mut() else {
            return Err(unsupported(place, "", "it must be an object of schemas"));
        };
        for (name, schema) in map {
            let before = place.len();
            place.push('/');
            place.push_str(&name.replace('~', "~0").replace('/', "~1"));
            self.schema(schema, place, depth + 1)?;
            place.truncate(before);
        }
        Ok(())
    }

    fn counts(&self, map: &Map<String, Value>, place: &str) -> Result<(), CompileError> {
        const COUNTS: [&str; 6] = [
            "minItems",
            "maxItems",
            "minLength",
            "maxLength",
            "minProperties",
            "maxProperties",
        ];
        for keyword in COUNTS {
            let Some(value) = map.get(keyword) else {
                continue;
            };
            let Some(count) = value.as_u64() else {
                return Err(unsupported(place, keyword, "it must be a whole number"));
            };
            if count > self.limits.repeats {
                return Err(CompileError::TooManyRepeats {
                    place: format!("{place}/{keyword}"),
                    count,
                    limit: self.limits.repeats,
                });
            }
        }
        Ok(())
    }

    /// Names that the schema does not list may come twice, and count once. One more than the required ones is sure.
    fn least_properties(&self, map: &Map<String, Value>, place: &str) -> Result<(), CompileError> {
        let least = map.get("minProperties").and_then(Value::as_u64);
        let required = map.get("required").and_then(Value::as_array);
        let required = required.map_or(0, Vec::len) as u64;
        if least.is_some_and(|least| least > required + 1) {
            Err(unsupported(
                place,
                "minProperties",
                "it may be larger than the number of required properties by one at most",
            ))
        } else {
            Ok(())
        }
    }
}

/// Times of which every reader says that they exist: no leap seconds, and no 29th of February.
fn tighten_format(map: &mut Map<String, Value>) {
    const DATE: &str = "[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|\
                        (?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))";
    const TIME: &str = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:[.][0-9]{1,9})?\
                        (?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
    let pattern = match map.get("format").and_then(Value::as_str) {
        Some("date") => format!("^{DATE}$"),
        Some("time") => format!("^{TIME}$"),
        Some("date-time") => format!("^{DATE}T{TIME}$"),
        _ => return,
    };
    map.shift_remove("format");
    let format = json!({"pattern": pattern});
    match map.get_mut("allOf").and_then(Value::as_array_mut) {
        Some(all) => all.push(format),
        None => {
            map.insert("allOf".into(), json!([format]));
        }
    }
}

/// Numbers in constants and bounds must be such that reading them loses nothing.
fn exact(
    value: &Value,
    place: &str,
    keyword: &str,
    depth: usize,
    checker: &Checker<'_>,
) -> Result<(), CompileError> {
    if depth > checker.limits.depth {
        return Err(CompileError::TooDeep {
            place: place.to_string(),
            limit: checker.limits.depth,
        });
    }
    match value {
        Value::Number(number) => {
            let large = match (number.as_i64(), number.as_u64(), number.as_f64()) {
                (Some(n), _, _) => n.unsigned_abs() > EXACT,
                (_, Some(n), _) => n > EXACT,
                (_, _, Some(n)) => n.abs() > EXACT as f64 || (n != 0.0 && n.abs() < 1e-12),
                _ => true,
            };
            if large {
                Err(unsupported(
                    place,
                    keyword,
                    "the number cannot be told from its neighbours",
                ))
            } else {
                Ok(())
            }
        }
        Value::Array(list) => list
            .iter()
            .try_for_each(|value| exact(value, place, keyword, depth + 1, checker)),
        Value::Object(map) => map
            .values()
            .try_for_each(|value| exact(value, place, keyword, depth + 1, checker)),
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
    }
}

fn unsupported(place: &str, keyword: &str, reason: &'static str) -> CompileError {
    CompileError::Unsupported {
        place: place.to_string(),
        keyword: keyword.to_string(),
        reason,
    }
}

/// An error about a keyword names the schema that has it and the keyword apart.
fn located(error: CompileError, place: &str, before: usize) -> CompileError {
    match error {
        CompileError::Unsupported {
            place: at,
            keyword,
            reason,
        } if at == place => {
            let (schema, own) = at.split_at(before);
            CompileError::Unsupported {
                place: schema.to_string(),
                keyword: if keyword.is_empty() {
                    own.trim_start_matches('/').to_string()
                } else {
                    keyword
                },
                reason,
            }
        }
        error => error,
    }
}
