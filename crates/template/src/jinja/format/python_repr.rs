//! Python's `str` and `repr`.
use super::float::python_float;
use crate::jinja::error::Run;
use crate::jinja::eval::Interp;
use crate::jinja::limits::Buffer;
use crate::jinja::value::{Map, Str, Value, ViewKind};
use alloc::format;
use core::fmt::Write;

impl Interp<'_> {
    /// Python's `str(value)`.
    pub(crate) fn str_of(&mut self, value: &Value) -> Run<Str> {
        if let Value::Str(text) = value
            && !text.is_markup()
        {
            return Ok(text.clone());
        }
        let mut buffer = self.buffer()?;
        self.write_str(&mut buffer, value)?;
        Ok(Str::from_buffer(buffer))
    }

    /// The value itself if it is a string, else `str(value)`.
    pub(crate) fn soft_str(&mut self, value: &Value) -> Run<Str> {
        match value {
            Value::Str(text) => Ok(text.clone()),
            other => self.str_of(other),
        }
    }

    /// Python's `repr(value)`.
    pub(crate) fn repr_of(&mut self, value: &Value) -> Run<Str> {
        let mut buffer = self.buffer()?;
        self.write_repr(&mut buffer, value)?;
        Ok(Str::from_buffer(buffer))
    }

    pub(crate) fn write_str(&mut self, buffer: &mut Buffer, value: &Value) -> Run<()> {
        match value {
            Value::Str(text) => {
                self.touch(text.len())?;
                buffer.push_str(text)
            }
            Value::Undefined(_) => Ok(()),
            other => self.write_repr(buffer, other),
        }
    }

    pub(crate) fn write_repr(&mut self, buffer: &mut Buffer, value: &Value) -> Run<()> {
        self.step(1)?;
        match value {
            Value::Undefined(_) => buffer.push_str("Undefined"),
            Value::None => buffer.push_str("None"),
            Value::Bool(true) => buffer.push_str("True"),
            Value::Bool(false) => buffer.push_str("False"),
            Value::Int(number) => buffer.push_str(&format!("{number}")),
            Value::Float(number) => {
                self.step(4)?;
                buffer.push_str(&python_float(*number))
            }
            Value::Str(text) if text.is_markup() => {
                buffer.push_str("Markup(")?;
                self.quote(buffer, text)?;
                buffer.push_str(")")
            }
            Value::Str(text) => self.quote(buffer, text),
            // A namespace may hold itself, so that the values' own depth is no bound here.
            Value::List(_) | Value::Tuple(_) | Value::Map(_) | Value::View(..) => {
                self.nested(|interp| interp.write_container(buffer, value))
            }
            Value::Range(range) if range.step == 1 => {
                buffer.push_str(&format!("range({}, {})", range.start, range.stop))
            }
            Value::Range(range) => {
                let (start, stop, step) = (range.start, range.stop, range.step);
                buffer.push_str(&format!("range({start}, {stop}, {step})"))
            }
            Value::Namespace(at) => {
                let pairs = self.namespaces.get(*at).cloned().unwrap_or_default();
                buffer.push_str("<Namespace ")?;
                self.nested(|interp| {
                    interp.write_pairs(buffer, pairs.iter().map(|(key, value)| (key, value)))
                })?;
                buffer.push_str(">")
            }
            Value::Macro(closure) => {
                buffer.push_str("<Macro ")?;
                self.quote(buffer, &closure.name)?;
                buffer.push_str(">")
            }
            other => {
                buffer.push_str("<")?;
                buffer.push_str(other.type_name())?;
                buffer.push_str(" object>")
            }
        }
    }

    fn write_container(&mut self, buffer: &mut Buffer, value: &Value) -> Run<()> {
        match value {
            Value::List(items) => self.write_items(buffer, items, "[", "]"),
            Value::Tuple(items) if items.len() == 1 => self.write_items(buffer, items, "(", ",)"),
            Value::Tuple(items) => self.write_items(buffer, items, "(", ")"),
            Value::Map(map) => self.write_pairs(buffer, map.iter()),
            Value::View(kind, map) => self.write_view(buffer, *kind, map),
            _ => Ok(()),
        }
    }

    fn write_items(
        &mut self,
        buffer: &mut Buffer,
        items: &[Value],
        open: &str,
        close: &str,
    ) -> Run<()> {
        buffer.push_str(open)?;
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                buffer.push_str(", ")?;
            }
            self.write_repr(buffer, item)?;
        }
        buffer.push_str(close)
    }

    fn write_pairs<'v>(
        &mut self,
        buffer: &mut Buffer,
        pairs: impl Iterator<Item = (&'v Value, &'v Value)>,
    ) -> Run<()> {
        buffer.push_str("{")?;
        for (at, (key, value)) in pairs.enumerate() {
            if at > 0 {
                buffer.push_str(", ")?;
            }
            self.write_repr(buffer, key)?;
            buffer.push_str(": ")?;
            self.write_repr(buffer, value)?;
        }
        buffer.push_str("}")
    }

    fn write_view(&mut self, buffer: &mut Buffer, kind: ViewKind, map: &Map) -> Run<()> {
        buffer.push_str(Value::View(kind, map.clone()).type_name())?;
        buffer.push_str("([")?;
        for (at, (key, value)) in map.iter().enumerate() {
            if at > 0 {
                buffer.push_str(", ")?;
            }
            match kind {
                ViewKind::Keys => self.write_repr(buffer, key)?,
                ViewKind::Values => self.write_repr(buffer, value)?,
                ViewKind::Items => {
                    buffer.push_str("(")?;
                    self.write_repr(buffer, key)?;
                    buffer.push_str(", ")?;
                    self.write_repr(buffer, value)?;
                    buffer.push_str(")")?;
                }
            }
        }
        buffer.push_str("])")
    }

    /// A string in quotes, with what cannot be printed escaped.
    fn quote(&mut self, buffer: &mut Buffer, text: &str) -> Run<()> {
        self.scan(text.len())?;
        let quote = if text.contains('\'') && !text.contains('"') {
            '"'
        } else {
            '\''
        };
        buffer.push(quote)?;
        for c in text.chars() {
            match c {
                '\n' => buffer.push_str("\\n")?,
                '\r' => buffer.push_str("\\r")?,
                '\t' => buffer.push_str("\\t")?,
                '\\' => buffer.push_str("\\\\")?,
                c if c == quote => {
                    buffer.push('\\')?;
                    buffer.push(c)?;
                }
                ' '..='~' => buffer.push(c)?,
                c => {
                    self.step(4)?;
                    if is_printable(c) {
                        buffer.push(c)?;
                    } else {
                        buffer.push_str(&match u32::from(c) {
                            code @ ..0x100 => format!("\\x{code:02x}"),
                            code @ ..0x1_0000 => format!("\\u{code:04x}"),
                            code => format!("\\U{code:08x}"),
                        })?;
                    }
                }
            }
        }
        buffer.push(quote)
    }
}

/// Python's `isprintable`. Rust's escaping for debug output draws the same line, save that it also escapes a combining
/// mark that starts a string.
fn is_printable(c: char) -> bool {
    struct Probe(bool);
    impl Write for Probe {
        fn write_str(&mut self, part: &str) -> core::fmt::Result {
            self.0 |= part.contains('\\');
            Ok(())
        }
    }
    let mut text = [0; 8];
    text[0] = b'a';
    let len = c.encode_utf8(&mut text[1..]).len();
    let Ok(text) = core::str::from_utf8(&text[..=len]) else {
        return true;
    };
    let mut probe = Probe(false);
    let _ = write!(probe, "{}", text.escape_debug());
    !probe.0
}
