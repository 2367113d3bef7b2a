//! JSON as Python's `json.dumps` writes it.
use super::float::python_float;
use crate::jinja::error::{Run, not};
use crate::jinja::eval::Interp;
use crate::jinja::limits::Buffer;
use crate::jinja::value::{Map, Str, Value};
use alloc::format;
use alloc::vec::Vec;

/// The arguments of `json.dumps`.
pub(crate) struct JsonStyle {
    /// What each level of nesting is indented by; nothing for one line.
    pub(crate) indent: Option<Str>,
    pub(crate) item_separator: Str,
    pub(crate) key_separator: Str,
    pub(crate) sort_keys: bool,
    pub(crate) ensure_ascii: bool,
}

/// Writes `value` into `buffer`.
pub(crate) fn json(
    interp: &mut Interp<'_>,
    buffer: &mut Buffer,
    style: &JsonStyle,
    value: &Value,
) -> Run<()> {
    Writer {
        interp,
        buffer,
        style,
    }
    .value(value, 0)
}

struct Writer<'w, 't> {
    interp: &'w mut Interp<'t>,
    buffer: &'w mut Buffer,
    style: &'w JsonStyle,
}

impl Writer<'_, '_> {
    fn value(&mut self, value: &Value, level: usize) -> Run<()> {
        self.interp.step(1)?;
        match value {
            Value::None => self.buffer.push_str("null"),
            Value::Bool(true) => self.buffer.push_str("true"),
            Value::Bool(false) => self.buffer.push_str("false"),
            Value::Int(number) => self.buffer.push_str(&format!("{number}")),
            Value::Float(number) => {
                self.interp.step(4)?;
                self.buffer.push_str(&json_float(*number))
            }
            Value::Str(text) => self.string(text),
            Value::List(items) | Value::Tuple(items) => self.items(items, level),
            Value::Map(map) => self.map(map, level),
            other => not(other.type_name(), "JSON serializable"),
        }
    }

    fn new_line(&mut self, level: usize) -> Run<()> {
        if let Some(indent) = &self.style.indent {
            self.buffer.push_str("\n")?;
            if !indent.is_empty() {
                self.buffer.push_repeated(indent, level)?;
            }
        }
        Ok(())
    }

    fn items(&mut self, items: &[Value], level: usize) -> Run<()> {
        if items.is_empty() {
            return self.buffer.push_str("[]");
        }
        self.buffer.push_str("[")?;
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.buffer.push_str(&self.style.item_separator)?;
            }
            self.new_line(level + 1)?;
            self.value(item, level + 1)?;
        }
        self.new_line(level)?;
        self.buffer.push_str("]")
    }

    fn map(&mut self, map: &Map, level: usize) -> Run<()> {
        if map.is_empty() {
            return self.buffer.push_str("{}");
        }
        let mut places: Vec<usize> = Vec::new();
        let _charge = self.interp.meter.charge(map.len().saturating_mul(8))?;
        if self.style.sort_keys {
            places = self.sorted(map)?;
        }
        self.buffer.push_str("{")?;
        for nth in 0..map.len() {
            let place = places.get(nth).copied().unwrap_or(nth);
            let Some((key, value)) = map.at(place) else {
                break;
            };
            if nth > 0 {
                self.buffer.push_str(&self.style.item_separator)?;
            }
            self.new_line(level + 1)?;
            match key {
                Value::Str(text) => self.string(text)?,
                Value::None | Value::Bool(_) | Value::Int(_) | Value::Float(_) => {
                    self.buffer.push_str("\"")?;
                    self.value(key, 0)?;
                    self.buffer.push_str("\"")?;
                }
                other => return not(other.type_name(), "a JSON key"),
            }
            self.buffer.push_str(&self.style.key_separator)?;
            self.value(value, level + 1)?;
        }
        self.new_line(level)?;
        self.buffer.push_str("}")
    }

    /// The places of the pairs in the order of their keys.
    fn sorted(&mut self, map: &Map) -> Run<Vec<usize>> {
        let mut places: Vec<usize> = (0..map.len()).collect();
        let mut failure = None;
        places.sort_by(|&a, &b| {
            let keys = map.at(a).zip(map.at(b));
            let order = keys.map(|(a, b)| self.interp.order("<", a.0, b.0));
            match order {
                Some(Ok(order)) => order.unwrap_or(core::cmp::Ordering::Equal),
                Some(Err(fault)) => {
                    failure = Some(fault);
                    core::cmp::Ordering::Equal
                }
                None => core::cmp::Ordering::Equal,
            }
        });
        failure.map_or(Ok(places), Err)
    }

    fn string(&mut self, text: &str) -> Run<()> {
        self.interp.touch(text.len())?;
        self.buffer.push_str("\"")?;
        let mut plain = 0;
        for (at, c) in text.char_indices() {
            let is_plain = match c {
                '"' | '\\' => false,
                '\0'..='\x1f' => false,
                c => c.is_ascii() || !self.style.ensure_ascii,
            };
            if is_plain && !(self.style.ensure_ascii && c == '\x7f') {
                continue;
            }
            self.buffer.push_str(text.get(plain..at).unwrap_or(""))?;
            plain = at + c.len_utf8();
            self.escape(c)?;
        }
        self.buffer.push_str(text.get(plain..).unwrap_or(""))?;
        self.buffer.push_str("\"")
    }

    fn escape(&mut self, c: char) -> Run<()> {
        match c {
            '"' => self.buffer.push_str("\\\""),
            '\\' => self.buffer.push_str("\\\\"),
            '\n' => self.buffer.push_str("\\n"),
            '\r' => self.buffer.push_str("\\r"),
            '\t' => self.buffer.push_str("\\t"),
            '\x08' => self.buffer.push_str("\\b"),
            '\x0c' => self.buffer.push_str("\\f"),
            c => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    self.buffer.push_str(&format!("\\u{unit:04x}"))?;
                }
                Ok(())
            }
        }
    }
}

fn json_float(number: f64) -> alloc::string::String {
    match number {
        n if n.is_nan() => "NaN".into(),
        f64::INFINITY => "Infinity".into(),
        f64::NEG_INFINITY => "-Infinity".into(),
        n => python_float(n),
    }
}
