//! Text: immutable, shared, indexed by code points as Python's strings are.
use crate::jinja::limits::{Buffer, Charge};
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::ops::Deref;

/// Immutable shared text.
#[derive(Clone)]
pub struct Str(Arc<Text>);

struct Text {
    text: String,
    ascii: bool,
    markup: bool,
    _charge: Charge,
}

impl Str {
    /// The finished text of a buffer.
    pub(crate) fn from_buffer(buffer: Buffer) -> Str {
        let (text, charge) = buffer.finish();
        Str::with(text, false, charge)
    }

    fn with(text: String, markup: bool, charge: Charge) -> Str {
        Str(Arc::new(Text {
            ascii: text.is_ascii(),
            text,
            markup,
            _charge: charge,
        }))
    }

    /// The finished text of a buffer, marked as HTML that needs no escaping.
    pub(crate) fn markup_from_buffer(buffer: Buffer) -> Str {
        let (text, charge) = buffer.finish();
        Str::with(text, true, charge)
    }

    /// Whether the text is marked as HTML that needs no escaping (the filter `safe`).
    pub(crate) fn is_markup(&self) -> bool {
        self.0.markup
    }

    /// Whether two handles share one text.
    pub(crate) fn same(&self, other: &Str) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether indices are bytes.
    pub(crate) fn is_all_ascii(&self) -> bool {
        self.0.ascii
    }

    /// The number of code points.
    pub(crate) fn char_count(&self) -> usize {
        if self.0.ascii {
            self.len()
        } else {
            self.chars().count()
        }
    }

    /// The byte at which code point `index` starts; the length for any index past the end.
    pub(crate) fn byte_of(&self, index: usize) -> usize {
        if self.0.ascii {
            index.min(self.len())
        } else {
            self.char_indices()
                .nth(index)
                .map_or(self.len(), |(byte, _)| byte)
        }
    }

    /// The number of code points before `byte`.
    pub(crate) fn char_of(&self, byte: usize) -> usize {
        if self.0.ascii {
            byte
        } else {
            self.get(..byte).map_or(0, |before| before.chars().count())
        }
    }

    /// The code points `from..to`.
    pub(crate) fn chars_between(&self, from: usize, to: usize) -> &str {
        if from >= to {
            return "";
        }
        let start = self.byte_of(from);
        let rest = self.get(start..).unwrap_or("");
        let end = if self.0.ascii {
            (to - from).min(rest.len())
        } else {
            rest.char_indices()
                .nth(to - from)
                .map_or(rest.len(), |(byte, _)| byte)
        };
        rest.get(..end).unwrap_or("")
    }
}

impl Deref for Str {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0.text
    }
}

impl fmt::Debug for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl From<&str> for Str {
    fn from(text: &str) -> Self {
        String::from(text).into()
    }
}

impl From<String> for Str {
    fn from(text: String) -> Self {
        Str::with(text, false, Charge::default())
    }
}
