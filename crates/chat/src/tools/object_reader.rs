//! The text of a JSON object as it is written, followed up to its last brace.
//!
//! Only braces and quotes are looked at. What is no JSON between them has been told by the time anyone could know, and
//! what was told cannot be taken back: it stays the call's arguments, for the client to refuse.

use crate::json::Json;
use alloc::string::String;

/// Follows the text of an object up to its last brace.
#[derive(Debug, Default)]
pub(crate) struct ObjectReader {
    depth: usize,
    place: InText,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum InText {
    #[default]
    Outside,
    Inside,
    /// After a backslash.
    Escaped,
}

impl InText {
    pub(super) fn take(&mut self, c: char) {
        *self = match (*self, c) {
            (Self::Inside, '\\') => Self::Escaped,
            (Self::Inside, '"') => Self::Outside,
            (Self::Outside, '"') | (Self::Escaped, _) => Self::Inside,
            (place, _) => place,
        };
    }
}

impl ObjectReader {
    /// Whether its first brace was read.
    pub(crate) fn has_begun(&self) -> bool {
        self.depth > 0
    }

    /// Takes a character of the object, its first brace included, and writes it as JSON has it. Says whether it was the
    /// last.
    pub(crate) fn take(&mut self, c: char, out: &mut String) -> bool {
        let outside = self.place == InText::Outside;
        if !outside && c < ' ' {
            // Models write line breaks into texts, which JSON does not allow.
            let escaped = Json::from(c.encode_utf8(&mut [0; 4]) as &str).text();
            out.push_str(escaped.trim_matches('"'));
            return false;
        }
        out.push(c);
        self.place.take(c);
        match c {
            '{' | '[' if outside => self.depth += 1,
            '}' | ']' if outside => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        outside && self.depth == 0
    }
}
