//! Escaping and unescaping of HTML and URLs.
use crate::jinja::arguments::{Arguments, flag};
use crate::jinja::error::{Fault, Run, bad_value, not};
use crate::jinja::eval::Interp;
use crate::jinja::lexer::is_space;
use crate::jinja::limits::Buffer;
use crate::jinja::value::{Str, Value};
use alloc::format;

/// Writes `text` with the five special characters as entities.
pub(crate) fn escape_into(buffer: &mut Buffer, text: &str) -> Run<()> {
    let mut plain = 0;
    for (at, c) in text.char_indices() {
        let entity = match c {
            '&' => "&amp;",
            '<' => "&lt;",
            '>' => "&gt;",
            '\'' => "&#39;",
            '"' => "&#34;",
            _ => continue,
        };
        buffer.push_str(text.get(plain..at).unwrap_or(""))?;
        buffer.push_str(entity)?;
        plain = at + 1;
    }
    buffer.push_str(text.get(plain..).unwrap_or(""))
}

/// Escaped text, marked as such.
pub(crate) fn escape(interp: &mut Interp<'_>, text: &str) -> Run<Str> {
    interp.scan(text.len())?;
    let mut buffer = interp.buffer_of(text.len())?;
    escape_into(&mut buffer, text)?;
    Ok(Str::markup_from_buffer(buffer))
}

pub(super) fn apply(
    interp: &mut Interp<'_>,
    name: &str,
    value: &Value,
    args: Arguments,
) -> Run<Value> {
    if name == "xmlattr" {
        return xml_attributes(interp, value, args);
    }
    args.none(name)?;
    match name {
        "safe" => {
            let text = interp.soft_str(value)?;
            let mut buffer = interp.buffer_of(text.len())?;
            buffer.push_str(&text)?;
            Ok(Value::Str(Str::markup_from_buffer(buffer)))
        }
        "striptags" => strip_tags(interp, value),
        "urlencode" => url_encode(interp, value),
        _ => {
            let text = interp.soft_str(value)?;
            if text.is_markup() && name != "forceescape" {
                Ok(Value::Str(text))
            } else {
                Ok(Value::Str(escape(interp, &text)?))
            }
        }
    }
}

fn xml_attributes(interp: &mut Interp<'_>, value: &Value, args: Arguments) -> Run<Value> {
    let [space] = args.bind("xmlattr", ["autospace"])?;
    let Value::Map(map) = value else {
        return match value {
            Value::Undefined(missing) => Err(Fault::Undefined(missing.why.clone())),
            other => not(other.type_name(), "a mapping"),
        };
    };
    let mut buffer = interp.buffer()?;
    let space = flag(space, true);
    for (key, value) in map.iter() {
        if matches!(value, Value::None | Value::Undefined(_)) {
            continue;
        }
        let Value::Str(key) = key else {
            return not(key.type_name(), "a string");
        };
        if key.contains([' ', '\t', '\n', '\r', '\x0b', '\x0c', '/', '>', '=']) {
            return bad_value("xmlattr", "invalid character in attribute name");
        }
        if space || buffer.len() > 0 {
            buffer.push_str(" ")?;
        }
        escape_into(&mut buffer, key)?;
        buffer.push_str("=\"")?;
        let text = interp.soft_str(value)?;
        if text.is_markup() {
            buffer.push_str(&text)?;
        } else {
            escape_into(&mut buffer, &text)?;
        }
        buffer.push_str("\"")?;
    }
    Ok(Value::Str(Str::from_buffer(buffer)))
}

fn strip_tags(interp: &mut Interp<'_>, value: &Value) -> Run<Value> {
    let text = interp.str_of(value)?;
    interp.scan(text.len().saturating_mul(6))?;
    let mut kept = interp.buffer_of(text.len())?;
    let mut rest: &str = &text;
    while let Some(start) = rest.find('<') {
        let tag = rest.get(start..).unwrap_or("");
        let (inner, close) = match tag.strip_prefix("<!--") {
            Some(inner) => (inner, "-->"),
            None => (tag, ">"),
        };
        let Some(end) = inner.find(close) else {
            break;
        };
        kept.push_str(rest.get(..start).unwrap_or(""))?;
        rest = inner.get(end + close.len()..).unwrap_or("");
    }
    kept.push_str(rest)?;
    let mut buffer = interp.buffer_of(kept.len())?;
    for word in kept
        .as_str()
        .split(is_space)
        .filter(|word| !word.is_empty())
    {
        if buffer.len() > 0 {
            buffer.push_str(" ")?;
        }
        unescape_into(&mut buffer, word)?;
    }
    Ok(Value::Str(Str::from_buffer(buffer)))
}

/// Writes `text` with numeric entities and the common named ones replaced.
fn unescape_into(buffer: &mut Buffer, text: &str) -> Run<()> {
    const NAMED: [(&str, char); 12] = [
        ("amp", '&'),
        ("lt", '<'),
        ("gt", '>'),
        ("quot", '"'),
        ("apos", '\''),
        ("nbsp", '\u{a0}'),
        ("copy", '©'),
        ("reg", '®'),
        ("laquo", '«'),
        ("raquo", '»'),
        ("hellip", '…'),
        ("mdash", '—'),
    ];
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        buffer.push_str(before)?;
        // No entity is longer, and without a bound a row of ampersands would take forever.
        let end = after.bytes().take(32).position(|b| b == b';');
        let entity = end.and_then(|end| {
            let (name, after) = (after.get(..end)?, after.get(end + 1..)?);
            let number = match name.strip_prefix('#') {
                Some(code) => match code.strip_prefix(['x', 'X']) {
                    Some(code) => u32::from_str_radix(code, 16).ok(),
                    None => code.parse().ok(),
                },
                None => None,
            };
            let named = || NAMED.iter().find(|(known, _)| *known == name).map(|n| n.1);
            let c = number.and_then(char::from_u32).or_else(named)?;
            Some((c, after))
        });
        match entity {
            Some((c, after)) => {
                buffer.push(c)?;
                rest = after;
            }
            None => {
                buffer.push_str("&")?;
                rest = after;
            }
        }
    }
    buffer.push_str(rest)
}

fn url_encode(interp: &mut Interp<'_>, value: &Value) -> Run<Value> {
    let mut buffer = interp.buffer()?;
    let pairs = match value {
        Value::Map(map) => Value::View(crate::jinja::value::ViewKind::Items, map.clone()),
        Value::List(_)
        | Value::Tuple(_)
        | Value::Range(_)
        | Value::Iterator(_)
        | Value::View(..) => value.clone(),
        scalar => {
            let text = interp.str_of(scalar)?;
            quote(interp, &mut buffer, &text, false)?;
            return Ok(Value::Str(Str::from_buffer(buffer)));
        }
    };
    for pair in interp.collect(&pairs)?.iter() {
        let pair = interp.collect(pair)?;
        let [key, value] = &pair[..] else {
            return bad_value("urlencode", "an element is not a pair");
        };
        if buffer.len() > 0 {
            buffer.push_str("&")?;
        }
        let (key, value) = (interp.str_of(key)?, interp.str_of(value)?);
        quote(interp, &mut buffer, &key, true)?;
        buffer.push_str("=")?;
        quote(interp, &mut buffer, &value, true)?;
    }
    Ok(Value::Str(Str::from_buffer(buffer)))
}

fn quote(interp: &mut Interp<'_>, buffer: &mut Buffer, text: &str, query: bool) -> Run<()> {
    interp.step(1 + text.len())?;
    for b in text.bytes() {
        match b {
            b' ' if query => buffer.push('+')?,
            b'/' if !query => buffer.push('/')?,
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'_' | b'.' | b'-' | b'~' => {
                buffer.push(char::from(b))?;
            }
            _ => buffer.push_str(&format!("%{b:02X}"))?,
        }
    }
    Ok(())
}
