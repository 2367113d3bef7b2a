//! Files and pixels that `tools/vision_vectors.py` made.

use serde_json::Value;
use std::path::Path;

pub(crate) fn read(name: &str) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let text = std::fs::read(folder.join(name)).unwrap();
    serde_json::from_slice(&text).unwrap()
}

pub(crate) fn bytes(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    let (mut bits, mut count) = (0u32, 0);
    for c in value.as_str().unwrap().bytes() {
        let number = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => continue,
        };
        bits = bits << 6 | u32::from(number);
        count += 6;
        if count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    out
}

pub(crate) fn number(value: &Value, name: &str) -> usize {
    value[name].as_u64().unwrap() as usize
}
