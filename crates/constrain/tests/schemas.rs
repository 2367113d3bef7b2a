//! Every answer to a schema, of a model that chooses at random, validates with somebody else's validator.

use crate::support::{BYTE_FALLBACK, BYTE_LEVEL, Random, Validator, Vocabulary};
use serde_json::{Value, json};
use strata_constrain::{CompileError, Grammar};

fn schemas() -> Vec<(&'static str, Value)> {
    vec![
        (
            "nested",
            json!({
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "address": {
                        "type": "object",
                        "properties": {"street": {"type": "string"}, "zip": {"type": "integer"}},
                        "required": ["street", "zip"],
                        "additionalProperties": false
                    },
                    "alive": {"type": "boolean"},
                    "nothing": {"type": "null"}
                },
                "required": ["name", "address"],
                "additionalProperties": false
            }),
        ),
        (
            "arrays",
            json!({
                "type": "array",
                "items": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3},
                "minItems": 2,
                "maxItems": 4
            }),
        ),
        (
            "tuples",
            json!({
                "type": "array",
                "prefixItems": [{"type": "string", "maxLength": 3}, {"type": "number"}],
                "items": {"type": "boolean"},
                "minItems": 2,
                "maxItems": 5
            }),
        ),
        (
            "enums",
            json!({"enum": ["red", "green \"blue\"", 5, null, true, [1, "x"], {"a": 1.5}]}),
        ),
        (
            "constants",
            json!({"type": "object", "properties": {"kind": {"const": "äé\n"}}, "required": ["kind"]}),
        ),
        (
            "references",
            json!({
                "$schema": "https://json-schema.org/draft/2020-12/schema",
                "$defs": {
                    "tree": {
                        "type": "object",
                        "properties": {
                            "value": {"type": "integer", "minimum": 0, "maximum": 99},
                            "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}, "maxItems": 2}
                        },
                        "required": ["value"],
                        "additionalProperties": false
                    }
                },
                "$ref": "#/$defs/tree"
            }),
        ),
        (
            "unions",
            json!({
                "anyOf": [
                    {"type": "string", "minLength": 2, "maxLength": 4},
                    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
                    {"type": "array", "items": {"type": "null"}, "minItems": 1, "maxItems": 2}
                ]
            }),
        ),
        (
            "alternatives",
            json!({
                "oneOf": [
                    {"type": "object", "properties": {"k": {"const": "a"}, "x": {"type": "integer"}}, "required": ["k", "x"], "additionalProperties": false},
                    {"type": "object", "properties": {"k": {"const": "b"}, "y": {"type": "string"}}, "required": ["k", "y"], "additionalProperties": false}
                ]
            }),
        ),
        (
            "sums",
            json!({
                "allOf": [
                    {"type": "object", "properties": {"a": {"type": "integer", "minimum": 3}}, "required": ["a"]},
                    {"type": "object", "properties": {"a": {"maximum": 7}, "b": {"type": "boolean"}}, "required": ["b"]}
                ]
            }),
        ),
        (
            "patterns",
            json!({"type": "string", "pattern": "^[A-Z]{2}-[0-9]{3,5}(/[a-f]+)?$"}),
        ),
        (
            "search",
            json!({"type": "string", "pattern": "ab+c", "maxLength": 12}),
        ),
        ("dates", json!({"type": "string", "format": "date-time"})),
        (
            "days",
            json!({"type": "string", "format": "date", "pattern": "^20"}),
        ),
        ("times", json!({"type": "string", "format": "time"})),
        ("ids", json!({"type": "string", "format": "uuid"})),
        (
            "mail",
            json!({"type": "string", "format": "email", "maxLength": 40}),
        ),
        (
            "hosts",
            json!({"type": "string", "format": "hostname", "maxLength": 40}),
        ),
        ("v4", json!({"type": "string", "format": "ipv4"})),
        ("v6", json!({"type": "string", "format": "ipv6"})),
        (
            "links",
            json!({"type": "string", "format": "uri", "maxLength": 60}),
        ),
        (
            "durations",
            json!({"type": "string", "format": "duration", "maxLength": 30}),
        ),
        (
            "integers",
            json!({"type": "integer", "minimum": -37, "exclusiveMaximum": 1234}),
        ),
        (
            "numbers",
            json!({"type": "number", "minimum": -0.75, "maximum": 12.5}),
        ),
        (
            "multiples",
            json!({"type": "integer", "multipleOf": 7, "minimum": 10, "maximum": 1000}),
        ),
        (
            "lengths",
            json!({"type": "string", "minLength": 3, "maxLength": 6}),
        ),
        (
            "any names",
            json!({"type": "object", "properties": {"ab": {"type": "integer"}}, "additionalProperties": {"type": "string", "maxLength": 5}, "maxProperties": 3, "required": ["ab"]}),
        ),
        (
            "named patterns",
            json!({"type": "object", "patternProperties": {"^n_": {"type": "integer"}, "^s_": {"type": "string"}}, "additionalProperties": false, "minProperties": 1}),
        ),
        (
            "closed by default",
            json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": ["boolean", "null"]}}, "required": ["b"]}),
        ),
        ("anything", json!({})),
        (
            "types",
            json!({"type": ["integer", "null", "string"], "maxLength": 3}),
        ),
    ]
}

fn check(vocabulary: &Vocabulary, seeds: u64) {
    let mut failures = Vec::new();
    for (name, schema) in schemas() {
        let validator = Validator::new(&schema);
        let grammar = Grammar::JsonSchema(schema.to_string());
        for seed in 0..seeds {
            let mut matcher = vocabulary
                .compile(&grammar)
                .unwrap_or_else(|error| panic!("{name}: {error}"));
            let mut random = Random(seed * 1000 + 17);
            let answer = vocabulary.random_answer(&mut matcher, &mut random);
            let text = answer.text();
            assert!(answer.ended, "{name}, {}: no end: {text}", vocabulary.name);
            let value: Value = serde_json::from_str(text)
                .unwrap_or_else(|error| panic!("{name}: {error} in {text:?}"));
            if let Err(error) = validator.validate(&value) {
                failures.push(format!("{name}: {error} in {text}"));
            }
        }
    }
    assert!(failures.is_empty(), "{}: {failures:#?}", vocabulary.name);
}

#[test]
fn answers_in_letters_for_bytes_validate() {
    check(&BYTE_LEVEL, 12);
}

#[test]
fn answers_in_tokens_for_bytes_validate() {
    check(&BYTE_FALLBACK, 12);
}

#[test]
fn any_object_is_an_object() {
    for seed in 0..50 {
        let mut matcher = BYTE_LEVEL.compile(&Grammar::JsonObject).unwrap();
        let answer = BYTE_LEVEL.random_answer(&mut matcher, &mut Random(seed));
        assert!(answer.ended);
        let value: Value = serde_json::from_str(answer.text()).unwrap();
        assert!(value.is_object());
    }
}

#[test]
fn what_cannot_be_enforced_is_named() {
    let cases = [
        (
            json!({"type": "array", "uniqueItems": true}),
            "#",
            "uniqueItems",
        ),
        (json!({"not": {"type": "string"}}), "#", "not"),
        (json!({"typo": 1}), "#", "typo"),
        (
            json!({"properties": {"a/b": {"if": {}}}}),
            "#/properties/a~1b",
            "if",
        ),
        (json!({"items": {"contains": {}}}), "#/items", "contains"),
        (json!({"$ref": "https://example.com/x.json"}), "#", "$ref"),
        (
            json!({"properties": {"a": {"$id": "b"}}}),
            "#/properties/a",
            "$id",
        ),
        (json!({"x-guidance": {"lenient": true}}), "#", "x-guidance"),
        (
            json!({"$schema": "https://example.com/mine"}),
            "#",
            "$schema",
        ),
        (json!({"const": 9_007_199_254_740_993_u64}), "#", "const"),
        (json!({"enum": [1, 1e300]}), "#", "enum"),
        (
            json!({"type": "object", "minProperties": 2}),
            "#",
            "minProperties",
        ),
        (json!({"maxLength": -1}), "#", "maxLength"),
        (json!({"anyOf": {"type": "string"}}), "#", "anyOf"),
        (json!({"properties": [1]}), "#", "properties"),
        (json!({"items": 7}), "#", "items"),
        (json!({"format": "unknown"}), "#", "format"),
    ];
    for (schema, at, name) in cases {
        let error = BYTE_LEVEL.compile(&Grammar::JsonSchema(schema.to_string()));
        match error {
            Err(CompileError::Unsupported { place, keyword, .. }) => {
                assert_eq!((place.as_str(), keyword.as_str()), (at, name), "{schema}");
            }
            other => panic!("{schema}: {other:?}"),
        }
    }
}

#[test]
fn what_the_library_refuses_is_refused() {
    for schema in [
        json!({"type": "string", "format": "no-such-format"}),
        json!({"type": "nonsense"}),
        json!({"oneOf": [{"type": "integer"}, {"type": "integer", "minimum": 5}]}),
        json!({"$ref": "#/$defs/missing"}),
        json!({"type": "string", "pattern": "("}),
        json!({"type": "string", "pattern": "(?=a)b"}),
        json!({"type": "integer", "minimum": 5, "maximum": 4}),
        json!(false),
        json!({"enum": []}),
    ] {
        let error = BYTE_LEVEL.compile(&Grammar::JsonSchema(schema.to_string()));
        assert!(
            matches!(error, Err(CompileError::Refused { .. })),
            "{schema}: {error:?}"
        );
    }
    let error = BYTE_LEVEL.compile(&Grammar::JsonSchema("{\"type\": }".into()));
    assert!(
        matches!(
            error,
            Err(CompileError::NotJson {
                line: 1,
                column: 10,
                ..
            })
        ),
        "{error:?}"
    );
}
