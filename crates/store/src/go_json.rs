//! JSON as Go's `encoding/json` writes it, for layers whose digests should be Ollama's.

use serde_json::Value;

/// Appends a string: `<`, `>`, `&` and the two separators that JavaScript dislikes are escaped.
pub(crate) fn string(out: &mut String, text: &str) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..'\u{20}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(character)));
            }
            _ => out.push(character),
        }
    }
    out.push('"');
}

/// Appends a list of strings.
pub(crate) fn strings<'a>(out: &mut String, texts: impl Iterator<Item = &'a str>) {
    out.push('[');
    for (i, text) in texts.enumerate() {
        if i > 0 {
            out.push(',');
        }
        string(out, text);
    }
    out.push(']');
}

/// Appends any value; members of objects are sorted by name, as Go does with maps.
pub(crate) fn value(out: &mut String, json: &Value) {
    match json {
        Value::Null => out.push_str("null"),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Number(number) => match number.as_f64() {
            // Go has floats for all numbers of a map, and writes whole ones without a point.
            Some(float) if number.is_f64() => out.push_str(&self::number(float)),
            _ => out.push_str(&number.to_string()),
        },
        Value::String(text) => string(out, text),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                value(out, item);
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_unstable_by_key(|(key, _)| key.as_str());
            out.push('{');
            for (i, (key, item)) in members.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                string(out, key);
                out.push(':');
                value(out, item);
            }
            out.push('}');
        }
    }
}

/// The shortest decimals that read back as the same float; exponents only where Go has them.
fn number(float: f64) -> String {
    let size = float.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        // Go writes `1e-07` as `1e-7` and `1e+21` with its sign.
        let text = format!("{float:e}");
        return match text.split_once('e') {
            Some((digits, power)) if !power.starts_with('-') => format!("{digits}e+{power}"),
            _ => text,
        };
    }
    format!("{float}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_look_as_go_writes_them() {
        let json = serde_json::json!({
            "temperature": 0.7, "num_ctx": 4096, "whole": 1.0, "tiny": 1e-7, "vast": 1e21,
            "stop": ["<|im_end|>", "a&b", "\u{1}\"\\\n"], "b": true, "n": null,
        });
        let mut out = String::new();
        value(&mut out, &json);
        assert_eq!(
            out,
            r#"{"b":true,"n":null,"num_ctx":4096,"stop":["\u003c|im_end|\u003e","a\u0026b","\u0001\"\\\n"],"temperature":0.7,"tiny":1e-7,"vast":1e+21,"whole":1}"#
        );
    }
}
