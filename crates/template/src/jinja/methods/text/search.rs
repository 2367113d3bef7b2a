//! Searching, splitting and joining.

use super::needed;
use crate::jinja::arguments::{Arguments, int, required, text};
use crate::jinja::error::{Run, bad_value, not};
use crate::jinja::eval::{Interp, slice_indices};
use crate::jinja::filters::html;
use crate::jinja::lexer::is_space;
use crate::jinja::value::{Str, Value};

pub(super) fn split(
    interp: &mut Interp<'_>,
    of: &Str,
    name: &'static str,
    args: Arguments,
) -> Run<Value> {
    let [separator, most] = args.bind(name, ["sep", "maxsplit"])?;
    let separator = text(separator, name)?;
    let most = int(most, name)?.unwrap_or(-1);
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if separator.is_none() {
        interp.scan(of.len())?;
    }
    let mut parts = interp.growing()?;
    let whole: &str = of;
    let mut push = |part: &str| -> Run<()> {
        let part = interp.text_like(part, of)?;
        parts.push(part)
    };
    match separator {
        Some(separator) if separator.is_empty() => return bad_value("split", "empty separator"),
        Some(separator) if name == "split" => {
            for part in whole.splitn(most.saturating_add(1), &*separator) {
                push(part)?;
            }
        }
        Some(separator) => {
            for part in whole.rsplitn(most.saturating_add(1), &*separator) {
                push(part)?;
            }
        }
        None if name == "split" => {
            let mut rest = whole.trim_start_matches(is_space);
            let mut left = most;
            while !rest.is_empty() {
                let end = match left {
                    0 => rest.len(),
                    _ => rest.find(is_space).unwrap_or(rest.len()),
                };
                push(rest.get(..end).unwrap_or(""))?;
                rest = rest.get(end..).unwrap_or("").trim_start_matches(is_space);
                left = left.saturating_sub(1);
            }
        }
        None => {
            let mut rest = whole.trim_end_matches(is_space);
            let mut left = most;
            while !rest.is_empty() {
                let start = match left {
                    0 => 0,
                    _ => rest
                        .char_indices()
                        .rfind(|&(_, c)| is_space(c))
                        .map_or(0, |(at, c)| at + c.len_utf8()),
                };
                push(rest.get(start..).unwrap_or(""))?;
                rest = rest.get(..start).unwrap_or("").trim_end_matches(is_space);
                left = left.saturating_sub(1);
            }
        }
    }
    if name == "rsplit" {
        parts.items_mut().reverse();
    }
    Ok(Value::List(interp.finish_list(parts)?))
}

/// The lines of a text by Python's many line ends.
pub(crate) fn split_lines(text: &str, keep_ends: bool) -> impl Iterator<Item = &str> {
    let mut rest = text;
    core::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let is_end = |c| {
            matches!(
                c,
                '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'
                    ..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}'
            )
        };
        let end = rest.find(is_end).unwrap_or(rest.len());
        let (line, after) = rest.split_at_checked(end)?;
        let ending = if after.starts_with("\r\n") {
            2
        } else {
            after.chars().next().map_or(0, char::len_utf8)
        };
        let kept = if keep_ends { end + ending } else { end };
        let line = rest.get(..kept).unwrap_or(line);
        rest = after.get(ending..).unwrap_or("");
        Some(line)
    })
}

/// The part of `of` between two optional code-point indices, and the byte it starts at.
fn window(of: &Str, start: Option<Value>, stop: Option<Value>) -> Run<Option<(&str, usize)>> {
    let bounds = [int(start, "index")?, int(stop, "index")?, None];
    if bounds[0].is_none() && bounds[1].is_none() {
        return Ok(Some((of, 0)));
    }
    let len = of.char_count();
    let beyond = bounds[0].is_some_and(|start| usize::try_from(start).is_ok_and(|at| at > len));
    match slice_indices(bounds, len) {
        Some((first, count, _)) if !beyond => {
            let first = usize::try_from(first).unwrap_or(0);
            Ok(Some((
                of.chars_between(first, first + count),
                of.byte_of(first),
            )))
        }
        _ => Ok(None),
    }
}

pub(super) fn affix(
    interp: &mut Interp<'_>,
    of: &Str,
    name: &'static str,
    args: Arguments,
) -> Run<Value> {
    let [affix, start, stop] = args.bind(name, ["affix", "start", "end"])?;
    let affix = required(affix, name, "affix")?;
    let Some((part, _)) = window(of, start, stop)? else {
        return Ok(Value::Bool(false));
    };
    let matches = |affix: &Value| match affix {
        Value::Str(affix) if name == "startswith" => Ok(part.starts_with(&**affix)),
        Value::Str(affix) => Ok(part.ends_with(&**affix)),
        other => not(other.type_name(), "a string or a tuple of strings"),
    };
    if let Value::Tuple(items) = &affix {
        for item in items.iter() {
            interp.step(1)?;
            if matches(item)? {
                return Ok(Value::Bool(true));
            }
        }
        return Ok(Value::Bool(false));
    }
    Ok(Value::Bool(matches(&affix)?))
}

pub(super) fn search(of: &Str, name: &'static str, args: Arguments) -> Run<Value> {
    let [part, start, stop] = args.bind(name, ["sub", "start", "end"])?;
    let part = needed(part, name, "sub")?;
    let window = window(of, start, stop)?;
    if name == "count" {
        let count = match window {
            None => 0,
            Some((text, _)) if part.is_empty() => text.chars().count() + 1,
            Some((text, _)) => text.matches(&*part).count(),
        };
        return Ok(Value::Int(i64::try_from(count).unwrap_or(i64::MAX)));
    }
    let found = window.and_then(|(text, offset)| {
        let at = match name {
            "find" | "index" => text.find(&*part),
            _ => text.rfind(&*part),
        };
        at.map(|at| of.char_of(offset + at))
    });
    match found {
        Some(at) => Ok(Value::Int(i64::try_from(at).unwrap_or(i64::MAX))),
        None if matches!(name, "index" | "rindex") => bad_value("index", "substring not found"),
        None => Ok(Value::Int(-1)),
    }
}

pub(super) fn partition(
    interp: &mut Interp<'_>,
    of: &Str,
    name: &'static str,
    args: Arguments,
) -> Run<Value> {
    let [separator] = args.bind(name, ["sep"])?;
    let separator = needed(separator, name, "sep")?;
    if separator.is_empty() {
        return bad_value("partition", "empty separator");
    }
    let split = match name {
        "partition" => of.split_once(&*separator),
        _ => of.rsplit_once(&*separator),
    };
    let parts = match split {
        Some((before, after)) => [before, &separator, after],
        None if name == "partition" => [of, "", ""],
        None => ["", "", of],
    };
    let mut items = interp.growing()?;
    for part in parts {
        let part = interp.text_like(part, of)?;
        items.push(part)?;
    }
    Ok(Value::Tuple(interp.finish_list(items)?))
}

pub(super) fn join(interp: &mut Interp<'_>, of: &Str, args: Arguments) -> Run<Value> {
    let [items] = args.bind("join", ["iterable"])?;
    let items = required(items, "join", "iterable")?;
    let items = interp.collect(&items)?;
    let mut buffer = interp.buffer()?;
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            interp.touch(of.len())?;
            buffer.push_str(of)?;
        }
        let Value::Str(text) = item else {
            return not(item.type_name(), "a string to join");
        };
        interp.touch(text.len())?;
        if of.is_markup() && !text.is_markup() {
            html::escape_into(&mut buffer, text)?;
        } else {
            buffer.push_str(text)?;
        }
    }
    Ok(interp.finish_like(buffer, of))
}
