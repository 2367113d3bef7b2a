//! Python's `str.format`.
use super::spec::format_value;
use crate::jinja::arguments::Arguments;
use crate::jinja::error::{Run, bad_value};
use crate::jinja::eval::Interp;
use crate::jinja::filters::html;
use crate::jinja::limits::Buffer;
use crate::jinja::value::{Str, Value};
use alloc::sync::Arc;

/// `template.format(*args, **named)`.
pub(crate) fn braces(interp: &mut Interp<'_>, template: &Str, args: &Arguments) -> Run<Value> {
    let mut buffer = interp.buffer()?;
    let mut formatter = Formatter {
        interp,
        args,
        next: Numbering::None,
        escaped: template.is_markup(),
    };
    formatter.expand(&mut buffer, template, 3)?;
    Ok(interp.finish_like(buffer, template))
}

/// How the fields have been numbered so far.
enum Numbering {
    None,
    Automatic(usize),
    Manual,
}

struct Formatter<'f, 't> {
    interp: &'f mut Interp<'t>,
    args: &'f Arguments,
    next: Numbering,
    escaped: bool,
}

impl Formatter<'_, '_> {
    fn expand(&mut self, buffer: &mut Buffer, template: &str, depth: u32) -> Run<()> {
        if depth == 0 {
            return bad_value("format", "max string recursion exceeded");
        }
        let mut rest = template;
        while let Some(at) = rest.find(['{', '}']) {
            let (text, after) = rest.split_at_checked(at).unwrap_or((rest, ""));
            self.interp.touch(text.len())?;
            buffer.push_str(text)?;
            if after.starts_with("{{") || after.starts_with("}}") {
                buffer.push_str(after.get(..1).unwrap_or(""))?;
                rest = after.get(2..).unwrap_or("");
                continue;
            }
            if after.starts_with('}') {
                return bad_value("format", "single '}' encountered in format string");
            }
            let inner = after.get(1..).unwrap_or("");
            let Some(end) = closing(inner) else {
                return bad_value("format", "expected '}' before end of string");
            };
            self.field(buffer, inner.get(..end).unwrap_or(""), depth)?;
            rest = inner.get(end + 1..).unwrap_or("");
        }
        buffer.push_str(rest)
    }

    /// One replacement field without its braces.
    fn field(&mut self, buffer: &mut Buffer, field: &str, depth: u32) -> Run<()> {
        let split = field.find([':', '!']).unwrap_or(field.len());
        let (name, rest) = field.split_at_checked(split).unwrap_or((field, ""));
        let (conversion, spec) = match rest.strip_prefix('!') {
            Some(rest) => {
                let (conversion, spec) = rest.split_once(':').unwrap_or((rest, ""));
                (conversion, spec)
            }
            None => ("", rest.strip_prefix(':').unwrap_or("")),
        };
        let mut value = self.value(name)?;
        value = match conversion {
            "" => value,
            "s" => Value::Str(self.interp.str_of(&value)?),
            "r" | "a" => Value::Str(self.interp.repr_of(&value)?),
            _ => return bad_value("format", "unknown conversion specifier"),
        };
        let mut expanded = self.interp.buffer()?;
        self.expand(&mut expanded, spec, depth - 1)?;
        if self.escaped && expanded.len() == 0 {
            let text = self.interp.soft_str(&value)?;
            let text = if text.is_markup() {
                text
            } else {
                html::escape(self.interp, &text)?
            };
            return buffer.push_str(&text);
        }
        format_value(self.interp, buffer, &value, expanded.as_str())
    }

    /// The value that a field's name stands for.
    fn value(&mut self, name: &str) -> Run<Value> {
        let end = name.find(['.', '[']).unwrap_or(name.len());
        let (first, mut rest) = name.split_at_checked(end).unwrap_or((name, ""));
        let mut value = self.argument(first)?;
        while !rest.is_empty() {
            if let Some(after) = rest.strip_prefix('.') {
                let end = after.find(['.', '[']).unwrap_or(after.len());
                let (attribute, after) = after.split_at_checked(end).unwrap_or((after, ""));
                let attribute: Arc<str> = attribute.into();
                value = self.interp.attribute(&value, &attribute)?;
                rest = after;
            } else {
                let inner = rest.get(1..).unwrap_or("");
                let Some((index, after)) = inner.split_once(']') else {
                    return bad_value("format", "missing ']' in format string");
                };
                let index = match index.parse::<i64>() {
                    Ok(number) if !index.starts_with(['+', '-']) => Value::Int(number),
                    _ => self.interp.text(index)?,
                };
                value = self.interp.item(&value, &index)?;
                rest = after;
            }
        }
        Ok(value)
    }

    fn argument(&mut self, name: &str) -> Run<Value> {
        let index = if name.is_empty() {
            let index = match self.next {
                Numbering::None => 0,
                Numbering::Automatic(next) => next,
                Numbering::Manual => {
                    return bad_value("format", "cannot switch to automatic field numbering");
                }
            };
            self.next = Numbering::Automatic(index + 1);
            index
        } else if name.bytes().all(|b| b.is_ascii_digit()) {
            if matches!(self.next, Numbering::Automatic(_)) {
                return bad_value("format", "cannot switch to manual field numbering");
            }
            self.next = Numbering::Manual;
            name.parse().unwrap_or(usize::MAX)
        } else {
            self.interp.step(1 + self.args.named.len() / 8)?;
            let named = self.args.named.iter().find(|(known, _)| **known == *name);
            return match named {
                Some((_, value)) => Ok(value.clone()),
                None => bad_value("format", "no argument for a name in the format string"),
            };
        };
        match self.args.positional.get(index) {
            Some(value) => Ok(value.clone()),
            None => bad_value("format", "replacement index out of range"),
        }
    }
}

/// Where the field that starts `text` ends.
fn closing(text: &str) -> Option<usize> {
    let mut open = 0_usize;
    for (at, b) in text.bytes().enumerate() {
        match b {
            b'{' => open += 1,
            b'}' if open == 0 => return Some(at),
            b'}' => open -= 1,
            _ => {}
        }
    }
    None
}
