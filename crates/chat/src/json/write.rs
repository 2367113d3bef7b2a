//! Writing JSON text: no spaces, keys in their order, only what must be escaped.

use super::Json;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write};

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Large(value) => write!(f, "{value}"),
            // Debug writes 1.0 for one, so that a float stays a float.
            Self::Float(value) => write!(f, "{value:?}"),
            Self::String(text) => quote(f, text),
            Self::Array(items) => {
                f.write_char('[')?;
                for (i, item) in items.iter().enumerate() {
                    if i > 0 {
                        f.write_char(',')?;
                    }
                    write!(f, "{item}")?;
                }
                f.write_char(']')
            }
            Self::Object(pairs) => {
                f.write_char('{')?;
                for (i, (key, value)) in pairs.iter().enumerate() {
                    if i > 0 {
                        f.write_char(',')?;
                    }
                    quote(f, key)?;
                    f.write_char(':')?;
                    write!(f, "{value}")?;
                }
                f.write_char('}')
            }
        }
    }
}

fn quote(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    let mut plain = 0;
    for (i, byte) in text.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..0x20 | 0x7f => "",
            _ => continue,
        };
        f.write_str(&text[plain..i])?;
        plain = i + 1;
        if escape.is_empty() {
            write!(f, "\\u{byte:04x}")?;
        } else {
            f.write_str(escape)?;
        }
    }
    f.write_str(&text[plain..])?;
    f.write_char('"')
}

impl Json {
    /// Appends the text to a body.
    pub fn write(&self, out: &mut Vec<u8>) {
        struct Bytes<'a>(&'a mut Vec<u8>);
        impl Write for Bytes<'_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                self.0.extend_from_slice(text.as_bytes());
                Ok(())
            }
        }
        write!(Bytes(out), "{self}").expect("a vector takes everything");
    }

    /// The text.
    pub fn text(&self) -> String {
        alloc::format!("{self}")
    }
}
