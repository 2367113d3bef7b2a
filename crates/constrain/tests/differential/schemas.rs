//! JSON schemas at random, whose keywords meet in ways that nobody would write.

use crate::support::Random;
use serde_json::{Map, Value, json};

pub(super) fn any(random: &mut Random) -> Value {
    let mut schema = schema(random, 3);
    if let Value::Object(map) = &mut schema {
        map.insert(
            "$defs".into(),
            json!({"d": self::schema(random, 2), "e": object(random, 1)}),
        );
    }
    schema
}

fn schema(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 6 } else { 14 }) {
        0 => json!({"type": (["null", "boolean", "integer", "number", "string"][random.below(5)])}),
        1 | 2 => number(random),
        3 | 4 => text(random),
        5 => match random.below(4) {
            0 => json!({"const": constant(random, 2)}),
            1 => json!({"type": "object"}),
            2 => json!({}),
            _ => {
                let values: Vec<Value> = (0..1 + random.below(4))
                    .map(|_| constant(random, 1))
                    .collect();
                json!({"enum": values})
            }
        },
        6 | 7 => array(random, depth - 1),
        8..=10 => object(random, depth - 1),
        11 => {
            let keyword = ["anyOf", "anyOf", "oneOf", "allOf"][random.below(4)];
            let parts: Vec<Value> = (0..1 + random.below(3))
                .map(|_| schema(random, depth - 1))
                .collect();
            let mut map = Map::new();
            map.insert(keyword.into(), parts.into());
            if random.below(3) == 0
                && let Value::Object(more) = schema(random, depth - 1)
            {
                map.extend(more);
            }
            map.into()
        }
        12 => json!({"$ref": (["#/$defs/d", "#/$defs/e", "#"][random.below(3)])}),
        _ => {
            json!({"type": ["string", "null", (["integer", "array"][random.below(2)])], "maxLength": 3})
        }
    }
}

fn number(random: &mut Random) -> Value {
    let mut map = Map::new();
    let kind = ["integer", "number"][random.below(2)];
    map.insert("type".into(), kind.into());
    let bound = |random: &mut Random| {
        let whole = random.below(400) as f64 - 150.0;
        match random.below(4) {
            0 => json!(whole + 0.25),
            1 => json!(whole / 1000.0),
            _ => json!(whole as i64),
        }
    };
    for keyword in ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"] {
        if random.below(3) == 0 {
            map.insert(keyword.into(), bound(random));
        }
    }
    if random.below(4) == 0 {
        let multiple = [json!(3), json!(0.5), json!(25), json!(0.01), json!(7)];
        map.insert("multipleOf".into(), multiple[random.below(5)].clone());
    }
    map.into()
}

fn text(random: &mut Random) -> Value {
    const PATTERNS: [&str; 12] = [
        "^[a-z]+$",
        "a",
        "^x|y$",
        r"^\d{3}-\d{2}$",
        r"[\n\t]",
        r#"^[^"]*$"#,
        r"^\w+$",
        "^(ab|cd)*$",
        "ä$",
        r"^.{2,4}$",
        r"\\",
        "^/[a-z]/$",
    ];
    const FORMATS: [&str; 10] = [
        "date",
        "time",
        "date-time",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "uuid",
        "uri",
        "duration",
    ];
    let mut map = Map::new();
    map.insert("type".into(), "string".into());
    if random.below(3) == 0 {
        map.insert("minLength".into(), random.below(4).into());
    }
    if random.below(3) == 0 {
        map.insert("maxLength".into(), (2 + random.below(8)).into());
    }
    match random.below(4) {
        0 => map.insert("pattern".into(), PATTERNS[random.below(12)].into()),
        1 => map.insert("format".into(), FORMATS[random.below(10)].into()),
        _ => None,
    };
    map.into()
}

fn array(random: &mut Random, depth: usize) -> Value {
    let mut map = Map::new();
    map.insert("type".into(), "array".into());
    match random.below(5) {
        0 => {
            let items: Vec<Value> = (0..random.below(3))
                .map(|_| schema(random, depth))
                .collect();
            map.insert("prefixItems".into(), items.into());
            map.insert(
                "items".into(),
                [json!(false), json!(true), json!({"type": "null"})][random.below(3)].clone(),
            );
        }
        1 => {
            let items: Vec<Value> = (0..random.below(3))
                .map(|_| schema(random, depth))
                .collect();
            map.insert("items".into(), items.into());
            map.insert(
                "additionalItems".into(),
                [json!(false), json!({"type": "integer"})][random.below(2)].clone(),
            );
        }
        2 => {}
        _ => {
            map.insert("items".into(), schema(random, depth));
        }
    }
    if random.below(3) == 0 {
        map.insert("minItems".into(), random.below(4).into());
    }
    if random.below(3) == 0 {
        map.insert("maxItems".into(), random.below(20).into());
    }
    map.into()
}

pub(super) fn object(random: &mut Random, depth: usize) -> Value {
    const NAMES: [&str; 7] = ["a", "name", "id", "x-y", "ä", "with \"quote\"", "n1"];
    let mut map = Map::new();
    if random.below(4) > 0 {
        map.insert("type".into(), "object".into());
    }
    let mut properties = Map::new();
    for _ in 0..random.below(4) {
        properties.insert(NAMES[random.below(7)].into(), schema(random, depth));
    }
    let required: Vec<Value> = properties
        .keys()
        .filter(|_| random.below(2) == 0)
        .map(|name| name.as_str().into())
        .collect();
    let early = random.below(6) == 0;
    let others = match random.below(5) {
        0 => Some(json!(false)),
        1 => Some(json!(true)),
        2 => Some(schema(random, depth.saturating_sub(1))),
        _ => None,
    };
    if let (true, Some(others)) = (early, &others) {
        map.insert("additionalProperties".into(), others.clone());
    }
    if !properties.is_empty() || random.below(2) == 0 {
        map.insert("properties".into(), properties.into());
    }
    if let (false, Some(others)) = (early, others) {
        map.insert("additionalProperties".into(), others);
    }
    if random.below(2) == 0 {
        map.insert("required".into(), required.into());
    }
    if random.below(6) == 0 {
        map.insert("patternProperties".into(), json!({"^n": schema(random, depth.saturating_sub(1)), "^z[0-9]+$": {"type": "integer"}}));
    }
    if random.below(6) == 0 {
        map.insert("minProperties".into(), random.below(3).into());
    }
    if random.below(6) == 0 {
        map.insert("maxProperties".into(), (1 + random.below(4)).into());
    }
    map.into()
}

fn constant(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 5 } else { 7 }) {
        0 => Value::Null,
        1 => (random.below(2) == 0).into(),
        2 => (random.below(100) as i64 - 50).into(),
        3 => json!(random.below(1000) as f64 / 8.0),
        4 => ["", "red", "a\"b", "ä\n", "blue"][random.below(5)].into(),
        5 => (0..random.below(3))
            .map(|_| constant(random, depth - 1))
            .collect(),
        _ => json!({"k": constant(random, depth - 1), "l": 1}),
    }
}
