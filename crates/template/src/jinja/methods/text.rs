//! Methods of strings.

mod search;

use super::unicode::{decimal, is_cased, is_digit, push_title};
use crate::jinja::arguments::{Arguments, flag, int, required, text};
use crate::jinja::error::{Run, TypeFault, bad_value, not};
use crate::jinja::eval::Interp;
use crate::jinja::filters::html;
use crate::jinja::format;
use crate::jinja::lexer::is_space;
use crate::jinja::value::{Str, Value};
use alloc::string::String;
pub(crate) use search::split_lines;
use search::{affix, join, partition, search, split};

pub(super) const NAMES: [&str; 44] = [
    "strip",
    "lstrip",
    "rstrip",
    "split",
    "rsplit",
    "splitlines",
    "startswith",
    "endswith",
    "replace",
    "upper",
    "lower",
    "title",
    "capitalize",
    "join",
    "format",
    "format_map",
    "find",
    "rfind",
    "index",
    "rindex",
    "count",
    "isdigit",
    "isalpha",
    "isalnum",
    "isspace",
    "isnumeric",
    "isdecimal",
    "islower",
    "isupper",
    "istitle",
    "isascii",
    "isidentifier",
    "isprintable",
    "zfill",
    "removeprefix",
    "removesuffix",
    "partition",
    "rpartition",
    "swapcase",
    "casefold",
    "center",
    "ljust",
    "rjust",
    "expandtabs",
];

pub(super) fn call(
    interp: &mut Interp<'_>,
    of: &Str,
    name: &'static str,
    args: Arguments,
) -> Run<Value> {
    interp.touch(of.len())?;
    match name {
        "strip" | "lstrip" | "rstrip" => {
            let [chars] = args.bind(name, ["chars"])?;
            let chars = text(chars, name)?;
            let stripped = strip(interp, of, chars.as_deref(), name)?;
            if stripped.len() == of.len() {
                return Ok(Value::Str(of.clone()));
            }
            interp.text_like(stripped, of)
        }
        "split" | "rsplit" => split(interp, of, name, args),
        "splitlines" => {
            let [keep] = args.bind(name, ["keepends"])?;
            let keep = flag(keep, false);
            interp.scan(of.len())?;
            let mut lines = interp.growing()?;
            for line in split_lines(of, keep) {
                let line = interp.text_like(line, of)?;
                lines.push(line)?;
            }
            Ok(Value::List(interp.finish_list(lines)?))
        }
        "startswith" | "endswith" => affix(interp, of, name, args),
        "find" | "rfind" | "index" | "rindex" | "count" => search(of, name, args),
        "partition" | "rpartition" => partition(interp, of, name, args),
        "join" => join(interp, of, args),
        "format" => format::braces(interp, of, &args),
        "format_map" => {
            let [map] = args.bind(name, ["mapping"])?;
            match map {
                Some(Value::Map(map)) => {
                    let mut args = Arguments::default();
                    for (key, value) in map.iter() {
                        let key = key.as_str().unwrap_or_default();
                        args.named.push((key.into(), value.clone()));
                    }
                    format::braces(interp, of, &args)
                }
                _ => Err(TypeFault::Unsupported("format_map of anything but a dict").into()),
            }
        }
        "replace" => {
            let [old, new, count] = args.bind(name, ["old", "new", "count"])?;
            let old = needed(old, "replace", "old")?;
            let new = needed(new, "replace", "new")?;
            let new = if of.is_markup() && !new.is_markup() {
                html::escape(interp, &new)?
            } else {
                new
            };
            let count = int(count, "replace")?.unwrap_or(-1);
            replace(interp, of, &old, &new, count)
        }
        "removeprefix" | "removesuffix" => {
            let [affix] = args.bind(name, ["affix"])?;
            let affix = needed(affix, name, "affix")?;
            let rest = match name {
                "removeprefix" => of.strip_prefix(&*affix),
                _ => of.strip_suffix(&*affix),
            };
            match rest {
                Some(rest) => interp.text_like(rest, of),
                None => Ok(Value::Str(of.clone())),
            }
        }
        "zfill" | "center" | "ljust" | "rjust" => justify(interp, of, name, args),
        "upper" | "lower" | "title" | "capitalize" | "swapcase" | "casefold" => {
            args.none(name)?;
            change_case(interp, of, name)
        }
        "expandtabs" => {
            let [size] = args.bind(name, ["tabsize"])?;
            expand_tabs(interp, of, int(size, name)?.unwrap_or(8))
        }
        _ => {
            args.none(name)?;
            interp.scan(of.len())?;
            Ok(Value::Bool(is(of, name)))
        }
    }
}

fn needed(value: Option<Value>, function: &'static str, name: &'static str) -> Run<Str> {
    match required(value, function, name)? {
        Value::Str(text) => Ok(text),
        other => not(other.type_name(), "a string"),
    }
}

/// Strips white space, or the characters of `chars`, from the ends that `name` says.
pub(crate) fn strip<'s>(
    interp: &mut Interp<'_>,
    text: &'s str,
    chars: Option<&str>,
    name: &str,
) -> Run<&'s str> {
    let mut set = interp.growing()?;
    for c in chars.unwrap_or("").chars() {
        interp.step(1)?;
        set.push(c)?;
    }
    set.items_mut().sort_unstable();
    let set = set.as_slice();
    let matches = |c: char| match chars {
        Some(_) => set.binary_search(&c).is_ok(),
        None => is_space(c),
    };
    let stripped = match name {
        "lstrip" => text.trim_start_matches(matches),
        "rstrip" => text.trim_end_matches(matches),
        _ => text.trim_matches(matches),
    };
    interp.scan(text.len() - stripped.len())?;
    Ok(stripped)
}

/// Python's `str.replace`; a negative count means all.
pub(crate) fn replace(
    interp: &mut Interp<'_>,
    of: &Str,
    old: &str,
    new: &str,
    count: i64,
) -> Run<Value> {
    let mut left = usize::try_from(count).unwrap_or(usize::MAX);
    let mut buffer = interp.buffer()?;
    interp.touch(of.len())?;
    if old.is_empty() {
        let mut chars = of.chars();
        while left > 0 {
            interp.touch(new.len())?;
            buffer.push_str(new)?;
            left -= 1;
            match chars.next() {
                Some(c) => buffer.push(c)?,
                None => break,
            }
        }
        buffer.push_str(chars.as_str())?;
        return Ok(interp.finish_like(buffer, of));
    }
    let mut rest: &str = of;
    while left > 0
        && let Some((before, after)) = rest.split_once(old)
    {
        interp.touch(new.len())?;
        buffer.push_str(before)?;
        buffer.push_str(new)?;
        rest = after;
        left -= 1;
    }
    buffer.push_str(rest)?;
    Ok(interp.finish_like(buffer, of))
}

fn justify(interp: &mut Interp<'_>, of: &Str, name: &'static str, args: Arguments) -> Run<Value> {
    let [width, fill] = args.bind(name, ["width", "fillchar"])?;
    let width = int(Some(required(width, name, "width")?), name)?.unwrap_or(0);
    let fill = text(fill, name)?.unwrap_or_else(|| " ".into());
    if fill.char_count() != 1 {
        return bad_value(
            "justify",
            "the fill character must be exactly one character long",
        );
    }
    let mut buffer = interp.buffer()?;
    let missing = usize::try_from(width)
        .unwrap_or(0)
        .saturating_sub(of.char_count());
    let (mut lead, mut body): (&str, &str) = ("", of);
    let (left, right) = match name {
        "ljust" => (0, missing),
        // Python puts the odd one on the left when the width is odd.
        "center" => {
            let left = missing / 2 + (missing & usize::try_from(width).unwrap_or(0) & 1);
            (left, missing - left)
        }
        _ => (missing, 0),
    };
    if name == "zfill" && body.starts_with(['+', '-']) {
        (lead, body) = body.split_at_checked(1).unwrap_or(("", body));
    }
    let fill = if name == "zfill" { "0" } else { &*fill };
    buffer.push_str(lead)?;
    buffer.push_repeated(fill, left)?;
    buffer.push_str(body)?;
    buffer.push_repeated(fill, right)?;
    interp.touch(buffer.len())?;
    Ok(interp.finish_like(buffer, of))
}

/// Upper, lower and title case. No mapping makes a text more than three times as long.
pub(crate) fn change_case(interp: &mut Interp<'_>, of: &Str, name: &str) -> Run<Value> {
    interp.scan(of.len())?;
    let _room = interp.meter.charge(of.len().saturating_mul(3))?;
    let changed = match name {
        "upper" => of.to_uppercase(),
        "lower" => of.to_lowercase(),
        "title" => title(of),
        "capitalize" => {
            let mut chars = of.chars();
            let mut text = String::with_capacity(of.len());
            if let Some(first) = chars.next() {
                push_title(&mut text, first);
            }
            text + &chars.as_str().to_lowercase()
        }
        "casefold" => of.to_lowercase().replace('ß', "ss").replace('ς', "σ"),
        _ => {
            let mut text = String::with_capacity(of.len());
            for c in of.chars() {
                if c.is_uppercase() {
                    text.extend(c.to_lowercase());
                } else {
                    text.extend(c.to_uppercase());
                }
            }
            text
        }
    };
    interp.text_like(&changed, of)
}

fn title(of: &str) -> String {
    let mut text = String::with_capacity(of.len());
    let mut inside = false;
    for c in of.chars() {
        if inside {
            text.extend(c.to_lowercase());
        } else {
            push_title(&mut text, c);
        }
        inside = is_cased(c);
    }
    text
}

fn expand_tabs(interp: &mut Interp<'_>, of: &Str, size: i64) -> Run<Value> {
    let size = usize::try_from(size).unwrap_or(0);
    let mut buffer = interp.buffer()?;
    interp.scan(of.len())?;
    let mut column = 0_usize;
    for c in of.chars() {
        match c {
            '\t' => {
                let missing = column.checked_rem(size).map_or(0, |rest| size - rest);
                interp.touch(missing)?;
                buffer.push_repeated(" ", missing)?;
                column = column.saturating_add(missing);
            }
            c => {
                buffer.push(c)?;
                column = if matches!(c, '\n' | '\r') {
                    0
                } else {
                    column + 1
                };
            }
        }
    }
    Ok(interp.finish_like(buffer, of))
}

/// The questions `is…()`.
pub(crate) fn is(of: &str, name: &str) -> bool {
    let all = |test: fn(char) -> bool| !of.is_empty() && of.chars().all(test);
    match name {
        "isdigit" => all(is_digit),
        "isdecimal" => all(|c| decimal(c).is_some()),
        "isnumeric" => all(|c| c.is_numeric() || is_digit(c)),
        "isalpha" => all(char::is_alphabetic),
        "isalnum" => all(|c| c.is_alphanumeric() || is_digit(c)),
        "isspace" => all(is_space),
        "isascii" => of.is_ascii(),
        "islower" => {
            of.chars().any(char::is_lowercase)
                && !of.chars().any(|c| is_cased(c) && !c.is_lowercase())
        }
        "isupper" => {
            of.chars().any(char::is_uppercase)
                && !of.chars().any(|c| is_cased(c) && !c.is_uppercase())
        }
        "istitle" => of.chars().any(is_cased) && title(of) == of,
        "isidentifier" => {
            let part = |c: char| c == '_' || c.is_alphanumeric();
            of.starts_with(|c: char| part(c) && !c.is_numeric()) && of.chars().all(part)
        }
        "isprintable" => of
            .chars()
            .all(|c| c == ' ' || !(c.is_control() || is_space(c))),
        _ => false,
    }
}
