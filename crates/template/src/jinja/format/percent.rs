//! Python's `%` between a string and values.
use super::spec::{Spec, number, number_cost, pad, read_number};
use crate::jinja::error::{Fault, Run, TypeFault, bad_value};
use crate::jinja::eval::Interp;
use crate::jinja::filters::html;
use crate::jinja::limits::Buffer;
use crate::jinja::value::{Str, Value};
use alloc::string::String;

/// `template % values`.
pub(crate) fn percent(interp: &mut Interp<'_>, template: &Str, values: &Value) -> Run<Value> {
    let mut args = Values {
        all: values,
        next: 0,
        named: false,
    };
    let mut buffer = interp.buffer()?;
    let mut rest: &str = template;
    while let Some((text, after)) = rest.split_once('%') {
        interp.touch(text.len())?;
        buffer.push_str(text)?;
        rest = after;
        conversion(
            interp,
            &mut buffer,
            &mut rest,
            &mut args,
            template.is_markup(),
        )?;
    }
    buffer.push_str(rest)?;
    if !args.all_used() {
        return bad_value("%", "not all arguments converted during string formatting");
    }
    Ok(interp.finish_like(buffer, template))
}

/// The right side of `%`, taken one by one.
struct Values<'v> {
    all: &'v Value,
    next: usize,
    named: bool,
}

impl Values<'_> {
    fn take(&mut self) -> Run<Value> {
        let value = match self.all {
            Value::Tuple(items) => items.get(self.next).cloned(),
            other => (self.next == 0).then(|| other.clone()),
        };
        self.next += 1;
        value.map_or_else(
            || bad_value("%", "not enough arguments for format string"),
            Ok,
        )
    }

    fn all_used(&self) -> bool {
        match self.all {
            Value::Tuple(items) => self.next >= items.len(),
            // What can be asked for keys may be left over.
            Value::Map(_) | Value::List(_) | Value::Range(_) | Value::Undefined(_) => true,
            _ => self.named || self.next > 0,
        }
    }
}

/// One conversion, after its `%`.
fn conversion(
    interp: &mut Interp<'_>,
    buffer: &mut Buffer,
    rest: &mut &str,
    args: &mut Values<'_>,
    escaped: bool,
) -> Run<()> {
    let mut given = None;
    if let Some(after) = rest.strip_prefix('(') {
        let Some((key, after)) = after.split_once(')') else {
            return bad_value("%", "incomplete format key");
        };
        let Value::Map(map) = args.all else {
            return bad_value("%", "format requires a mapping");
        };
        args.named = true;
        given = match map.get_str(key) {
            Some(value) => Some(value.clone()),
            None => return bad_value("%", "no value for a key of the format"),
        };
        *rest = after;
    }
    let spec = flags(rest, args)?;
    let Some(kind) = rest.chars().next() else {
        return bad_value("%", "incomplete format");
    };
    *rest = rest.get(kind.len_utf8()..).unwrap_or("");
    if kind == '%' {
        return buffer.push('%');
    }
    let value = match given {
        Some(value) => value,
        None => args.take()?,
    };
    convert(interp, buffer, kind, spec, &value, escaped)
}

fn convert(
    interp: &mut Interp<'_>,
    buffer: &mut Buffer,
    kind: char,
    mut spec: Spec,
    value: &Value,
    escaped: bool,
) -> Run<()> {
    let align = spec.align.unwrap_or('>');
    interp.step(number_cost(value, &spec))?;
    match kind {
        's' | 'r' | 'a' => {
            let mut text = match kind {
                's' => interp.soft_str(value)?,
                _ => interp.repr_of(value)?,
            };
            if escaped && !text.is_markup() {
                text = html::escape(interp, &text)?;
            }
            let cut = text.chars_between(0, spec.precision.unwrap_or(usize::MAX));
            let align = if align == '=' { '>' } else { align };
            spec.fill = None;
            pad(buffer, "", cut, align, &spec)
        }
        'd' | 'i' | 'u' | 'x' | 'X' | 'o' => {
            let whole = match value {
                Value::Float(number) if "diu".contains(kind) => truncated(*number)?,
                other => whole_number(other)?,
            };
            spec.kind = Some(if "iu".contains(kind) { 'd' } else { kind });
            whole_text(interp, buffer, whole, spec)
        }
        'e' | 'E' | 'f' | 'F' | 'g' | 'G' => {
            spec.kind = Some(kind);
            if spec.alternate {
                return Err(TypeFault::Unsupported("'#' with a float").into());
            }
            if let Value::Undefined(missing) = value {
                return Err(Fault::Undefined(missing.why.clone()));
            }
            number(buffer, value, &spec)
        }
        'c' => {
            let text = match value {
                Value::Str(text) if text.chars().count() == 1 => String::from(&**text),
                other => {
                    let code = u32::try_from(whole_number(other)?).ok();
                    match code.and_then(char::from_u32) {
                        Some(c) => String::from(c),
                        None => return bad_value("%", "%c requires a character"),
                    }
                }
            };
            spec.fill = None;
            let align = if align == '=' { '>' } else { align };
            pad(buffer, "", &text, align, &spec)
        }
        _ => Err(TypeFault::Value {
            function: "%",
            problem: "unsupported format character",
        }
        .into()),
    }
}

/// A whole number, with as many digits as the precision wants.
fn whole_text(interp: &mut Interp<'_>, buffer: &mut Buffer, whole: i64, mut spec: Spec) -> Run<()> {
    let Some(digits) = spec.precision.take() else {
        return number(buffer, &Value::Int(whole), &spec);
    };
    let lead = usize::from(whole < 0 || spec.sign.is_some())
        + if spec.alternate && spec.kind != Some('d') {
            2
        } else {
            0
        };
    let filled = Spec {
        fill: Some('0'),
        align: Some('='),
        width: digits.saturating_add(lead),
        ..spec
    };
    let mut inner = interp.buffer()?;
    number(&mut inner, &Value::Int(whole), &filled)?;
    let (lead, body) = inner.as_str().split_at_checked(lead).unwrap_or(("", ""));
    pad(buffer, lead, body, spec.align.unwrap_or('>'), &spec)
}

fn truncated(number: f64) -> Run<i64> {
    if number.abs() < 9.2e18 {
        Ok(libm::trunc(number) as i64)
    } else {
        Err(TypeFault::Overflow.into())
    }
}

fn whole_number(value: &Value) -> Run<i64> {
    if let Value::Undefined(missing) = value {
        return Err(Fault::Undefined(missing.why.clone()));
    }
    match value.as_int() {
        Some(number) => Ok(number),
        None => bad_value("%", "an integer is required"),
    }
}

/// Flags, width and precision.
fn flags(rest: &mut &str, args: &mut Values<'_>) -> Run<Spec> {
    let mut spec = Spec::default();
    while let Some(c) = rest.chars().next().filter(|c| "-+ #0".contains(*c)) {
        match c {
            '-' => spec.align = Some('<'),
            '+' => spec.sign = Some('+'),
            ' ' => spec.sign = spec.sign.or(Some(' ')),
            '#' => spec.alternate = true,
            _ => spec.fill = Some('0'),
        }
        *rest = rest.get(1..).unwrap_or("");
    }
    if spec.fill.is_some() {
        match spec.align {
            Some('<') => spec.fill = None,
            _ => spec.align = Some('='),
        }
    }
    spec.width = read_amount(rest, args, &mut spec.align)?.unwrap_or(0);
    if let Some(after) = rest.strip_prefix('.') {
        *rest = after;
        let mut ignored = None;
        spec.precision = Some(read_amount(rest, args, &mut ignored)?.unwrap_or(0));
    }
    while let Some(after) = rest.strip_prefix(['h', 'l', 'L']) {
        *rest = after;
    }
    Ok(spec)
}

/// Digits, or `*` for the next argument.
fn read_amount(
    rest: &mut &str,
    args: &mut Values<'_>,
    align: &mut Option<char>,
) -> Run<Option<usize>> {
    if let Some(after) = rest.strip_prefix('*') {
        *rest = after;
        let amount = whole_number(&args.take()?)?;
        if amount < 0 {
            *align = Some('<');
        }
        return Ok(usize::try_from(amount.unsigned_abs()).ok());
    }
    if !rest.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(None);
    }
    match read_number(rest) {
        Some(amount) => Ok(Some(amount)),
        None => bad_value("%", "width too big"),
    }
}
