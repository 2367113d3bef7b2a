//! Tokens back to text: GPT-2's alphabet of bytes.

use crate::gguf::{ModelFile, Value};

// ANCHOR: token_bytes
/// The byte that a character of a token stands for. Bytes that cannot be printed have characters from U+0100 on.
pub fn byte_of(c: char) -> Option<u8> {
    match u32::from(c) {
        point @ (0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff) => Some(point as u8),
        point @ 0x100..=0x120 => Some((point - 0x100) as u8),
        point @ 0x121..=0x142 => Some((point - 0x121 + 0x7f) as u8),
        0x143 => Some(0xad),
        _ => None,
    }
}

/// The bytes of a token of the file's vocabulary.
pub fn token_bytes(file: &ModelFile<'_>, token: u32) -> Vec<u8> {
    let Some(Value::List(tokens)) = file.metadata.get("tokenizer.ggml.tokens") else {
        return Vec::new();
    };
    match tokens.get(token as usize) {
        Some(Value::Text(text)) => text.chars().filter_map(byte_of).collect(),
        _ => Vec::new(),
    }
}
// ANCHOR_END: token_bytes
