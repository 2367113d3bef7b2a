//! Filters over text.
use crate::jinja::arguments::{Arguments, flag, int, required, text};
use crate::jinja::error::{Run, TypeFault, bad_value, not};
use crate::jinja::eval::Interp;
use crate::jinja::format;
use crate::jinja::lexer::is_space;
use crate::jinja::methods::text::{change_case, replace, split_lines, strip};
use crate::jinja::value::{Str, Value};
use alloc::string::String;
use alloc::vec::Vec;

pub(super) fn apply(
    interp: &mut Interp<'_>,
    name: &str,
    value: &Value,
    args: Arguments,
) -> Run<Value> {
    match name {
        "upper" | "lower" | "capitalize" => {
            args.none(name)?;
            let text = interp.soft_str(value)?;
            interp.touch(text.len())?;
            change_case(interp, &text, name)
        }
        "title" => {
            args.none(name)?;
            title(interp, value)
        }
        "trim" => {
            let [chars] = args.bind(name, ["chars"])?;
            let chars = text(chars, "trim")?;
            let text = interp.soft_str(value)?;
            interp.touch(text.len())?;
            let stripped = strip(interp, &text, chars.as_deref(), "strip")?;
            if stripped.len() == text.len() {
                Ok(Value::Str(text))
            } else {
                interp.text_like(stripped, &text)
            }
        }
        "replace" => {
            let [old, new, count] = args.bind(name, ["old", "new", "count"])?;
            let of = interp.str_of(value)?;
            let old = interp.str_of(&required(old, name, "old")?)?;
            let new = interp.str_of(&required(new, name, "new")?)?;
            let count = int(count, "replace")?.unwrap_or(-1);
            replace(interp, &of, &old, &new, count)
        }
        "center" => {
            let [width] = args.bind(name, ["width"])?;
            let width = width.unwrap_or(Value::Int(80));
            let text = Value::Str(interp.soft_str(value)?);
            let args = Arguments {
                positional: alloc::vec![width],
                named: Vec::new(),
            };
            crate::jinja::methods::call(interp, &text, "center", args)
        }
        "format" => {
            let template = interp.soft_str(value)?;
            let values = match (args.positional.is_empty(), args.named.is_empty()) {
                (false, false) => {
                    return bad_value("format", "positional and keyword arguments together");
                }
                (_, true) => Value::Tuple(interp.list_of(args.positional)?),
                (true, false) => {
                    let named = args.named.into_iter();
                    let pairs: Vec<_> = named.map(|(name, v)| ((*name).into(), v)).collect();
                    Value::Map(interp.map_of(pairs)?)
                }
            };
            format::percent(interp, &template, &values)
        }
        "indent" => indent(interp, value, args),
        "truncate" => truncate(interp, value, args),
        "wordcount" => {
            args.none(name)?;
            let text = interp.soft_str(value)?;
            interp.scan(text.len())?;
            let words = text.split(|c: char| c != '_' && !c.is_alphanumeric());
            let count = words.filter(|word| !word.is_empty()).count();
            Ok(Value::Int(i64::try_from(count).unwrap_or(i64::MAX)))
        }
        "pprint" => pretty(interp, value, args),
        other => Err(TypeFault::Filter(String::from(other)).into()),
    }
}

fn title(interp: &mut Interp<'_>, value: &Value) -> Run<Value> {
    let text = interp.soft_str(value)?;
    interp.scan(text.len())?;
    let _room = interp.meter.charge(text.len().saturating_mul(3))?;
    let separates = |c: char| is_space(c) || matches!(c, '-' | '(' | '{' | '[' | '<');
    let mut result = String::with_capacity(text.len());
    let mut starts = true;
    let mut word = String::new();
    for c in text.chars() {
        if separates(c) {
            result.push_str(&word.to_lowercase());
            word.clear();
            result.push(c);
            starts = true;
        } else if starts {
            result.extend(c.to_uppercase());
            starts = false;
        } else {
            word.push(c);
        }
    }
    result.push_str(&word.to_lowercase());
    interp.text(&result)
}

fn indent(interp: &mut Interp<'_>, value: &Value, args: Arguments) -> Run<Value> {
    let [width, first, blank] = args.bind("indent", ["width", "first", "blank"])?;
    let (first, blank) = (flag(first, false), flag(blank, false));
    let indent: Str = match width {
        None => "    ".into(),
        Some(Value::Str(text)) => text,
        Some(other) => match other.as_int() {
            Some(width) => {
                let width = usize::try_from(width).unwrap_or(0);
                let mut buffer = interp.buffer_of(width)?;
                buffer.push_repeated(" ", width)?;
                Str::from_buffer(buffer)
            }
            None => return bad_value("indent", "the width must be an integer or a string"),
        },
    };
    let Value::Str(of) = value else {
        if let Value::Undefined(missing) = value {
            return Err(crate::jinja::error::Fault::Undefined(missing.why.clone()));
        }
        return not(value.type_name(), "a string");
    };
    interp.scan(of.len())?;
    let mut buffer = interp.buffer_of(of.len())?;
    if first {
        buffer.push_str(&indent)?;
    }
    // As if one more line end followed the text.
    let ended = of.ends_with(|c| {
        matches!(
            c,
            '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    }) && !of.ends_with('\r');
    let last = (of.is_empty() || ended).then_some("");
    for (nth, line) in split_lines(of, false).chain(last).enumerate() {
        if nth > 0 {
            buffer.push_str("\n")?;
            if blank || !line.is_empty() {
                interp.touch(indent.len())?;
                buffer.push_str(&indent)?;
            }
        }
        buffer.push_str(line)?;
    }
    Ok(interp.finish_like(buffer, of))
}

fn truncate(interp: &mut Interp<'_>, value: &Value, args: Arguments) -> Run<Value> {
    let names = ["length", "killwords", "end", "leeway"];
    let [length, kill, end, leeway] = args.bind("truncate", names)?;
    let Value::Str(of) = value else {
        return truncate_other(interp, value, length, leeway);
    };
    let length = int(length, "truncate")?.unwrap_or(255);
    let leeway = int(leeway, "truncate")?.unwrap_or(5);
    let end = text(end, "truncate")?.unwrap_or_else(|| "...".into());
    let (Ok(length), Ok(leeway)) = (usize::try_from(length), usize::try_from(leeway)) else {
        return bad_value("truncate", "length and leeway must not be negative");
    };
    let Some(room) = length.checked_sub(end.char_count()) else {
        return bad_value("truncate", "the length is less than that of the end");
    };
    interp.touch(of.len())?;
    if of.char_count() <= length.saturating_add(leeway) {
        return Ok(value.clone());
    }
    let mut kept = of.chars_between(0, room);
    if !flag(kill, false) {
        kept = kept.rsplit_once(' ').map_or(kept, |(before, _)| before);
    }
    let mut buffer = interp.buffer_of(kept.len().saturating_add(end.len()))?;
    buffer.push_str(kept)?;
    buffer.push_str(&end)?;
    Ok(interp.finish_like(buffer, of))
}

/// Anything that is short enough passes.
fn truncate_other(
    interp: &mut Interp<'_>,
    value: &Value,
    length: Option<Value>,
    leeway: Option<Value>,
) -> Run<Value> {
    let most = int(length, "truncate")?
        .unwrap_or(255)
        .saturating_add(int(leeway, "truncate")?.unwrap_or(5));
    let fits = i64::try_from(interp.length(value)?).is_ok_and(|len| len <= most);
    if fits {
        Ok(value.clone())
    } else {
        not(value.type_name(), "a string")
    }
}

/// Python's `pprint` for what fits a line.
fn pretty(interp: &mut Interp<'_>, value: &Value, args: Arguments) -> Run<Value> {
    args.none("pprint")?;
    let sorted = match value {
        Value::Map(map) => {
            let args = Arguments {
                positional: alloc::vec![Value::Bool(true)],
                named: Vec::new(),
            };
            let pairs = super::apply(interp, "dictsort", Value::Map(map.clone()), args)?;
            let pairs = interp.collect(&pairs)?;
            let pairs = pairs.iter().filter_map(|pair| match pair.as_slice() {
                Some([key, value]) => Some((key.clone(), value.clone())),
                _ => None,
            });
            Value::Map(interp.map_of(pairs)?)
        }
        other => other.clone(),
    };
    let text = interp.repr_of(&sorted)?;
    if text.chars().count() <= 80 {
        Ok(Value::Str(text))
    } else {
        Err(TypeFault::Unsupported("pprint of more than one line").into())
    }
}
