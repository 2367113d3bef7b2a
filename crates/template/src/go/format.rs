//! Values as text: as Go's `fmt` prints them, with objects and lists as JSON, which is how Ollama's types print
//! themselves.

use super::error::{GoFault, Run};
use super::eval::Interp;
use super::value::GoValue;
use crate::jinja::LimitKind;
use alloc::borrow::Cow;
use alloc::format;
use alloc::string::{String, ToString};

/// Values that nest deeper are not printed.
const DEEPEST: u32 = 200;
/// Widths and precisions above this are refused.
const WIDEST: usize = 4096;

/// A value as an action prints it; nothing for what is missing.
pub(super) fn plain<'v>(interp: &mut Interp<'_>, value: &'v GoValue) -> Run<Cow<'v, str>> {
    Ok(match value {
        GoValue::Nil => "".into(),
        GoValue::Text(text) => (**text).into(),
        GoValue::Bool(truth) => truth.to_string().into(),
        GoValue::Int(number) => number.to_string().into(),
        GoValue::Float(number) => float(*number, 21).into(),
        GoValue::List(_) | GoValue::Map(_) => json(interp, value)?.into(),
    })
}

/// The shortest digits that give the number again; with an exponent from `large` digits before the point on.
fn float(number: f64, large: i32) -> String {
    if number.is_nan() {
        return "NaN".into();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.into();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if number == 0.0 || (-4..large).contains(&exponent) {
        return format!("{number}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
}

/// `print`: blanks between operands of which none is a text.
pub(super) fn print(interp: &mut Interp<'_>, values: &[GoValue]) -> Run<String> {
    let mut out = String::new();
    for (at, value) in values.iter().enumerate() {
        let texts = |value: &GoValue| matches!(value, GoValue::Text(_));
        if at > 0 && !texts(value) && !texts(&values[at - 1]) {
            out.push(' ');
        }
        add(interp, &mut out, value)?;
    }
    Ok(out)
}

/// `println`: blanks between all, and a new line.
pub(super) fn println(interp: &mut Interp<'_>, values: &[GoValue]) -> Run<String> {
    let mut out = String::new();
    for (at, value) in values.iter().enumerate() {
        if at > 0 {
            out.push(' ');
        }
        add(interp, &mut out, value)?;
    }
    out.push('\n');
    Ok(out)
}

fn add(interp: &mut Interp<'_>, out: &mut String, value: &GoValue) -> Run<()> {
    let text = plain(interp, value)?;
    interp.make(text.len())?;
    out.push_str(&text);
    Ok(())
}

/// A verb of `printf` with what stands before it.
#[derive(Default)]
struct Verb {
    left: bool,
    zero: bool,
    plus: bool,
    width: usize,
    precision: Option<usize>,
}

/// `printf`: the verbs `%v %s %d %q %t %f %g %e %x %X %c %%`, with width, precision and the flags `-`, `+` and `0`.
pub(super) fn printf(interp: &mut Interp<'_>, arguments: &[GoValue]) -> Run<String> {
    let Some((GoValue::Text(pattern), values)) = arguments.split_first() else {
        return Err(GoFault::Type {
            of: arguments[0].kind(),
            operation: "the format of printf",
        });
    };
    let wrong = GoFault::Arguments {
        function: "printf",
        found: values.len(),
    };
    let mut values = values.iter();
    let mut out = String::new();
    let mut letters = pattern.chars().peekable();
    interp.make(pattern.len())?;
    while let Some(letter) = letters.next() {
        if letter != '%' {
            out.push(letter);
            continue;
        }
        let mut verb = Verb::default();
        while let Some(&flag) = letters.peek() {
            match flag {
                '-' => verb.left = true,
                '0' => verb.zero = true,
                '+' => verb.plus = true,
                ' ' | '#' => {}
                _ => break,
            }
            letters.next();
        }
        let mut number = || {
            let mut number = None;
            while let Some(digit) = letters.peek().and_then(|c| c.to_digit(10)) {
                letters.next();
                let next = number.unwrap_or(0usize) * 10 + digit as usize;
                if next > WIDEST {
                    return Err(GoFault::Limit(LimitKind::Output, WIDEST as u64));
                }
                number = Some(next);
            }
            Ok(number)
        };
        verb.width = number()?.unwrap_or(0);
        if letters.peek() == Some(&'.') {
            letters.next();
            let mut number = || {
                let mut number = 0usize;
                while let Some(digit) = letters.peek().and_then(|c| c.to_digit(10)) {
                    letters.next();
                    number = number * 10 + digit as usize;
                    if number > WIDEST {
                        return Err(GoFault::Limit(LimitKind::Output, WIDEST as u64));
                    }
                }
                Ok(number)
            };
            verb.precision = Some(number()?);
        }
        match letters.next() {
            Some('%') => out.push('%'),
            Some(kind) => {
                let value = values.next().ok_or_else(|| wrong.clone())?;
                let text = verb.write(interp, kind, value)?;
                interp.make(text.len())?;
                out.push_str(&text);
            }
            None => return Err(wrong),
        }
    }
    match values.next() {
        Some(_) => Err(wrong),
        None => Ok(out),
    }
}

impl Verb {
    fn write(&self, interp: &mut Interp<'_>, kind: char, value: &GoValue) -> Run<String> {
        let signed = |text: String| {
            if self.plus && !text.starts_with('-') {
                format!("+{text}")
            } else {
                text
            }
        };
        let text = match (kind, value) {
            ('v' | 's', value) => {
                let text = plain(interp, value)?;
                match self.precision {
                    Some(most) if kind == 's' => text.chars().take(most).collect(),
                    _ => text.into_owned(),
                }
            }
            ('d', GoValue::Int(number)) => signed(number.to_string()),
            ('x', GoValue::Int(number)) => format!("{number:x}"),
            ('X', GoValue::Int(number)) => format!("{number:X}"),
            ('c', GoValue::Int(number)) => {
                let letter = u32::try_from(*number).ok().and_then(char::from_u32);
                letter.unwrap_or(char::REPLACEMENT_CHARACTER).to_string()
            }
            ('t', GoValue::Bool(truth)) => truth.to_string(),
            ('q', GoValue::Text(text)) => quoted(text),
            ('f', GoValue::Float(number)) => {
                signed(format!("{number:.*}", self.precision.unwrap_or(6)))
            }
            ('g', GoValue::Float(number)) if self.precision.is_none() => signed(float(*number, 21)),
            (_, value) => {
                return Err(GoFault::Type {
                    of: value.kind(),
                    operation: "this verb of printf",
                });
            }
        };
        let missing = self.width.saturating_sub(text.chars().count());
        let number = matches!(kind, 'd' | 'f' | 'g' | 'x' | 'X');
        Ok(match (self.left, self.zero && number) {
            (true, _) => text + &" ".repeat(missing),
            (false, true) => {
                let signs = usize::from(text.starts_with(['-', '+']));
                let (sign, digits) = text.split_at(signs);
                format!("{sign}{}{digits}", "0".repeat(missing))
            }
            (false, false) => " ".repeat(missing) + &text,
        })
    }
}

/// A text as a Go program would have it.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            c if u32::from(c) < 0x20 || c == '\u{7f}' => {
                out.push_str(&format!("\\x{:02x}", u32::from(c)));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// JSON as Go's encoder writes it: in one line without blanks, `<`, `>` and `&` escaped.
pub(super) fn json(interp: &mut Interp<'_>, value: &GoValue) -> Run<String> {
    let mut out = String::new();
    write_json(interp, &mut out, value, 0)?;
    Ok(out)
}

fn write_json(interp: &mut Interp<'_>, out: &mut String, value: &GoValue, depth: u32) -> Run<()> {
    if depth > DEEPEST {
        return Err(GoFault::Limit(LimitKind::Depth, DEEPEST.into()));
    }
    interp.make(1)?;
    match value {
        GoValue::Nil => out.push_str("null"),
        GoValue::Bool(truth) => out.push_str(&truth.to_string()),
        GoValue::Int(number) => out.push_str(&number.to_string()),
        GoValue::Float(number) => out.push_str(&json_float(*number)),
        GoValue::Text(text) => json_text(interp, out, text)?,
        GoValue::List(list) => {
            out.push('[');
            for (at, item) in list.items().iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_json(interp, out, item, depth + 1)?;
            }
            out.push(']');
        }
        GoValue::Map(pairs) => {
            out.push('{');
            for (at, (key, item)) in pairs.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                json_text(interp, out, key)?;
                out.push(':');
                write_json(interp, out, item, depth + 1)?;
            }
            out.push('}');
        }
    }
    Ok(())
}

fn json_float(number: f64) -> String {
    let size = number.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        // `1e-9`, not `1e-09`.
        return format!("{number:e}").replace('e', if size < 1.0 { "e" } else { "e+" });
    }
    format!("{number}")
}

fn json_text(interp: &mut Interp<'_>, out: &mut String, text: &str) -> Run<()> {
    interp.make(text.len())?;
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c if u32::from(c) < 0x20 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    Ok(())
}
