//! Filters that make or compute numbers.
use super::select::attribute_path;
use crate::jinja::arguments::{Arguments, flag, int};
use crate::jinja::ast::ArithOp;
use crate::jinja::error::{Fault, Run, TypeFault, bad_value, not};
use crate::jinja::eval::{Interp, as_float};
use crate::jinja::format::{fixed, parse_float, round_half_even};
use crate::jinja::lexer::is_space;
use crate::jinja::methods::unicode::decimal;
use crate::jinja::value::Value;
use alloc::format;

pub(super) fn apply(
    interp: &mut Interp<'_>,
    name: &str,
    value: &Value,
    args: Arguments,
) -> Run<Value> {
    interp.scan(value.as_str().map_or(0, str::len))?;
    match name {
        "abs" => {
            args.none(name)?;
            absolute(value)
        }
        "int" => to_int(value, args),
        "float" => {
            let [default] = args.bind(name, ["default"])?;
            let number = match value {
                Value::Str(text) => parse_float(text),
                Value::Undefined(missing) => {
                    return Err(Fault::Undefined(missing.why.clone()));
                }
                other => as_float(other),
            };
            Ok(number.map_or_else(|| default.unwrap_or(Value::Float(0.0)), Value::Float))
        }
        "round" => round(interp, value, args),
        "sum" => sum(interp, value, args),
        _ => file_size(interp, value, args),
    }
}

fn absolute(value: &Value) -> Run<Value> {
    match value {
        Value::Float(number) => Ok(Value::Float(number.abs())),
        other => match other.as_int() {
            Some(number) => number
                .checked_abs()
                .map(Value::Int)
                .ok_or(TypeFault::Overflow.into()),
            None => not(other.type_name(), "a number"),
        },
    }
}

fn to_int(value: &Value, args: Arguments) -> Run<Value> {
    let [default, base] = args.bind("int", ["default", "base"])?;
    let base = int(base, "int")?.unwrap_or(10);
    let fallback = || default.unwrap_or(Value::Int(0));
    let number = match value {
        Value::Undefined(missing) => return Err(Fault::Undefined(missing.why.clone())),
        Value::Str(text) => match parse_int(text, base) {
            Some(number) => return Ok(Value::Int(number)),
            None => parse_float(text),
        },
        Value::Float(number) => Some(*number),
        other => return Ok(other.as_int().map_or_else(fallback, Value::Int)),
    };
    match number {
        Some(number) if number.is_finite() => {
            let whole = libm::trunc(number);
            if whole.abs() < 9.2e18 {
                Ok(Value::Int(whole as i64))
            } else {
                Err(TypeFault::Overflow.into())
            }
        }
        _ => Ok(fallback()),
    }
}

/// Python's `int(text, base)`.
fn parse_int(text: &str, base: i64) -> Option<i64> {
    let text = text.trim_matches(is_space);
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (prefix, default) = match digits.get(..2) {
        Some("0x" | "0X") => (16, 16),
        Some("0o" | "0O") => (8, 8),
        Some("0b" | "0B") => (2, 2),
        _ => (0, 10),
    };
    let radix = u32::try_from(if base == 0 { default } else { base }).ok()?;
    if !(2..=36).contains(&radix) {
        return None;
    }
    let digits = if prefix == radix {
        digits
            .get(2..)?
            .strip_prefix('_')
            .unwrap_or(digits.get(2..)?)
    } else {
        digits
    };
    let mut total = 0_i64;
    let mut after_digit = false;
    for c in digits.chars() {
        if c == '_' && after_digit {
            after_digit = false;
            continue;
        }
        let digit = c
            .to_digit(36)
            .or_else(|| decimal(c))
            .filter(|&d| d < radix)?;
        let digit = i64::from(digit);
        let scaled = total.checked_mul(i64::from(radix))?;
        total = if negative {
            scaled.checked_sub(digit)?
        } else {
            scaled.checked_add(digit)?
        };
        after_digit = true;
    }
    after_digit.then_some(total)
}

fn round(interp: &mut Interp<'_>, value: &Value, args: Arguments) -> Run<Value> {
    let [precision, method] = args.bind("round", ["precision", "method"])?;
    let precision = int(precision, "round")?.unwrap_or(0);
    interp.step(16 + usize::try_from(precision.clamp(0, 400)).unwrap_or(0))?;
    let method = method.unwrap_or_else(|| "common".into());
    let Some(number) = as_float(value) else {
        return not(value.type_name(), "a number");
    };
    let func = match method.as_str() {
        Some("common") => {
            return Ok(match value.as_int() {
                Some(number) => Value::Int(round_int(number, precision)),
                None => Value::Float(round_half_even(number, precision)),
            });
        }
        Some("ceil") => libm::ceil,
        Some("floor") => libm::floor,
        _ => return bad_value("round", "method must be common, ceil or floor"),
    };
    let scale = libm::pow(10.0, precision as f64);
    Ok(Value::Float(func(number * scale) / scale))
}

fn round_int(number: i64, precision: i64) -> i64 {
    let Some(scale) = u32::try_from(precision.saturating_neg())
        .ok()
        .and_then(|digits| 10_i64.checked_pow(digits))
    else {
        return if precision >= 0 { number } else { 0 };
    };
    let rest = number.rem_euclid(scale);
    let low = number - rest;
    let half = scale / 2;
    let up = rest > half || rest == half && scale % 2 == 0 && (low / scale) % 2 != 0;
    if scale > 1 && up {
        low.saturating_add(scale)
    } else {
        low
    }
}

fn sum(interp: &mut Interp<'_>, value: &Value, args: Arguments) -> Run<Value> {
    let [attribute, start] = args.bind("sum", ["attribute", "start"])?;
    let path = attribute_path(attribute.as_ref())?;
    let mut total = start.unwrap_or(Value::Int(0));
    if matches!(total, Value::Str(_)) {
        return bad_value("sum", "strings cannot be summed");
    }
    let mut source = interp.iterate(value)?;
    while let Some(item) = interp.next_of(&mut source)? {
        interp.step(1)?;
        let item = path.get(interp, item, None)?;
        total = interp.arith(ArithOp::Add, &total, &item)?;
    }
    Ok(total)
}

fn file_size(interp: &mut Interp<'_>, value: &Value, args: Arguments) -> Run<Value> {
    let [binary] = args.bind("filesizeformat", ["binary"])?;
    let binary = flag(binary, false);
    let bytes = match value {
        Value::Str(text) => parse_float(text),
        other => as_float(other),
    };
    let Some(bytes) = bytes else {
        return match value {
            Value::Undefined(missing) => Err(Fault::Undefined(missing.why.clone())),
            other => not(other.type_name(), "a number"),
        };
    };
    let base: f64 = if binary { 1024.0 } else { 1000.0 };
    if bytes == 1.0 {
        return interp.text("1 Byte");
    }
    if bytes < base {
        return interp.text(&format!("{} Bytes", libm::trunc(bytes) as i64));
    }
    let mut unit = base;
    let mut prefix = 'k';
    for (nth, letter) in ['k', 'M', 'G', 'T', 'P', 'E', 'Z', 'Y']
        .into_iter()
        .enumerate()
    {
        unit = libm::pow(base, (nth + 2) as f64);
        prefix = letter;
        if bytes < unit {
            break;
        }
    }
    let number = fixed(base * bytes / unit, 1);
    let text = if binary {
        format!("{number} {}iB", prefix.to_ascii_uppercase())
    } else {
        format!("{number} {prefix}B")
    };
    interp.text(&text)
}
