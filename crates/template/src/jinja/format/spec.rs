//! Format specifications: what follows the colon in `{:>10.2f}`, and what `%` takes from the same family.
use super::float::{python_float, scientific_text, special, split_exponent};
use crate::jinja::error::{Run, TypeFault, bad_value};
use crate::jinja::eval::Interp;
use crate::jinja::limits::Buffer;
use crate::jinja::value::Value;
use alloc::format;
use alloc::string::String;

/// `[[fill]align][sign][#][0][width][grouping][.precision][type]`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spec {
    pub(super) fill: Option<char>,
    pub(super) align: Option<char>,
    pub(super) sign: Option<char>,
    pub(super) alternate: bool,
    pub(super) width: usize,
    pub(super) grouping: Option<char>,
    pub(super) precision: Option<usize>,
    pub(super) kind: Option<char>,
}

/// More digits than any float has.
pub(super) const MAX_PRECISION: usize = 1100;

/// Reads a decimal number off the front of `text`.
pub(super) fn read_number(text: &mut &str) -> Option<usize> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    *text = rest;
    digits.parse().ok()
}

fn read_char(text: &mut &str, wanted: impl Fn(char) -> bool) -> Option<char> {
    let c = text.chars().next().filter(|&c| wanted(c))?;
    *text = text.get(c.len_utf8()..)?;
    Some(c)
}

impl Spec {
    pub(super) fn parse(text: &str) -> Option<Spec> {
        let mut spec = Spec::default();
        let mut rest = text;
        let is_align = |c| matches!(c, '<' | '>' | '=' | '^');
        let mut chars = rest.chars();
        let first = chars.next();
        if let (Some(fill), Some(align)) = (first, chars.next().filter(|&c| is_align(c))) {
            spec.fill = Some(fill);
            spec.align = Some(align);
            rest = chars.as_str();
        } else {
            spec.align = read_char(&mut rest, is_align);
        }
        spec.sign = read_char(&mut rest, |c| matches!(c, '+' | '-' | ' '));
        spec.alternate = read_char(&mut rest, |c| c == '#').is_some();
        if read_char(&mut rest, |c| c == '0').is_some() {
            spec.fill = spec.fill.or(Some('0'));
            spec.align = spec.align.or(Some('='));
        }
        if rest.starts_with(|c: char| c.is_ascii_digit()) {
            spec.width = read_number(&mut rest)?;
        }
        spec.grouping = read_char(&mut rest, |c| matches!(c, ',' | '_'));
        if read_char(&mut rest, |c| c == '.').is_some() {
            spec.precision = Some(read_number(&mut rest)?);
        }
        spec.kind = read_char(&mut rest, |_| true);
        rest.is_empty().then_some(spec)
    }
}

/// Writes `value` as `format(value, text)` does.
pub(super) fn format_value(
    interp: &mut Interp<'_>,
    buffer: &mut Buffer,
    value: &Value,
    text: &str,
) -> Run<()> {
    if text.is_empty() {
        return interp.write_str(buffer, value);
    }
    let Some(spec) = Spec::parse(text) else {
        return bad_value("format", "invalid format specifier");
    };
    match value {
        Value::Str(text) => {
            let fits = matches!(spec.kind, None | Some('s'))
                && (spec.align != Some('=') || spec.fill == Some('0'))
                && spec.sign.is_none()
                && spec.grouping.is_none();
            if !fits {
                return bad_value("format", "this format specification does not fit a string");
            }
            let text = text.clone();
            let cut = text.chars_between(0, spec.precision.unwrap_or(usize::MAX));
            let align = if spec.align == Some('=') {
                '<'
            } else {
                spec.align.unwrap_or('<')
            };
            pad(buffer, "", cut, align, &spec)
        }
        Value::Bool(_) | Value::Int(_) | Value::Float(_) => {
            interp.step(number_cost(value, &spec))?;
            check_number(value, &spec)?;
            number(buffer, value, &spec)
        }
        _ => Err(TypeFault::Unsupported("a format specification for this type").into()),
    }
}

/// Fails where Python refuses a combination, or where nobody needs it.
fn check_number(value: &Value, spec: &Spec) -> Run<()> {
    let is_float = matches!(value, Value::Float(_)) || is_float_kind(spec);
    if !is_float && spec.precision.is_some() {
        return bad_value(
            "format",
            "precision not allowed in an integer format specifier",
        );
    }
    let groups = match spec.kind {
        Some('c' | 'n' | 's') => spec.grouping.is_none(),
        Some('b' | 'o' | 'x' | 'X') => spec.grouping != Some(','),
        _ => true,
    };
    if !groups {
        return bad_value("format", "this type cannot be grouped so");
    }
    if is_float && spec.alternate {
        return Err(TypeFault::Unsupported("'#' with a float").into());
    }
    Ok(())
}

fn is_float_kind(spec: &Spec) -> bool {
    matches!(spec.kind, Some('e' | 'E' | 'f' | 'F' | 'g' | 'G' | '%'))
}

/// The steps that writing a number takes: digits cost, those of a large number most.
pub(super) fn number_cost(value: &Value, spec: &Spec) -> usize {
    let is_large = matches!(value, Value::Float(number) if number.abs() > 1e16);
    let digits = spec.precision.unwrap_or(0).min(MAX_PRECISION);
    16 + digits + if is_large { 400 } else { 0 }
}

/// Writes a number: sign and prefix, then digits, padded.
pub(super) fn number(buffer: &mut Buffer, value: &Value, spec: &Spec) -> Run<()> {
    let (negative, prefix, digits) = match (value, value.as_int()) {
        (_, Some(number)) if !is_float_kind(spec) => {
            let size = number.unsigned_abs();
            let (prefix, digits) = match spec.kind {
                None | Some('d' | 'n') => ("", format!("{size}")),
                Some('b') => ("0b", format!("{size:b}")),
                Some('o') => ("0o", format!("{size:o}")),
                Some('x') => ("0x", format!("{size:x}")),
                Some('X') => ("0X", format!("{size:X}")),
                Some('c') => {
                    let c = u32::try_from(number).ok().and_then(char::from_u32);
                    let Some(c) = c else {
                        return bad_value("format", "%c argument is not a character");
                    };
                    ("", String::from(c))
                }
                _ => return bad_value("format", "unknown format code for a whole number"),
            };
            (number < 0, if spec.alternate { prefix } else { "" }, digits)
        }
        (Value::Float(number), _) => (
            number.is_sign_negative() && !number.is_nan(),
            "",
            fixed_float(*number, spec)?,
        ),
        (_, Some(number)) => (number < 0, "", fixed_float(number as f64, spec)?),
        _ => return bad_value("format", "a number is needed"),
    };
    let sign = match (negative, spec.sign) {
        (true, _) => "-",
        (false, Some('+')) => "+",
        (false, Some(' ')) => " ",
        _ => "",
    };
    let lead = format!("{sign}{prefix}");
    let digits = match spec.grouping {
        Some(separator) => grouped(digits, separator, lead.len(), spec)?,
        None => digits,
    };
    pad(buffer, &lead, &digits, spec.align.unwrap_or('>'), spec)
}

/// Digits in groups, and with zeros up to the width if they fill it.
fn grouped(mut digits: String, separator: char, lead: usize, spec: &Spec) -> Run<String> {
    let size = match spec.kind {
        Some('b' | 'o' | 'x' | 'X') => 4,
        _ => 3,
    };
    let mut text = group(&digits, separator, size);
    if spec.fill == Some('0') && spec.align == Some('=') {
        if spec.width > 256 {
            return Err(TypeFault::Unsupported("grouped zeros beyond a width of 256").into());
        }
        while lead + text.len() < spec.width {
            digits.insert(0, '0');
            text = group(&digits, separator, size);
        }
    }
    Ok(text)
}

/// Digits with a separator between groups of `size`.
fn group(digits: &str, separator: char, size: usize) -> String {
    let whole = digits
        .find(|c: char| !c.is_ascii_hexdigit() || size == 3 && !c.is_ascii_digit())
        .unwrap_or(digits.len());
    let mut text = String::with_capacity(digits.len() * 2);
    for (at, c) in digits.char_indices() {
        if at > 0 && at < whole && (whole - at).is_multiple_of(size) {
            text.push(separator);
        }
        text.push(c);
    }
    text
}

/// The digits of a float without its sign.
fn fixed_float(number: f64, spec: &Spec) -> Run<String> {
    let size = number.abs();
    let precision = spec.precision.unwrap_or(6);
    if precision > MAX_PRECISION {
        return Err(TypeFault::Unsupported("a precision of more than 1100 digits").into());
    }
    if let Some(word) = special(size) {
        let upper = matches!(spec.kind, Some('E' | 'F' | 'G'));
        return Ok(if upper {
            word.to_uppercase()
        } else {
            word.into()
        });
    }
    Ok(match spec.kind {
        None if spec.precision.is_none() => python_float(size),
        None => {
            // Python leaves room for the `.0` that it may have to add.
            let text = general(size, precision, 'e', 1);
            if text.contains(['.', 'e']) {
                text
            } else {
                text + ".0"
            }
        }
        Some('f' | 'F') => fixed(size, precision),
        Some('%') => format!("{}%", fixed(size * 100.0, precision)),
        Some(kind @ ('e' | 'E')) => scientific(size, precision, kind),
        Some(kind @ ('g' | 'G' | 'n')) => {
            let e = if kind == 'G' { 'E' } else { 'e' };
            general(size, precision, e, 0)
        }
        _ => return bad_value("format", "unknown format code for a float"),
    })
}

/// `number` with `precision` digits after the point, correctly rounded.
pub(crate) fn fixed(number: f64, precision: usize) -> String {
    let precision = precision.min(MAX_PRECISION);
    format!("{number:.precision$}")
}

fn scientific(number: f64, precision: usize, e: char) -> String {
    let text = format!("{number:.precision$e}");
    match split_exponent(&text) {
        Some((digits, exponent)) => scientific_text(digits, exponent, e),
        None => text,
    }
}

/// The shorter of both notations; `reserved` digits of the precision count against the plain one.
fn general(number: f64, precision: usize, e: char, reserved: usize) -> String {
    let precision = precision.max(1);
    let digits = precision - 1;
    let text = format!("{number:.digits$e}");
    let Some((mantissa, exponent)) = split_exponent(&text) else {
        return text;
    };
    let strip = |text: &str| {
        if text.contains('.') {
            String::from(text.trim_end_matches('0').trim_end_matches('.'))
        } else {
            String::from(text)
        }
    };
    match usize::try_from(i64::from(exponent) + 4) {
        Ok(shifted) if shifted + reserved < precision + 4 => {
            let decimals = (digits + 4).saturating_sub(shifted);
            strip(&fixed(number, decimals))
        }
        _ => scientific_text(&strip(mantissa), exponent, e),
    }
}

/// Writes `lead` and `body`, filled up to the width.
pub(super) fn pad(
    buffer: &mut Buffer,
    lead: &str,
    body: &str,
    align: char,
    spec: &Spec,
) -> Run<()> {
    let len = lead.chars().count() + body.chars().count();
    let missing = spec.width.saturating_sub(len);
    let mut fill = [0; 4];
    let fill = spec.fill.unwrap_or(' ').encode_utf8(&mut fill);
    let (left, inner, right) = match align {
        '<' => (0, 0, missing),
        '^' => (missing / 2, 0, missing - missing / 2),
        '=' => (0, missing, 0),
        _ => (missing, 0, 0),
    };
    buffer.push_repeated(fill, left)?;
    buffer.push_str(lead)?;
    buffer.push_repeated(fill, inner)?;
    buffer.push_str(body)?;
    buffer.push_repeated(fill, right)
}
