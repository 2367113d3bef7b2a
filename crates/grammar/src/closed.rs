//! Closes objects: where a schema lists properties and does not speak of others, there are no others.
//!
//! The standard leaves such objects open, and a small model then invents properties until its tokens run out. llama.cpp
//! and Ollama close them too. `"additionalProperties": true`, or a schema there, keeps an object open; so does listing
//! no property at all. Every answer to the closed schema is one to the schema as written.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use hashbrown::HashSet;
use serde_json::{Map, Value, json};

/// Keywords whose schemas describe the same value as the schema that has them.
const SAME_VALUE: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// Closes the objects of a schema.
pub(crate) fn close(schema: &mut Value) {
    let mut closer = Closer {
        root: schema.clone(),
        shared: HashSet::new(),
    };
    let root = closer.root.clone();
    closer.find_shared(&root, Role::Alone);
    closer.close(schema, "#", Role::Alone);
}

/// Whether a schema is all that describes a value.
#[derive(Copy, Clone, PartialEq, Eq)]
enum Role {
    Alone,
    /// Other schemas describe the same value, and closing one would shut the properties of the others out.
    Part,
}

struct Closer {
    /// The schema as written.
    root: Value,
    /// Definitions that are part of another schema somewhere.
    shared: HashSet<String>,
}

impl Closer {
    /// Finds the definitions that are part of another schema.
    fn find_shared(&mut self, schema: &Value, role: Role) {
        let Value::Object(map) = schema else { return };
        let parts = part_role(map, role);
        if let Some(target) = map.get("$ref").and_then(Value::as_str) {
            let whole = parts == Role::Alone;
            if !whole && self.shared.insert(target.to_owned()) {
                let found = self.resolve(target).cloned();
                found
                    .iter()
                    .for_each(|found| self.find_shared(found, Role::Part));
            }
        }
        for (keyword, value) in map {
            let role = if SAME_VALUE.contains(&keyword.as_str()) {
                parts
            } else {
                Role::Alone
            };
            for schema in schemas(keyword, value) {
                self.find_shared(schema, role);
            }
        }
    }

    /// Closes the objects of a schema at a place.
    fn close(&self, schema: &mut Value, place: &str, role: Role) {
        let role = if self.shared.contains(place) {
            Role::Part
        } else {
            role
        };
        let Value::Object(map) = schema else { return };
        let parts = part_role(map, role);
        if role == Role::Alone {
            self.shut(map, parts);
        }
        for (keyword, value) in map.iter_mut() {
            let role = if SAME_VALUE.contains(&keyword.as_str()) {
                parts
            } else {
                Role::Alone
            };
            let at = format!("{place}/{}", escaped(keyword));
            match (keyword.as_str(), value) {
                (
                    "properties" | "patternProperties" | "$defs" | "definitions",
                    Value::Object(map),
                ) => {
                    for (name, schema) in map {
                        self.close(schema, &format!("{at}/{}", escaped(name)), Role::Alone);
                    }
                }
                ("allOf" | "anyOf" | "oneOf" | "prefixItems" | "items", Value::Array(list)) => {
                    for (i, schema) in list.iter_mut().enumerate() {
                        self.close(schema, &format!("{at}/{i}"), role);
                    }
                }
                ("items" | "additionalItems" | "additionalProperties", schema) => {
                    self.close(schema, &at, Role::Alone);
                }
                _ => {}
            }
        }
    }

    /// Closes an object, unless it says that it is open.
    fn shut(&self, map: &mut Map<String, Value>, parts: Role) {
        let mut names = Names::default();
        self.names(&Value::Object(map.clone()), parts, &mut names, 0);
        let least = map.get("minProperties").and_then(Value::as_u64);
        let enough = least.is_none_or(|least| least <= names.all.len() as u64);
        if names.open || !names.listed || !enough {
            return;
        }
        let all = |known: &Map<String, Value>| -> Map<String, Value> {
            let new = names.all.iter().filter(|name| !known.contains_key(*name));
            new.map(|name| (name.clone(), Value::Bool(true))).collect()
        };
        if parts == Role::Part {
            let names = all(&Map::new());
            let lid = json!({"properties": names, "additionalProperties": false});
            match map.get_mut("allOf").and_then(Value::as_array_mut) {
                Some(list) => list.push(lid),
                None => {
                    map.insert("allOf".into(), json!([lid]));
                }
            }
            return;
        }
        // A name that is only required has no schema of its own.
        let properties = map.entry("properties").or_insert_with(|| json!({}));
        if let Value::Object(properties) = properties {
            let new = all(properties);
            properties.extend(new);
        }
        map.insert("additionalProperties".into(), Value::Bool(false));
    }

    /// The names that a value may have by a schema and, where they are parts, by the schemas beside it.
    fn names(&self, schema: &Value, parts: Role, names: &mut Names, depth: usize) {
        const DEEPEST: usize = 32;
        let Value::Object(map) = schema else { return };
        names.open |= map.contains_key("additionalProperties") || depth > DEEPEST;
        if names.open {
            return;
        }
        if let Some(Value::Object(properties)) = map.get("properties") {
            names.listed = true;
            names.all.extend(properties.keys().cloned());
        }
        if let Some(Value::Object(patterns)) = map.get("patternProperties") {
            // A closed lid knows names only.
            names.open |= parts == Role::Part && !patterns.is_empty();
            names.listed = true;
        }
        let required = map.get("required").and_then(Value::as_array);
        let required = required.into_iter().flatten().filter_map(Value::as_str);
        names.all.extend(required.map(str::to_owned));
        if parts == Role::Alone {
            return;
        }
        let target = map.get("$ref").and_then(Value::as_str);
        if let Some(found) = target.and_then(|target| self.resolve(target)) {
            self.names(found, parts, names, depth + 1);
        }
        for keyword in SAME_VALUE {
            let list = map.get(keyword).and_then(Value::as_array);
            for schema in list.into_iter().flatten() {
                self.names(schema, parts, names, depth + 1);
            }
        }
    }

    fn resolve(&self, target: &str) -> Option<&Value> {
        self.root.pointer(target.strip_prefix('#')?)
    }
}

/// What is known of a value's names.
#[derive(Default)]
struct Names {
    all: BTreeSet<String>,
    /// Whether any schema lists properties.
    listed: bool,
    /// Whether a schema says something of other properties, or it is too hard to tell.
    open: bool,
}

/// Whether the schemas under `allOf` and the like, and a reference, are parts of a whole. A choice between schemas that
/// has nothing about objects beside it is one between wholes.
fn part_role(map: &Map<String, Value>, role: Role) -> Role {
    const OBJECTS: [&str; 6] = [
        "properties",
        "patternProperties",
        "additionalProperties",
        "required",
        "minProperties",
        "maxProperties",
    ];
    let about_objects = OBJECTS.iter().any(|keyword| map.contains_key(*keyword));
    let choices = ["anyOf", "oneOf", "$ref"];
    let choices = choices.iter().filter(|keyword| map.contains_key(**keyword));
    let choices = choices.count();
    let all = map.get("allOf").and_then(Value::as_array);
    // A single schema under `allOf` with nothing beside it is a way to add a description to a reference.
    let all = all.map_or(0, Vec::len);
    let several = choices + all > 1 || (choices + all == 1 && about_objects);
    if several { Role::Part } else { role }
}

/// The schemas under a keyword.
fn schemas<'v>(keyword: &str, value: &'v Value) -> Vec<&'v Value> {
    match (keyword, value) {
        ("properties" | "patternProperties" | "$defs" | "definitions", Value::Object(map)) => {
            map.values().collect()
        }
        ("allOf" | "anyOf" | "oneOf" | "prefixItems" | "items", Value::Array(list)) => {
            list.iter().collect()
        }
        ("items" | "additionalItems" | "additionalProperties", schema) => vec![schema],
        _ => Vec::new(),
    }
}

/// A name as a part of a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_that_list_properties_are_closed() {
        let a = json!({"type": "integer"});
        for (open, closed) in [
            (
                json!({"type": "object", "properties": {"a": a}}),
                json!({"type": "object", "properties": {"a": a}, "additionalProperties": false}),
            ),
            (
                json!({"properties": {"a": a}, "required": ["a", "b"]}),
                json!({"properties": {"a": a, "b": true}, "required": ["a", "b"], "additionalProperties": false}),
            ),
            (
                json!({"items": {"anyOf": [{"properties": {"a": a}}, {"type": "null"}]}}),
                json!({"items": {"anyOf": [{"properties": {"a": a}, "additionalProperties": false}, {"type": "null"}]}}),
            ),
            (
                json!({"allOf": [{"properties": {"a": a}}, {"$ref": "#/$defs/b"}], "$defs": {"b": {"properties": {"b": a}}}}),
                json!({
                    "allOf": [
                        {"properties": {"a": a}},
                        {"$ref": "#/$defs/b"},
                        {"properties": {"a": true, "b": true}, "additionalProperties": false}
                    ],
                    "$defs": {"b": {"properties": {"b": a}}}
                }),
            ),
            (
                json!({"properties": {"t": {"allOf": [{"$ref": "#/$defs/b"}], "title": "T"}}, "$defs": {"b": {"properties": {"b": a}}}}),
                json!({
                    "properties": {"t": {"allOf": [{"$ref": "#/$defs/b"}], "title": "T"}},
                    "additionalProperties": false,
                    "$defs": {"b": {"properties": {"b": a}, "additionalProperties": false}}
                }),
            ),
        ] {
            let mut schema = open.clone();
            close(&mut schema);
            assert_eq!(schema, closed, "{open}");
        }
    }

    #[test]
    fn objects_that_are_meant_to_be_open_stay_so() {
        for schema in [
            json!({"type": "object"}),
            json!({"type": "object", "required": ["a"]}),
            json!({"properties": {"a": {}}, "additionalProperties": true}),
            json!({"properties": {"a": {}}, "additionalProperties": {"type": "string"}}),
            json!({"properties": {"a": {}}, "minProperties": 2}),
            json!({"allOf": [{"properties": {"a": {}}}, {"additionalProperties": true}]}),
            json!({"$ref": "#"}),
            json!({"const": {"properties": {"a": 1}}}),
            json!(true),
        ] {
            let mut closed = schema.clone();
            close(&mut closed);
            assert_eq!(closed, schema);
        }
    }
}
