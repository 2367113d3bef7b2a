//! Files and spectrograms that `tools/speech_vectors.py` made.

use serde_json::Value;
use std::path::Path;

pub(crate) fn read(name: &str) -> Value {
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

/// Samples of 16 bits as floats.
pub(crate) fn samples(value: &Value) -> Vec<f32> {
    let bytes = bytes(value);
    let pairs = bytes.chunks_exact(2);
    pairs
        .map(|pair| f32::from(i16::from_le_bytes([pair[0], pair[1]])) / 32768.0)
        .collect()
}

/// Every file: its name, its bytes, and its samples.
pub(crate) fn files() -> Vec<(String, Vec<u8>, Vec<f32>)> {
    let files = read("files.json");
    let files = files.as_array().unwrap().iter();
    files
        .map(|file| {
            let name = file["name"].as_str().unwrap().into();
            (name, bytes(&file["file"]), samples(&file["samples"]))
        })
        .collect()
}

/// Uniform noise, as the script makes it.
pub(crate) fn noise(count: usize) -> Vec<f32> {
    let mut state = 1u32;
    let next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (f64::from(state >> 8) / f64::from(1 << 23) - 1.0) as f32
    };
    std::iter::repeat_with(next).take(count).collect()
}
